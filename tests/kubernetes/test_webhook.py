"""The webhook, as it is configured in deploy/, called by a real kube-apiserver."""

import http.client
import ssl
from collections.abc import Iterator

import orjson
import pytest
import yaml

from tests.cluster.client import MERGE_PATCH
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.core.manifests import PROJECT, Json, a_framework, a_pod, a_role
from tests.kubernetes.webhook import WebhookServer, a_waiting_framework, configured
from tests.local.server import PATIENCE


@pytest.fixture(scope="module")
def server(account: User) -> Iterator[WebhookServer]:
    """A webhook that runs as the launcher does."""
    running = WebhookServer(account.kubeconfig)
    yield running
    running.end()


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane, server: WebhookServer) -> Iterator[WebhookServer]:
    """One that kube-apiserver calls."""
    with configured(cluster, server):
        yield server


@pytest.fixture
def frameworks(namespace: str) -> str:
    """The path of the Frameworks of a namespace."""
    return f"/apis/launcher.microsoft.com/v1/namespaces/{namespace}/frameworks"


def kubectl(cluster: ControlPlane, namespace: str, obj: Json, *words: str, ok: bool = True) -> str:
    """What kubectl says on the creation of *obj*."""
    text = orjson.dumps(obj).decode()
    return cluster.kubectl("--namespace", namespace, "create", "-f", "-", *words, stdin=text, ok=ok)


def warnings(cluster: ControlPlane, path: str, obj: Json) -> list[str]:
    """What whoever creates *obj*, who succeeds, is warned of."""
    context = ssl.create_default_context(cafile=str(cluster.ca))
    port = int(cluster.url.rpartition(":")[2])
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
    headers = {"Authorization": f"Bearer {cluster.admin_token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", path, orjson.dumps(obj), headers)
        response = connection.getresponse()
        assert response.status == 201, response.read()
        return response.headers.get_all("Warning") or []
    finally:
        connection.close()


# What users see.


@pytest.mark.usefixtures("webhook")
def test_a_good_framework_gets_in_without_a_word(cluster: ControlPlane, frameworks: str) -> None:
    assert warnings(cluster, frameworks, a_framework()) == []


@pytest.mark.usefixtures("webhook")
def test_kubectl_tells_what_is_wrong_in_the_launchers_words(cluster: ControlPlane, namespace: str) -> None:
    said = kubectl(cluster, namespace, a_waiting_framework("selfish"), ok=False)

    assert 'Framework "selfish" is invalid' in said
    assert "a role cannot wait for itself" in said


@pytest.mark.usefixtures("webhook")
def test_programs_get_code_reason_and_causes(cluster: ControlPlane, frameworks: str) -> None:
    refused = cluster.admin.ask("POST", frameworks, a_waiting_framework("selfish"))

    assert (refused.status, refused.body["code"], refused.body["reason"]) == (422, 422, "Invalid")
    assert refused.body["details"]["name"] == "selfish"
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [
        "spec.taskRoles[0].startAfter[0].role"
    ]


@pytest.mark.usefixtures("webhook")
def test_a_misspelt_field_of_a_pod_is_refused_by_kubectl_and_told_to_others(
    cluster: ControlPlane, namespace: str, frameworks: str
) -> None:
    misspelt = a_framework(a_role(pod=a_pod(olumes=[])))

    said = kubectl(cluster, namespace, misspelt, ok=False)
    told = warnings(cluster, frameworks, misspelt)

    assert 'strict decoding error: unknown field "spec.taskRoles[0].task.pod.spec.olumes"' in said
    assert len(told) == 1
    assert "did you mean" in told[0]


