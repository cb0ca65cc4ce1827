"""The webhook's certificate on a real API server, with the permissions of the launcher's service account."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.webhook_server import (
    SECRET,
    WebhookServer,
    a_framework_waiting_for_itself,
    ca_bundles,
    registered_webhook,
    secret_value,
    touch_configurations,
    until_called,
)

DAY_SECONDS = 86_400.0


@contextmanager
def running_webhook(cluster: ControlPlane, account: User, *ages: float) -> Iterator[WebhookServer]:
    """Runs a registered webhook whose certificate was last reconciled at these ages, in seconds."""
    cluster.admin.request("DELETE", SECRET)
    server = WebhookServer(account.kubeconfig, clock_behind_seconds=ages[0] if ages else 0.0)
    try:
        for age in ages[1:]:
            server.clock_behind_seconds = age
            server.reconcile_certificate()
        with registered_webhook(cluster, server):
            yield server
    finally:
        server.end()


@contextmanager
def repeated_requests(cluster: ControlPlane, frameworks: str) -> Iterator[list[int]]:
    """Sends invalid Frameworks one after another inside the block, and yields the status codes of the responses."""
    codes: list[int] = []
    stop = threading.Event()

    def send_requests() -> None:
        while not stop.is_set():
            framework = a_framework_waiting_for_itself(f"invalid-{len(codes)}")
            codes.append(cluster.admin.request("POST", frameworks, framework).status)

    thread = threading.Thread(target=send_requests)
    thread.start()
    try:
        yield codes
    finally:
        stop.set()
        thread.join(TIMEOUT_SECONDS)


def wait_for_responses(codes: list[int], count: int = 20) -> None:
    """Waits for this number of further responses."""
    before = len(codes)
    until(lambda: len(codes) >= before + count or None, f"{count} more responses")


@pytest.mark.parametrize(
    ("before", "now", "authorities"),
    [
        pytest.param([61 * DAY_SECONDS], [0.0], 1, id="certificate"),
        # After two thirds of its ten years the CA gets a successor, which is published first and signs a day later.
        pytest.param([2443 * DAY_SECONDS, 20 * DAY_SECONDS], [2 * DAY_SECONDS, 0.0], 2, id="authority"),
    ],
)
def test_the_certificate_is_rotated_while_requests_are_served(
    cluster: ControlPlane,
    account: User,
    frameworks: str,
    before: list[float],
    now: list[float],
    authorities: int,
) -> None:
    with (
        running_webhook(cluster, account, *before) as server,
        repeated_requests(cluster, frameworks) as codes,
    ):
        old = secret_value(cluster, "tls.crt")
        for age in now:
            server.clock_behind_seconds = age
            server.reconcile_certificate()
            touch_configurations(cluster)
            wait_for_responses(codes)
        new, trusted, published = (
            secret_value(cluster, "tls.crt"),
            secret_value(cluster, "ca.crt"),
            ca_bundles(cluster),
        )

    assert new != old
    assert trusted.count("BEGIN CERTIFICATE") == authorities
    assert published == [trusted, trusted]
    assert set(codes) == {422}


def test_a_deleted_secret_is_recreated_and_the_ca_bundle_published(
    cluster: ControlPlane, account: User, frameworks: str
) -> None:
    with running_webhook(cluster, account):
        old = secret_value(cluster, "ca.crt")

        cluster.admin.delete(SECRET)

        until(lambda: cluster.admin.request("GET", SECRET).status == 200 or None, "the Secret exists again")
        new = secret_value(cluster, "ca.crt")
        until(lambda: ca_bundles(cluster) == [new, new] or None, "the CA bundle is updated")
        framework = a_framework_waiting_for_itself("invalid")
        until_called(
            cluster,
            lambda: cluster.admin.request("POST", f"{frameworks}?dryRun=All", framework).status == 422,
        )

    assert new != old


def test_replicas_serve_one_certificate(cluster: ControlPlane, account: User) -> None:
    with running_webhook(cluster, account) as first:
        second = WebhookServer(account.kubeconfig)
        try:
            certificates = [
                ssl.get_server_certificate(("127.0.0.1", server.port)) for server in (first, second)
            ]
        finally:
            second.end()

    assert certificates[0] == certificates[1]
