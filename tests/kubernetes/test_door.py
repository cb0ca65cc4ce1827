"""The front door before a real control plane: to a client it is the cluster itself, and Frameworks are checked."""

import http.client
import os
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
import yaml
from kubernetes import client, watch

from launcher.api.proxy.app import ask_for_certificates
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from launcher.tls.client_context import ClientTls
from launcher.tls.server_context import server_context
from tests.api.proxy.standing import standing_door
from tests.cluster.controlplane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.users import User, kubeconfig
from tests.core.manifests import a_framework
from tests.kubernetes.launcher import KubeLauncher
from tests.local.server import PATIENCE, until
from tests.local.test_seeds import manual

#: The client tells no types.
Watch: Any = watch.Watch
_GROUP = "launcher.microsoft.com"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
#: What differs between any two answers.
_OWN = {"date", "audit-id", "server", "connection"}
_POD_PARTS = ("pods/log", "pods/exec", "pods/portforward")
_ALL = [{"apiGroups": [_GROUP], "resources": ["*"], "verbs": ["*"]}]


def frameworks(namespace: str) -> str:
    return f"/apis/{_GROUP}/v1/namespaces/{namespace}/frameworks"


@dataclass(frozen=True, slots=True)
class Said:
    """A whole answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "warning"]

    def comparable(self) -> tuple[int, list[tuple[str, str]], bytes]:
        return self.status, sorted(pair for pair in self.headers if pair[0] not in _OWN), self.body


class Speaker:
    """Sends what it is told to one server."""

    def __init__(self, url: str, authority: Path, user: User | None) -> None:
        self._address = urlsplit(url)
        self._context = ssl.create_default_context(cafile=str(authority))
        self._headers = {"User-Agent": "speaker", "Accept": "application/json"}
        if user is not None and user.token:
            self._headers["Authorization"] = f"Bearer {user.token}"
        if user is not None and user.certificate is not None:
            self._context.load_cert_chain(user.certificate.certificate, user.certificate.key)

    def say(
        self, method: str, path: str, body: Any = None, media: str = "application/json", **headers: str
    ) -> Said:
        data = body if isinstance(body, bytes | None) else orjson.dumps(body)
        with self.open(method, path, data, media, **headers) as response:
            said = response.read()
            return Said(response.status, [(n.lower(), v) for n, v in response.getheaders()], said)

    def open(
        self, method: str, path: str, data: bytes | None = None, media: str = "", **headers: str
    ) -> http.client.HTTPResponse:
        """An answer that is still to be read; closed, its connection goes."""
        connection = http.client.HTTPSConnection(
            str(self._address.hostname), self._address.port, timeout=PATIENCE, context=self._context
        )
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        content = {"Content-Type": media} if data is not None else {}
        connection.request(method, path, data, {**self._headers, **content, **given, "Connection": "close"})
        return connection.getresponse()


@dataclass(frozen=True, slots=True)
class Front:
    """A door before a cluster."""

    url: str
    ca: Path
    cluster: ControlPlane

    def speaker(self, user: User | None) -> Speaker:
        return Speaker(self.url, self.ca, user)

    def direct(self, user: User | None) -> Speaker:
        """Past the door."""
        return Speaker(self.cluster.url, self.cluster.ca, user)


@pytest.fixture(scope="module")
def front(cluster: ControlPlane, account: User, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A door with a certificate of its own, whose launcher has the rights that deploy/ gives it."""
    authority = Authority(tmp_path_factory.mktemp("door") / "pki")
    certificate, context = authority.server(), server_context()
    context.load_cert_chain(certificate.certificate, certificate.key)
    access = ClusterConfig(cluster.url, FixedHeader(f"Bearer {account.token}"), ClientTls(cluster.ca))
    with standing_door(access, context) as url:
        yield Front(url, authority.certificate, cluster)


@pytest.fixture
def user(cluster: ControlPlane, namespace: str) -> User:
    """Somebody who may do everything with Frameworks and pods in one namespace, and nothing elsewhere."""
    somebody = cluster.new_user()
    rules = [*_ALL, {"apiGroups": [""], "resources": ["pods", *_POD_PARTS, "events"], "verbs": ["*"]}]
    cluster.grant(somebody, rules, namespace=namespace)
    return somebody


