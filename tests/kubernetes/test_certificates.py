"""The launcher's own certificate on a real API server, with the rights of its service account."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.webhook import (
    SECRET,
    WebhookServer,
    a_waiting_framework,
    bundles,
    configured,
    kept,
    show_again,
    until_called,
)
from tests.local.server import PATIENCE, until

DAY = 86_400.0


@pytest.fixture
def frameworks(namespace: str) -> str:
    """The path of the Frameworks of a namespace."""
    return f"/apis/launcher.microsoft.com/v1/namespaces/{namespace}/frameworks"


@contextmanager
def serving(cluster: ControlPlane, account: User, *ages: float) -> Iterator[WebhookServer]:
    """Inside, a webhook runs and is called whose certificate was looked after so many seconds ago, and then not."""
    cluster.admin.ask("DELETE", SECRET)
    server = WebhookServer(account.kubeconfig, age=ages[0] if ages else 0.0)
    try:
        for age in ages[1:]:
            server.behind = age
            server.look()
        with configured(cluster, server):
            yield server
    finally:
        server.end()


@contextmanager
def asking(cluster: ControlPlane, frameworks: str) -> Iterator[list[int]]:
    """Inside, one bad Framework after another is sent; the codes of the answers."""
    codes: list[int] = []
    enough = threading.Event()

    def ask() -> None:
        while not enough.is_set():
            wish = a_waiting_framework(f"selfish-{len(codes)}")
            codes.append(cluster.admin.ask("POST", frameworks, wish).status)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield codes
    finally:
        enough.set()
        thread.join(PATIENCE)


def asked_again(codes: list[int], times: int = 20) -> None:
    """Return when so many more answers have come."""
    before = len(codes)
    until(lambda: len(codes) >= before + times or None, "answers come")


@pytest.mark.parametrize(
    ("before", "now", "authorities"),
    [
        pytest.param([61 * DAY], [0.0], 1, id="certificate"),
        # After two thirds of its ten years the authority has a successor: it is told, and a day later it signs.
        pytest.param([2443 * DAY, 20 * DAY], [2 * DAY, 0.0], 2, id="authority"),
    ],
)
def test_the_certificate_is_rotated_while_requests_go_on(
    cluster: ControlPlane,
    account: User,
    frameworks: str,
    before: list[float],
    now: list[float],
    authorities: int,
) -> None:
    with serving(cluster, account, *before) as server, asking(cluster, frameworks) as codes:
        old = kept(cluster, "tls.crt")
        for age in now:
            server.behind = age
            server.look()
            show_again(cluster)
            asked_again(codes)
        new, trusted, told = kept(cluster, "tls.crt"), kept(cluster, "ca.crt"), bundles(cluster)

    assert new != old
    assert trusted.count("BEGIN CERTIFICATE") == authorities
    assert told == [trusted, trusted]
    assert set(codes) == {422}


def test_a_secret_that_was_deleted_is_made_anew_and_kube_apiserver_told(
    cluster: ControlPlane, account: User, frameworks: str
) -> None:
    with serving(cluster, account):
        old = kept(cluster, "ca.crt")

        cluster.admin.delete(SECRET)

        until(lambda: cluster.admin.ask("GET", SECRET).status == 200 or None, "the Secret is there again")
        new = kept(cluster, "ca.crt")
        until(lambda: bundles(cluster) == [new, new] or None, "kube-apiserver is told")
        wish = a_waiting_framework("selfish")
        until_called(
            cluster, lambda: cluster.admin.ask("POST", f"{frameworks}?dryRun=All", wish).status == 422
        )

    assert new != old


def test_launchers_side_by_side_serve_one_certificate(cluster: ControlPlane, account: User) -> None:
    with serving(cluster, account) as first:
        second = WebhookServer(account.kubeconfig)
        try:
            seen = [ssl.get_server_certificate(("127.0.0.1", server.port)) for server in (first, second)]
        finally:
            second.end()

    assert seen[0] == seen[1]
