"""The webhook with its configuration in deploy/, called by a real kube-apiserver."""

import http.client
import ssl
from collections.abc import Iterator

import orjson
import pytest
import yaml

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.cluster.client import MERGE_PATCH
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import PROJECT
from tests.eventually import TIMEOUT_SECONDS
from tests.kubernetes.webhook_server import WebhookServer, a_framework_waiting_for_itself, registered_webhook


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane, webhook_server: WebhookServer) -> Iterator[WebhookServer]:
    """The webhook, registered in kube-apiserver."""
    with registered_webhook(cluster, webhook_server):
        yield webhook_server


def kubectl_create(cluster: ControlPlane, namespace: str, obj: Json, *options: str, ok: bool = True) -> str:
    """The output of kubectl for the creation of *obj*."""
    text = orjson.dumps(obj).decode()
    return cluster.kubectl("--namespace", namespace, "create", "-f", "-", *options, stdin=text, ok=ok)


def warnings(cluster: ControlPlane, path: str, obj: Json) -> list[str]:
    """The warnings of the successful creation of *obj*."""
    context = ssl.create_default_context(cafile=str(cluster.ca))
    port = int(cluster.url.rpartition(":")[2])
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS, context=context)
    headers = {"Authorization": f"Bearer {cluster.admin_token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", path, orjson.dumps(obj), headers)
        response = connection.getresponse()
        assert response.status == 201, response.read()
        return response.headers.get_all("Warning") or []
    finally:
        connection.close()


# Responses to users.


@pytest.mark.usefixtures("webhook")
def test_a_valid_framework_is_accepted_without_warnings(cluster: ControlPlane, frameworks: str) -> None:
    assert warnings(cluster, frameworks, a_framework()) == []


@pytest.mark.usefixtures("webhook")
def test_kubectl_shows_the_launchers_errors(cluster: ControlPlane, namespace: str) -> None:
    output = kubectl_create(cluster, namespace, a_framework_waiting_for_itself("invalid"), ok=False)

    assert 'Framework "invalid" is invalid' in output
    assert "must not be the role itself" in output


@pytest.mark.usefixtures("webhook")
def test_an_api_client_gets_code_reason_and_causes(cluster: ControlPlane, frameworks: str) -> None:
    rejected = cluster.admin.request("POST", frameworks, a_framework_waiting_for_itself("invalid"))

    assert (rejected.status, rejected.body["code"], rejected.body["reason"]) == (422, 422, "Invalid")
    assert rejected.body["details"]["name"] == "invalid"
    assert [cause["field"] for cause in rejected.body["details"]["causes"]] == [
        "spec.taskRoles[0].startAfter[0].role"
    ]


@pytest.mark.usefixtures("webhook")
def test_a_misspelled_pod_field_is_rejected_by_kubectl_and_otherwise_a_warning(
    cluster: ControlPlane, namespace: str, frameworks: str
) -> None:
    misspelled = a_framework(a_role(pod=a_pod_template(olumes=[])))

    output = kubectl_create(cluster, namespace, misspelled, ok=False)
    shown = warnings(cluster, frameworks, misspelled)

    assert 'strict decoding error: unknown field "spec.taskRoles[0].task.pod.spec.olumes"' in output
    assert len(shown) == 1
    assert "did you mean" in shown[0]


@pytest.mark.usefixtures("webhook")
def test_defaults_are_stored_and_changed_values_cause_a_warning(
    cluster: ControlPlane, frameworks: str
) -> None:
    policy = {"minFailedTaskCount": 0, "succeededIndexes": 1}

    shown = warnings(cluster, frameworks, a_framework(a_role(frameworkAttemptCompletionPolicy=policy)))

    stored = cluster.admin.get(f"{frameworks}/mnist")["spec"]
    assert stored["replicas"] == 2
    assert stored["taskRoles"][0]["frameworkAttemptCompletionPolicy"] == {
        "minFailedTaskCount": -1,
        "minSucceededTaskCount": -1,
        "succeededIndexes": "1",
    }
    assert [text for text in shown if "0 is read as -1" in text] == shown


@pytest.mark.usefixtures("webhook")
def test_every_example_is_accepted(cluster: ControlPlane, namespace: str) -> None:
    for example in sorted((PROJECT / "examples").glob("*.yaml")):
        obj = yaml.safe_load(example.read_text())
        kubectl_create(cluster, namespace, obj, "--validate=warn")


@pytest.mark.usefixtures("webhook")
def test_a_framework_cannot_become_invalid(cluster: ControlPlane, frameworks: str) -> None:
    cluster.admin.post(frameworks, a_framework())

    change = {"spec": a_framework_waiting_for_itself("mnist")["spec"]}
    rejected = cluster.admin.request("PATCH", f"{frameworks}/mnist", change, content_type=MERGE_PATCH)
    good = cluster.admin.patch(f"{frameworks}/mnist", {"spec": {"description": "new"}})

    assert rejected.status == 422
    assert good["spec"]["description"] == "new"


@pytest.mark.usefixtures("webhook")
def test_a_dry_run_stores_nothing(cluster: ControlPlane, frameworks: str) -> None:
    returned = cluster.admin.post(f"{frameworks}?dryRun=All", a_framework())

    assert returned["spec"]["replicas"] == 2
    assert cluster.admin.request("GET", f"{frameworks}/mnist").status == 404


# Requests without a call of the webhook.


def test_the_webhook_is_not_called_for_labels_status_or_deletion(
    cluster: ControlPlane, webhook: WebhookServer, frameworks: str
) -> None:
    # Close to etcd's size limit: kube-apiserver limits the size of the objects that it compares.
    role = a_role(pod={**a_pod_template(), "metadata": {"annotations": {"a": "x" * 1_000_000}}})
    cluster.admin.post(frameworks, a_framework(role))
    calls_before = len(webhook.calls)

    cluster.admin.patch(f"{frameworks}/mnist", {"metadata": {"labels": {"a": "b"}}})
    cluster.admin.patch(f"{frameworks}/mnist/status", {"status": {"message": "fine"}})
    cluster.admin.delete(f"{frameworks}/mnist")
    calls_after = len(webhook.calls)
    cluster.admin.post(frameworks, a_framework(role))
    cluster.admin.patch(f"{frameworks}/mnist", {"spec": {"description": "new"}})

    assert calls_after == calls_before
    assert webhook.calls[calls_before:] == ["/admission/mutate", "/admission/validate"] * 2


# The webhook is unavailable.


def test_without_the_webhook_everything_is_accepted(
    cluster: ControlPlane, webhook: WebhookServer, frameworks: str
) -> None:
    with webhook.down():
        cluster.admin.post(frameworks, a_framework())
        cluster.admin.post(frameworks, a_framework_waiting_for_itself("invalid"))
        cluster.admin.patch(f"{frameworks}/mnist", {"spec": {"description": "new"}})

    assert cluster.admin.request("POST", frameworks, a_framework_waiting_for_itself("other")).status == 422


def test_an_invalid_stored_framework_can_be_labelled_and_deleted(
    cluster: ControlPlane, webhook: WebhookServer, frameworks: str
) -> None:
    path = f"{frameworks}/invalid"
    with webhook.down():
        cluster.admin.post(
            frameworks, a_framework_waiting_for_itself("invalid", finalizers=["example.com/hold"])
        )

    cluster.admin.patch(path, {"metadata": {"labels": {"a": "b"}}})
    cluster.admin.delete(path)
    cluster.admin.patch(path, {"metadata": {"finalizers": None}})

    assert cluster.admin.request("GET", path).status == 404