@pytest.mark.usefixtures("webhook")
def test_defaults_are_written_out_and_told_where_they_are_not_what_was_written(
    cluster: ControlPlane, frameworks: str
) -> None:
    policy = {"minFailedTaskCount": 0, "succeededIndexes": 1}

    told = warnings(cluster, frameworks, a_framework(a_role(frameworkAttemptCompletionPolicy=policy)))

    stored = cluster.admin.get(f"{frameworks}/mnist")["spec"]
    assert stored["replicas"] == 2
    assert stored["taskRoles"][0]["frameworkAttemptCompletionPolicy"] == {
        "minFailedTaskCount": -1,
        "minSucceededTaskCount": -1,
        "succeededIndexes": "1",
    }
    assert [text for text in told if "0 is read as -1" in text] == told


@pytest.mark.usefixtures("webhook")
def test_every_example_gets_in(cluster: ControlPlane, namespace: str) -> None:
    for example in sorted((PROJECT / "examples").glob("*.yaml")):
        obj = yaml.safe_load(example.read_text())
        kubectl(cluster, namespace, obj, "--validate=warn")


@pytest.mark.usefixtures("webhook")
def test_a_framework_cannot_be_made_bad_later(cluster: ControlPlane, frameworks: str) -> None:
    cluster.admin.post(frameworks, a_framework())

    change = {"spec": a_waiting_framework("mnist")["spec"]}
    refused = cluster.admin.ask("PATCH", f"{frameworks}/mnist", change, content_type=MERGE_PATCH)
    good = cluster.admin.patch(f"{frameworks}/mnist", {"spec": {"description": "new"}})

    assert refused.status == 422
    assert good["spec"]["description"] == "new"


@pytest.mark.usefixtures("webhook")
def test_a_dry_run_stores_nothing(cluster: ControlPlane, frameworks: str) -> None:
    dry = cluster.admin.post(f"{frameworks}?dryRun=All", a_framework())

    assert dry["spec"]["replicas"] == 2
    assert cluster.admin.ask("GET", f"{frameworks}/mnist").status == 404


# What it is not asked about.


def test_nobody_is_asked_about_labels_a_status_or_a_deletion(
    cluster: ControlPlane, webhook: WebhookServer, frameworks: str
) -> None:
    # Near the largest that etcd takes: kube-apiserver has a limit to what it compares.
    role = a_role(pod={**a_pod(), "metadata": {"annotations": {"a": "x" * 1_000_000}}})
    cluster.admin.post(frameworks, a_framework(role))
    asked = len(webhook.calls)

    cluster.admin.patch(f"{frameworks}/mnist", {"metadata": {"labels": {"a": "b"}}})
    cluster.admin.patch(f"{frameworks}/mnist/status", {"status": {"message": "fine"}})
    cluster.admin.delete(f"{frameworks}/mnist")
    after_those = len(webhook.calls)
    cluster.admin.post(frameworks, a_framework(role))
    cluster.admin.patch(f"{frameworks}/mnist", {"spec": {"description": "new"}})

    assert after_those == asked
    assert webhook.calls[asked:] == ["/admission/mutate", "/admission/validate"] * 2


# When it is away.


def test_without_the_webhook_everything_gets_in(
    cluster: ControlPlane, webhook: WebhookServer, frameworks: str
) -> None:
    with webhook.down():
        cluster.admin.post(frameworks, a_framework())
        cluster.admin.post(frameworks, a_waiting_framework("selfish"))
        cluster.admin.patch(f"{frameworks}/mnist", {"spec": {"description": "new"}})

    assert cluster.admin.ask("POST", frameworks, a_waiting_framework("other")).status == 422


def test_what_got_in_can_be_labelled_and_deleted_and_its_finalizers_go(
    cluster: ControlPlane, webhook: WebhookServer, frameworks: str
) -> None:
    selfish = f"{frameworks}/selfish"
    with webhook.down():
        cluster.admin.post(frameworks, a_waiting_framework("selfish", finalizers=["example.com/hold"]))

    cluster.admin.patch(selfish, {"metadata": {"labels": {"a": "b"}}})
    cluster.admin.delete(selfish)
    cluster.admin.patch(selfish, {"metadata": {"finalizers": None}})

    assert cluster.admin.ask("GET", selfish).status == 404
