"""The launcher's webhook in this process, called by a real kube-apiserver."""

import asyncio
import selectors
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml
from aiohttp import web
from aiohttp.typedefs import Handler

from launcher.api.http.server import make_runner
from launcher.api.middleware.error_responses import errors_as_status
from launcher.api.webhook.certificate_manager import CertificateManager
from launcher.api.webhook.handler import Webhook
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.store.kubernetes.kube_store import KubeStore
from launcher.store.kubernetes.kubeconfig import from_kubeconfig
from tests.builders import Json, a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.ports import free_port
from tests.eventually import TIMEOUT_SECONDS, until
from tests.kubernetes.account import BASE, LAUNCHER_NAMESPACE

T = TypeVar("T")

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_PROBE = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks?dryRun=All"
SECRET = f"/api/v1/namespaces/{LAUNCHER_NAMESPACE}/secrets/framework-launcher-tls"


class WebhookServer:
    """The webhook and its certificate manager on a loopback port, in a thread."""

    def __init__(self, kubeconfig: Path, *, clock_behind_seconds: float = 0.0) -> None:
        """*kubeconfig* is that of the launcher's account; the clock may be behind until a test sets it."""
        self._port = free_port()
        self.port = self._port.number
        self.clock_behind_seconds = clock_behind_seconds
        #: The paths that were called.
        self.calls: list[str] = []
        self._runner: web.AppRunner | None = None
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._certificates_task = self._do(self._start(kubeconfig))

    def end(self) -> None:
        """Stops the server."""
        self._do(self._stop())
        # Connections are closed by their protocols; the rest is closed with the loop.
        until(lambda: len(self._selector.get_map()) == 1 or None, "every connection is closed")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive()
        self._loop.close()
        self._port.release()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Stops listening for the block."""
        self._do(self._close())
        try:
            yield
        finally:
            self._do(self._listen())

    def reconcile_certificate(self) -> None:
        """Runs the periodic check of the certificate manager."""
        self._do(self._certificates.reconcile())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_SECONDS)

    async def _start(self, kubeconfig: Path) -> asyncio.Task[None]:
        self._store = await KubeStore.open(await from_kubeconfig(str(kubeconfig), None, time.time))
        self._certificates = CertificateManager(
            self._store,
            LAUNCHER_NAMESPACE,
            names=["127.0.0.1"],
            clock=lambda: time.time() - self.clock_behind_seconds,
        )
        await self._certificates.prepare()
        await self._listen()
        return asyncio.create_task(self._certificates.run())

    async def _stop(self) -> None:
        self._certificates_task.cancel()
        await asyncio.wait([self._certificates_task])
        await self._close()
        await self._store.close()

    async def _listen(self) -> None:
        app = web.Application(middlewares=[errors_as_status, self._record_call])
        Webhook(AdmissionPolicy()).add_to(app)
        self._runner = make_runner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(
            self._runner, "127.0.0.1", self.port, ssl_context=self._certificates.context
        ).start()

    async def _close(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @web.middleware
    async def _record_call(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.calls.append(request.path)
        return await handler(request)


def webhook_configurations(port: int, *, policy: str | None = None) -> Iterator[tuple[str, Json]]:
    """
    Yields both configurations of deploy/ with their plurals, for a webhook on loopback.

    The cluster has no network, so the webhook is called by address instead of by Service.
    """
    for configuration in yaml.safe_load_all((BASE / "webhook.yaml").read_text()):
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
            webhook["failurePolicy"] = policy or webhook["failurePolicy"]
        yield f"{configuration['kind'].lower()}s", configuration


@contextmanager
def registered_webhook(
    cluster: ControlPlane, server: WebhookServer, *, policy: str | None = None
) -> Iterator[None]:
    """Registers the webhook for the block."""
    for plural, configuration in webhook_configurations(server.port, policy=policy):
        cluster.admin.post(f"{REGISTRATION}/{plural}", configuration)
    try:
        until_called(cluster, lambda: _is_called(cluster))
        yield
    finally:
        for plural in PLURALS:
            cluster.admin.delete(f"{REGISTRATION}/{plural}/framework-launcher")
        until(lambda: not _is_called(cluster) or None, "kube-apiserver no longer calls the webhook")


def touch_configurations(cluster: ControlPlane) -> None:
    """
    Changes both configurations without effect.

    If a configuration changes while kube-apiserver processes the previous one, it may keep the old CA bundle until
    the next change.
    """
    change = {"metadata": {"annotations": {"launcher.test/touched": str(time.monotonic())}}}
    for plural in PLURALS:
        cluster.admin.patch(f"{REGISTRATION}/{plural}/framework-launcher", change)


def ca_bundles(cluster: ControlPlane) -> list[str]:
    """Returns the CA bundle of each webhook."""
    found = [cluster.admin.get(f"{REGISTRATION}/{plural}/framework-launcher") for plural in PLURALS]
    configs = [webhook["clientConfig"] for configuration in found for webhook in configuration["webhooks"]]
    return [b64decode(config.get("caBundle", "")).decode() for config in configs]


def secret_value(cluster: ControlPlane, name: str) -> str:
    """Returns that value of the launcher's Secret."""
    return b64decode(cluster.admin.get(SECRET)["data"][name]).decode()


def until_called(cluster: ControlPlane, is_called: Callable[[], bool]) -> None:
    """Waits until kube-apiserver trusts and calls the webhooks."""
    until(lambda: all(ca_bundles(cluster)) or None, "the CA bundles are published")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_called():
        assert time.monotonic() < deadline, (
            f"kube-apiserver calls the webhook: not within {TIMEOUT_SECONDS:g} s"
        )
        time.sleep(1.0)
        touch_configurations(cluster)
        time.sleep(1.0)


def _is_called(cluster: ControlPlane) -> bool:
    """Whether both webhooks work: one sets a default, and the other checks what the CRD cannot."""
    return _is_defaulted(cluster) and _is_validated(cluster)


def _is_defaulted(cluster: ControlPlane) -> bool:
    response = cluster.admin.request("POST", _PROBE, a_framework(name="probe"))
    return response.status == 201 and "replicas" in response.body["spec"]


def _is_validated(cluster: ControlPlane) -> bool:
    return cluster.admin.request("POST", _PROBE, a_framework_waiting_for_itself("probe")).status == 422


def a_framework_waiting_for_itself(name: str, **metadata: Any) -> Json:
    """Returns a Framework that only the launcher rejects: its role waits for itself."""
    role = a_role(startAfter=[{"role": "worker", "condition": "Running"}])
    framework = a_framework(role, name=name)
    return {**framework, "metadata": {**framework["metadata"], **metadata}}
