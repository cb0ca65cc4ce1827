"""Frameworks in the proxy: validated, defaulted, and forwarded as JSON."""

from collections.abc import AsyncIterator

import pytest
import yaml
from aiohttp import web

from launcher.core.defaults import with_defaults
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests import builders
from tests.api.client import APPLY, JSON, YAML
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer
from tests.api.proxy.proxies import ProxyClient, run_proxy
from tests.api.samples import ALL, A, B, Json, framework, with_spec

_WARNING = (
    '299 - "unknown field \\"spec.taskRoles[0].task.pod.spec.containers[0].olumeMounts\\"; '
    'did you mean \\"volumeMounts\\"?"'
)


def misspelled() -> Json:
    obj = framework()
    obj["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]["olumeMounts"] = []
    return obj


def with_namespace(obj: Json) -> Json:
    """As the API server gets it."""
    complete = with_defaults(obj)
    complete["metadata"]["namespace"] = "default"
    complete["spec"]["replicas"] = complete["spec"]["taskRoles"][0]["taskNumber"]
    return complete


@pytest.mark.parametrize("path", [B, f"{B}/", B.replace("frameworks", "%66rameworks"), f"{B}?dryRun=All"])
async def test_a_new_framework_is_forwarded_with_its_defaults(
    proxy: ProxyClient, cluster: FakeApiServer, path: str
) -> None:
    answer = await proxy.post(path, framework())

    assert answer.status == 200
    assert cluster.last.path == path
    assert cluster.last.json() == with_namespace(framework()) != framework()
    assert cluster.last.headers["Content-Type"] == JSON


async def test_a_replaced_framework_is_forwarded_with_its_defaults(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    given = framework(resourceVersion="7", uid="u")

    await proxy.put(A, given)

    assert cluster.last.json() == with_namespace(given)


@pytest.mark.parametrize("media", [YAML, "application/x-yaml", "text/yaml; charset=utf-8"])
async def test_yaml_is_forwarded_as_json(proxy: ProxyClient, cluster: FakeApiServer, media: str) -> None:
    await proxy.post(B, yaml.safe_dump(framework()), media)

    assert cluster.last.json() == with_namespace(framework())
    assert cluster.last.headers["Content-Type"] == JSON


async def test_a_large_framework_is_validated_like_a_small_one(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    large = framework(annotations={"much": "x" * 100_000})

    await proxy.post(B, yaml.safe_dump(large), YAML)

    assert cluster.last.json() == with_namespace(large)


async def test_warnings_of_the_proxy_are_added_to_those_of_the_api_server(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, status=201, headers={"Warning": '299 - "theirs"'})

    cluster.answer = answer
    answered = await proxy.post(B, misspelled())

    assert (answered.status, answered.warnings) == (201, ['299 - "theirs"', _WARNING])
    # A newer release of Kubernetes may define the field of the pod template.
    containers = cluster.last.json()["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]
    assert "olumeMounts" in containers[0]


async def test_a_warning_of_the_webhook_is_not_repeated(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, headers={"Warning": _WARNING})

    cluster.answer = answer

    assert (await proxy.post(B, misspelled())).warnings == [_WARNING]


async def test_unknown_fields_are_handled_as_fieldvalidation_requests(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    strict = await proxy.post(f"{B}?fieldValidation=Strict", misspelled())
    ignored = await proxy.post(f"{B}?fieldValidation=Ignore", misspelled())
    odd = await proxy.post(f"{B}?fieldValidation=Odd", misspelled())

    assert "olumeMounts" in strict.failure(400, "BadRequest")["message"]
    assert (ignored.status, ignored.warnings) == (200, [])
    odd.failure(422, "Invalid")
    assert len(cluster.requests) == 1


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
            id="the default type of curl",
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
async def test_an_invalid_framework_is_not_forwarded(
    proxy: ProxyClient, cluster: FakeApiServer, body: Json | bytes, media: str, code: int, reason: str
) -> None:
    (await proxy.post(B, body, media)).failure(code, reason)

    assert cluster.requests == []


async def test_an_error_names_the_framework_and_the_field(proxy: ProxyClient) -> None:
    reported = (await proxy.post(B, with_spec(framework("mnist"), executionType="Go"))).failure(
        422, "Invalid"
    )

    assert reported["details"]["name"] == "mnist"
    assert reported["details"]["causes"][0]["field"] == "spec.executionType"


async def test_a_name_that_differs_from_the_url_is_reported_first(proxy: ProxyClient) -> None:
    wrong = with_spec(framework("b"), executionType="Go")

    reported = (await proxy.put(A, wrong)).failure(400, "BadRequest")

    assert "does not match the name on the URL" in reported["message"]


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
async def test_patches_and_subresources_are_not_validated(
    proxy: ProxyClient, cluster: FakeApiServer, method: str, path: str
) -> None:
    await proxy.call(method, path, b"{odd", JSON)

    assert cluster.last.body == b"{odd"


async def test_an_apply_is_forwarded_unchanged(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    await proxy.patch(f"{A}?fieldManager=me", b"kind: Odd", APPLY)

    assert cluster.last.body == b"kind: Odd"


@pytest.fixture
async def strict_proxy(cluster: FakeApiServer) -> AsyncIterator[ProxyClient]:
    """A policy that forbids the host network."""
    policy = AdmissionPolicy(host_network=False)
    async with run_proxy(
        ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS)), policy=policy
    ) as running:
        yield running


async def test_the_admission_policy_is_enforced(strict_proxy: ProxyClient, cluster: FakeApiServer) -> None:
    forbidden = builders.a_framework(name="a")
    forbidden["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["hostNetwork"] = True

    reported = (await strict_proxy.post(B, forbidden)).failure(422, "Invalid")

    assert "hostNetwork" in reported["message"]
    assert cluster.requests == []
