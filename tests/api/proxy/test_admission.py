"""Frameworks that come through the front door: checked, completed, and sent on as JSON."""

from collections.abc import AsyncIterator

import pytest
import yaml
from aiohttp import web

from launcher.core.defaults import defaulted
from launcher.core.validation.admission_policy import Policy
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.client import APPLY, JSON, YAML
from tests.api.proxy.conftest import OWN
from tests.api.proxy.doors import Door, door_to
from tests.api.proxy.upstream import ApiServer
from tests.api.samples import ALL, A, B, Json, framework, with_spec
from tests.core import manifests

_MISSPELT = (
    '299 - "unknown field \\"spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts\\"; '
    'did you mean \\"volumeMounts\\"?"'
)


def misspelt() -> Json:
    obj = framework()
    obj["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["olumeMounts"] = []
    return obj


def placed(obj: Json) -> Json:
    """As the API server gets it."""
    complete = defaulted(obj)
    complete["metadata"]["namespace"] = "default"
    complete["spec"]["replicas"] = complete["spec"]["taskRoles"][0]["taskNumber"]
    return complete


@pytest.mark.parametrize("path", [B, f"{B}/", B.replace("frameworks", "%66rameworks"), f"{B}?dryRun=All"])
async def test_a_new_framework_is_sent_on_with_its_defaults(
    door: Door, cluster: ApiServer, path: str
) -> None:
    answer = await door.post(path, framework())

    assert answer.status == 200
    assert cluster.last.path == path
    assert cluster.last.json() == placed(framework()) != framework()
    assert cluster.last.headers["Content-Type"] == JSON


async def test_so_is_one_in_the_place_of_another(door: Door, cluster: ApiServer) -> None:
    given = framework(resourceVersion="7", uid="u")

    await door.put(A, given)

    assert cluster.last.json() == placed(given)


@pytest.mark.parametrize("media", [YAML, "application/x-yaml", "text/yaml; charset=utf-8"])
async def test_yaml_is_sent_on_as_json(door: Door, cluster: ApiServer, media: str) -> None:
    await door.post(B, yaml.safe_dump(framework()), media)

    assert cluster.last.json() == placed(framework())
    assert cluster.last.headers["Content-Type"] == JSON


async def test_a_large_framework_is_read_like_a_small_one(door: Door, cluster: ApiServer) -> None:
    large = framework(annotations={"much": "x" * 100_000})

    await door.post(B, yaml.safe_dump(large), YAML)

    assert cluster.last.json() == placed(large)


async def test_what_the_checks_find_stands_beside_what_the_api_server_says(
    door: Door, cluster: ApiServer
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, status=201, headers={"Warning": '299 - "theirs"'})

    cluster.answer = answer
    answered = await door.post(B, misspelt())

    assert (answered.status, answered.warnings) == (201, ['299 - "theirs"', _MISSPELT])
    # The pod template is the user's own: another release of Kubernetes may know the field.
    containers = cluster.last.json()["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]
    assert "olumeMounts" in containers[0]


async def test_what_the_webhook_has_said_already_is_not_said_twice(door: Door, cluster: ApiServer) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, headers={"Warning": _MISSPELT})

    cluster.answer = answer

    assert (await door.post(B, misspelt())).warnings == [_MISSPELT]


async def test_unknown_fields_are_warned_of_refused_or_passed_over_as_asked(
    door: Door, cluster: ApiServer
) -> None:
    strict = await door.post(f"{B}?fieldValidation=Strict", misspelt())
    ignored = await door.post(f"{B}?fieldValidation=Ignore", misspelt())
    odd = await door.post(f"{B}?fieldValidation=Odd", misspelt())

    assert "olumeMounts" in strict.refused(400, "BadRequest")["message"]
    assert (ignored.status, ignored.warnings) == (200, [])
    odd.refused(422, "Invalid")
    assert len(cluster.asked) == 1


@pytest.mark.parametrize(
    ("body", "media", "code", "reason"),
    [
        pytest.param(with_spec(framework(), executionType="Go"), JSON, 422, "Invalid", id="it breaks a rule"),
        pytest.param(b"{", JSON, 400, "BadRequest", id="it is no JSON"),
        pytest.param(b"[]", JSON, 400, "BadRequest", id="it is no object"),
        pytest.param(b"a: b: c", YAML, 400, "BadRequest", id="it is no YAML"),
        pytest.param({"kind": "Pod", "apiVersion": "v1"}, JSON, 400, "BadRequest", id="it is something else"),
        pytest.param(framework(namespace="other"), JSON, 400, "BadRequest", id="it belongs elsewhere"),
        pytest.param(
            b"a=b",
            "application/x-www-form-urlencoded",
            415,
            "UnsupportedMediaType",
            id="curl was told no type",
        ),
        pytest.param(b"x" * (3 * 2**20 + 1), YAML, 413, "RequestEntityTooLarge", id="it is too large"),
        pytest.param(
            b"a: &a [x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
            + b"".join(
                b"%c: &%c [%s]\n" % (letter, letter, b",".join([b"*%c" % (letter - 1)] * 9))
                for letter in b"cdefghi"
            ),
            YAML,
            400,
            "BadRequest",
            id="it is a bomb",
        ),
    ],
)
async def test_what_cannot_be_a_framework_never_reaches_the_api_server(
    door: Door, cluster: ApiServer, body: Json | bytes, media: str, code: int, reason: str
) -> None:
    (await door.post(B, body, media)).refused(code, reason)

    assert cluster.asked == []


async def test_a_refusal_names_the_framework_and_the_field(door: Door) -> None:
    told = (await door.post(B, with_spec(framework("mnist"), executionType="Go"))).refused(422, "Invalid")

    assert told["details"]["name"] == "mnist"
    assert told["details"]["causes"][0]["field"] == "spec.executionType"


async def test_a_name_that_differs_from_the_address_is_the_greater_mistake(door: Door) -> None:
    wrong = with_spec(framework("b"), executionType="Go")

    told = (await door.put(A, wrong)).refused(400, "BadRequest")

    assert "metadata.name" in told["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", ALL, id="in no namespace"),
        pytest.param("PUT", f"{A}/status", id="a status"),
        pytest.param("PUT", f"{A}/scale", id="a scale"),
        pytest.param("POST", A, id="a name that is made by others"),
        pytest.param("DELETE", A, id="a deletion"),
        pytest.param("POST", B.replace("v1", "v2"), id="another version"),
        pytest.param("POST", B.replace("launcher.", "frameworkcontroller."), id="another group"),
    ],
)
async def test_what_is_no_whole_framework_is_the_api_servers_to_judge(
    door: Door, cluster: ApiServer, method: str, path: str
) -> None:
    await door.call(method, path, b"{odd", JSON)

    assert cluster.last.body == b"{odd"


async def test_an_apply_is_the_api_servers_to_judge(door: Door, cluster: ApiServer) -> None:
    await door.patch(f"{A}?fieldManager=me", b"kind: Odd", APPLY)

    assert cluster.last.body == b"kind: Odd"


@pytest.fixture
async def strict_door(cluster: ApiServer) -> AsyncIterator[Door]:
    """Of an admin who allows no host network."""
    policy = Policy(host_network=False)
    async with door_to(ClusterConfig(cluster.url, FixedHeader(OWN)), policy=policy) as running:
        yield running


async def test_the_admins_policy_holds(strict_door: Door, cluster: ApiServer) -> None:
    asking = manifests.a_framework(name="a")
    asking["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["hostNetwork"] = True

    told = (await strict_door.post(B, asking)).refused(422, "Invalid")

    assert "hostNetwork" in told["message"]
    assert cluster.asked == []