def test_rbac_decides_what_a_caller_may(front: Front, user: User, namespace: str) -> None:
    speaker = front.speaker(user)

    made = speaker.say("POST", frameworks(namespace), a_framework(name="mine"))
    elsewhere = speaker.say("POST", frameworks("default"), a_framework(name="mine"))
    everything = speaker.say("GET", f"/apis/{_GROUP}/v1/frameworks")
    secrets = speaker.say("GET", f"/api/v1/namespaces/{namespace}/secrets")

    assert made.status == 201, made.body
    assert made.json()["spec"]["executionType"] == "Start"
    for refused in (elsewhere, everything, secrets):
        assert refused.status == 403
        assert f'User "{user.name}" cannot' in refused.json()["message"]


def test_without_credentials_nothing_is_answered_and_nothing_is_asked(front: Front, namespace: str) -> None:
    stranger = front.speaker(None)

    for path in (frameworks(namespace), "/version", "/api", "/openapi/v2"):
        said = stranger.say("GET", path)
        assert (said.status, said.json()["reason"]) == (401, "Unauthorized")


def test_a_wrong_token_is_refused_in_the_words_of_the_cluster(front: Front, namespace: str) -> None:
    wrong = {"Authorization": "Bearer wrong"}

    door = front.speaker(None).say("GET", frameworks(namespace), **wrong)
    direct = front.direct(None).say("GET", frameworks(namespace), **wrong)

    assert door.status == 401
    assert door.comparable() == direct.comparable()


@pytest.fixture
def stored(front: Front, user: User, namespace: str) -> dict[str, Any]:
    """A Framework called ``kept``, which nobody runs."""
    held = a_framework(name="kept")
    held["spec"]["executionType"] = "Create"
    said = front.direct(user).say("POST", frameworks(namespace), held)
    assert said.status == 201, said.body
    made: dict[str, Any] = said.json()
    return made


def test_answers_are_byte_for_byte_those_of_the_cluster(
    front: Front, user: User, namespace: str, stored: dict[str, Any]
) -> None:
    place, version = frameworks(namespace), stored["metadata"]["resourceVersion"]
    exactly = f"resourceVersion={version}&resourceVersionMatch=Exact"
    stale = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "1"}}
    wrong = {"spec": {"taskRoles": [{"name": "worker", "taskNumber": -1}]}}
    requests: list[tuple[int, str, str, Any, Mapping[str, str]]] = [
        (200, "GET", f"{place}/kept", None, {}),
        (200, "GET", f"{place}/kept?pretty=true", None, {}),
        (200, "GET", f"{place}/kept", None, {"Accept": "application/yaml"}),
        (200, "GET", f"{place}/kept", None, {"Accept": _TABLE}),
        (200, "HEAD", f"{place}/kept", None, {}),
        (200, "GET", f"{place}?{exactly}&limit=1", None, {}),
        (200, "GET", f"{place}?{exactly}", None, {"Accept": _TABLE}),
        (
            200,
            "GET",
            "/apis",
            None,
            {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
        ),
        (200, "GET", f"/apis/{_GROUP}/v1", None, {}),
        (200, "GET", "/openapi/v3", None, {}),
        (200, "GET", "/openapi/v2", None, {"Accept-Encoding": "gzip"}),
        (200, "GET", "/version", None, {}),
        (404, "GET", f"{place}/missing", None, {}),
        (404, "GET", place.replace("/v1/", "/v9/"), None, {}),
        (403, "GET", f"/apis/{_GROUP}/v1/frameworks", None, {}),
        (403, "GET", "/api/v1/nodes", None, {}),
        (400, "GET", f"{place}?limit=many", None, {}),
        (409, "POST", place, a_framework(name="kept"), {}),
        (409, "PUT", f"{place}/kept", stale, {}),
        (422, "PATCH", f"{place}/kept", wrong, {"Content-Type": "application/merge-patch+json"}),
        (415, "PATCH", f"{place}/kept", wrong, {"Content-Type": "application/strategic-merge-patch+json"}),
        (403, "POST", f"/apis/{_GROUP}/v1/frameworks", a_framework(name="x"), {}),
    ]

    for status, method, path, body, headers in requests:
        given = {name.replace("-", "_"): value for name, value in headers.items()}
        ask_direct = partial(front.direct(user).say, method, path, body, **given)
        ask_door = partial(front.speaker(user).say, method, path, body, **given)
        door, direct = until(partial(_between, ask_direct, ask_door), f"{path} is the same twice")
        assert door.status == status, (method, path, door)
        assert door.comparable() == direct.comparable(), (method, path)


def _between(ask_direct: Callable[[], Said], ask_door: Callable[[], Said]) -> tuple[Said, Said] | None:
    """What both say to something that changes nothing; None when the cluster's own answer has changed: an age has."""
    before, door, after = ask_direct(), ask_door(), ask_direct()
    return (door, after) if before.comparable() == after.comparable() else None


def test_a_watch_has_the_lines_of_the_cluster_as_they_come(
    front: Front, user: User, namespace: str, stored: dict[str, Any]
) -> None:
    version = stored["metadata"]["resourceVersion"]
    watch = f"{frameworks(namespace)}?watch=1&resourceVersion={version}&timeoutSeconds=30"
    change = {"metadata": {"labels": {"seen": "yes"}}}

    with front.speaker(user).open("GET", watch) as door, front.direct(user).open("GET", watch) as direct:
        front.direct(user).say(
            "PATCH", f"{frameworks(namespace)}/kept", change, "application/merge-patch+json"
        )
        front.direct(user).say("DELETE", f"{frameworks(namespace)}/kept")
        lines = [door.readline() for _ in range(2)]
        expected = [direct.readline() for _ in range(2)]

    assert lines == expected
    assert [orjson.loads(line)["type"] for line in lines] == ["MODIFIED", "DELETED"]


def test_the_deprecated_watch_of_one_framework_has_the_lines_of_the_cluster(
    front: Front, user: User, namespace: str, stored: dict[str, Any]
) -> None:
    version = stored["metadata"]["resourceVersion"]
    path = f"{frameworks(namespace)}/kept"
    watch = f"{path.replace('/v1/', '/v1/watch/')}?resourceVersion={version}&timeoutSeconds=30"

    with front.speaker(user).open("GET", watch) as door:
        front.direct(user).say("DELETE", path)
        line = orjson.loads(door.readline())

    assert (line["type"], line["object"]["metadata"]["name"]) == ("DELETED", "kept")


def test_yaml_by_curl_is_completed_and_its_mistakes_are_told(
    front: Front, user: User, namespace: str, tmp_path: Path
) -> None:
    sample = next(sample for sample in manual() if " olumeMounts" in sample)
    (tmp_path / "framework.yaml").write_text(sample)
    token = f"Authorization: Bearer {user.token}"
    command = ["curl", "--silent", "--include", "--cacert", front.ca, "--max-time", str(PATIENCE)]
    typed = ["-H", "Content-Type: application/yaml", "--data-binary", f"@{tmp_path / 'framework.yaml'}"]

    done = subprocess.run(
        [*map(str, command), "-H", token, *typed, front.url + frameworks(namespace)],
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
    )

    head, _, body = done.stdout.partition("\n\n")
    assert " 201 " in head.splitlines()[0], done.stdout
    assert 'Warning: 299 - "unknown field' in head
    assert "olumeMounts" in head
    assert "volumeMounts" in head
    stored = front.direct(user).say(
        "GET", f"{frameworks(namespace)}/{orjson.loads(body)['metadata']['name']}"
    )
    assert "olumeMounts" in stored.body.decode()


def test_what_breaks_a_rule_is_refused_with_the_field(front: Front, user: User, namespace: str) -> None:
    wrong = a_framework(name="wrong")
    wrong["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"] = []

    said = front.speaker(user).say("POST", frameworks(namespace), wrong)

    assert (said.status, said.json()["reason"]) == (422, "Invalid")
    assert "containers" in said.json()["details"]["causes"][0]["field"]


def test_a_name_can_be_made_by_the_cluster_and_a_trial_leaves_nothing(
    front: Front, user: User, namespace: str
) -> None:
    unnamed = a_framework(name="x")
    unnamed["metadata"] = {"generateName": "run-"}

    tried = front.speaker(user).say("POST", f"{frameworks(namespace)}?dryRun=All", unnamed)
    made = front.speaker(user).say("POST", frameworks(namespace), unnamed)

    assert (tried.status, made.status) == (201, 201)
    listed = front.direct(user).say("GET", frameworks(namespace)).json()
    assert [item["metadata"]["name"] for item in listed["items"]] == [made.json()["metadata"]["name"]]


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl that has been told that the cluster is where the door is."""

    program: Path
    config: Path
    namespace: str

    def __call__(self, *words: str, stdin: str | None = None, ok: bool = True, **environment: str) -> str:
        done = subprocess.run(
            [
                str(self.program),
                f"--kubeconfig={self.config}",
                f"--cache-dir={self.config.parent / 'cache'}",
                f"--namespace={self.namespace}",
                *words,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            env={**os.environ, **environment},
        )
        assert (done.returncode == 0) is ok, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def kubectl(front: Front, user: User, namespace: str, programs: Path, tmp_path: Path) -> Kubectl:
    config = tmp_path / "config"
    config.write_text(kubeconfig(front.url, front.ca, user.token))
    config.chmod(0o600)
    return Kubectl(programs / "kubectl", config, namespace)


def held(name: str) -> str:
    """A Framework that nobody runs, as a file."""
    obj = a_framework(name=name)
    obj["spec"]["executionType"] = "Create"
    return yaml.safe_dump(obj)


def test_kubectl_finds_its_way_around(kubectl: Kubectl) -> None:
    assert "frameworks" in kubectl("api-resources", f"--api-group={_GROUP}")
    assert "taskRoles" in kubectl("explain", "framework.spec")
    assert "Server Version" in kubectl("version")
    assert kubectl("auth", "can-i", "create", "frameworks").strip() == "yes"
    assert "no" in kubectl("auth", "can-i", "list", "nodes", ok=False)


def test_kubectl_applies_edits_and_deletes(kubectl: Kubectl, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/description: .*/description: edited/' \"$1\"\n")
    editor.chmod(0o700)
    described = held("mnist").replace("spec:\n", "spec:\n  description: first\n", 1)

    assert "created" in kubectl("apply", "-f", "-", stdin=described)
    second = described.replace("description: first", "description: second")
    assert "configured" in kubectl("apply", "-f", "-", stdin=second)
    assert "edited" in kubectl("edit", "framework", "mnist", KUBE_EDITOR=str(editor))
    shown = kubectl("get", "fw", "mnist", "-o", "jsonpath={.spec.description}")
    assert shown == "edited"
    assert "STATE" in kubectl("get", "fw")
    assert "edited" in kubectl("describe", "fw", "mnist").lower()
    kubectl("wait", "fw/mnist", "--for=jsonpath={.spec.executionType}=Create", "--timeout=5s")
    assert "deleted" in kubectl("delete", "fw", "mnist", "--timeout=20s")


def test_kubectl_applies_on_the_server_and_scales(kubectl: Kubectl) -> None:
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=held("mnist"))
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=held("mnist"))
    assert "scaled" in kubectl("scale", "framework", "mnist", "--replicas=3")
    assert kubectl("get", "fw", "mnist", "-o", "jsonpath={.spec.replicas}") == "3"


def test_kubectl_is_told_of_mistakes_as_by_a_launcher_on_a_laptop(kubectl: Kubectl) -> None:
    misspelt = held("mnist").replace("executionType", "executionTipe")

    refused = kubectl("create", "-f", "-", stdin=misspelt, ok=False)
    warned = kubectl("create", "--validate=warn", "-f", "-", stdin=misspelt)

    assert "executionTipe" in refused
    assert 'did you mean "executionType"?' in refused
    assert 'Warning: unknown field "spec.executionTipe"' in warned
    assert warned.count("executionTipe") == 1


def test_kubectl_follows_pods_as_at_the_cluster(
    kubectl: Kubectl, cluster: ControlPlane, namespace: str, user: User
) -> None:
    cluster.kubectl("run", "pod", "--image=none", "--restart=Never", f"--namespace={namespace}")
    cluster.kubectl("wait", "pod/pod", "--for=condition=Ready", f"--namespace={namespace}", "--timeout=20s")

    assert "pod" in kubectl("get", "pods")
    assert "Events" in kubectl("describe", "pod", "pod")
    # On nodes that are not there nothing can be read or run; what is said about it comes from the cluster.
    for words in (("logs", "pod"), ("exec", "pod", "--", "true"), ("port-forward", "pod/pod", ":80")):
        direct = cluster.kubectl(f"--namespace={namespace}", *words, ok=False, user=user)
        assert "node-" in direct
        assert kubectl(*words, ok=False) == direct


def test_the_launcher_itself_has_such_a_door(
    shared_launcher: KubeLauncher, user: User, namespace: str
) -> None:
    shared_launcher.ready()
    token = ("-H", f"Authorization: Bearer {user.token}")
    typed = ("-H", "Content-Type: application/yaml", "--data-binary", held("mine"))

    made = shared_launcher.get(frameworks(namespace), *token, *typed)
    listed = shared_launcher.get(frameworks(namespace), *token)
    refused = shared_launcher.get(frameworks("default"), *token)
    nobody = shared_launcher.get(frameworks(namespace))

    assert made["metadata"]["uid"] == listed["items"][0]["metadata"]["uid"]
    assert (refused["code"], nobody["code"]) == (403, 401)


def test_the_cluster_itself_has_the_same_objects_at_the_same_path(
    front: Front, user: User, namespace: str, programs: Path
) -> None:
    front.speaker(user).say("POST", frameworks(namespace), a_framework(name="mine"))
    expected = front.speaker(user).say("GET", f"{frameworks(namespace)}/mine")
    with subprocess.Popen(
        [str(programs / "kubectl"), f"--kubeconfig={user.kubeconfig}", "proxy", "--port=0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as proxy:
        try:
            assert proxy.stdout is not None
            address = proxy.stdout.readline().rsplit(" ", 1)[-1].strip()
            url = f"http://{address}{frameworks(namespace)}/mine"
            done = subprocess.run(
                ["curl", "--silent", "--max-time", str(PATIENCE), url],
                capture_output=True,
                timeout=PATIENCE * 2,
            )
        finally:
            proxy.kill()

    assert orjson.loads(done.stdout)["metadata"]["uid"] == expected.json()["metadata"]["uid"]


def test_the_python_client_works(front: Front, user: User, namespace: str) -> None:
    configuration = client.Configuration()
    configuration.host, configuration.ssl_ca_cert = front.url, str(front.ca)
    configuration.api_key = {"authorization": f"Bearer {user.token}"}
    with client.ApiClient(configuration) as connection:
        custom = client.CustomObjectsApi(connection)
        place = (_GROUP, "v1", namespace, "frameworks")
        custom.create_namespaced_custom_object(*place, yaml.safe_load(held("mine")))
        listed: Any = custom.list_namespaced_custom_object(*place)
        events = Watch().stream(
            custom.list_namespaced_custom_object, *place, timeout_seconds=5, _request_timeout=PATIENCE
        )
        first = next(iter(events))
        pods = client.CoreV1Api(connection).list_namespaced_pod(namespace)
        connection.rest_client.pool_manager.clear()

    assert [item["metadata"]["name"] for item in listed["items"]] == ["mine"]
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "mine")
    assert pods.items == []


# Client certificates.


@pytest.fixture(scope="module")
def certified_front(
    cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Front, User]]:
    """A door that asks for certificates of the cluster's authority, and whom its launcher is."""
    authority = Authority(tmp_path_factory.mktemp("door") / "pki")
    certificate, context = authority.server(), server_context()
    context.load_cert_chain(certificate.certificate, certificate.key)
    ask_for_certificates(context, cluster.ca)
    launcher = cluster.new_user()
    cluster.grant(launcher, [{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}])
    access = ClusterConfig(cluster.url, FixedHeader(f"Bearer {launcher.token}"), ClientTls(cluster.ca))
    with standing_door(access, context, certificates=True) as url:
        yield Front(url, authority.certificate, cluster), launcher


def test_whoever_has_a_certificate_of_the_cluster_has_its_own_rights(
    certified_front: tuple[Front, User], cluster: ControlPlane, namespace: str
) -> None:
    front, _ = certified_front
    alice = cluster.certified_user("alice", "ml")
    cluster.grant(alice, _ALL, namespace=namespace)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    who = front.speaker(alice).say("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review).json()
    made = front.speaker(alice).say("POST", frameworks(namespace), a_framework(name="hers"))
    elsewhere = front.speaker(alice).say("GET", frameworks("default"))

    assert who["status"]["userInfo"]["username"] == "alice"
    assert who["status"]["userInfo"]["groups"] == ["ml", "system:authenticated"]
    assert made.status == 201
    assert elsewhere.status == 403
    assert 'User "alice" cannot list' in elsewhere.json()["message"]


def test_nobody_becomes_an_admin_by_way_of_the_launcher(
    certified_front: tuple[Front, User], cluster: ControlPlane
) -> None:
    front, launcher = certified_front
    root = cluster.certified_user("root", "system:masters")

    masters = front.speaker(root).say("GET", "/api/v1/secrets")
    acting = front.speaker(cluster.certified_user("mallory")).say(
        "GET", "/api/v1/secrets", Impersonate_User="admin"
    )
    token = front.speaker(launcher).say("GET", "/api/v1/secrets")

    assert (masters.status, acting.status, token.status) == (403, 400, 403)
    assert "API server itself" in masters.json()["message"]
