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
from launcher.api.http.status import errors_as_status
from launcher.api.webhook.certificate_manager import CertificateManager
from launcher.api.webhook.handler import Webhook
from launcher.core.validation.admission_policy import Policy
from launcher.store.kubernetes.cluster_config import from_kubeconfig
from launcher.store.kubernetes.kube_store import KubeStore
from tests.cluster.controlplane import ControlPlane
from tests.cluster.ports import free_port
from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.account import BASE, HOME
from tests.local.server import PATIENCE, until

T = TypeVar("T")

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_PROBE = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks?dryRun=All"
SECRET = f"/api/v1/namespaces/{HOME}/secrets/framework-launcher-tls"


class WebhookServer:
    """The webhook and the keeper of its certificate, on a free port of loopback, in a thread of their own."""

    def __init__(self, kubeconfig: Path, *, age: float = 0.0) -> None:
        """*kubeconfig* is that of whom it runs as; the clock is that many seconds behind until it is set right."""
        self._port = free_port()
        self.port = self._port.number
        self.behind = age
        #: The paths that were called.
        self.calls: list[str] = []
        self._runner: web.AppRunner | None = None
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._keeping = self._do(self._start(kubeconfig))

    def end(self) -> None:
        """Let go of everything; the port answers no more."""
        self._do(self._stop())
        # Connections say good-bye to the other side; what is left then is the loop's own.
        until(lambda: len(self._selector.get_map()) == 1 or None, "every connection is closed")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._loop.close()
        self._port.give_back()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Inside, nobody answers."""
        self._do(self._close())
        try:
            yield
        finally:
            self._do(self._open())

    def look(self) -> None:
        """What the keeper does every few minutes."""
        self._do(self._keeper.look())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _start(self, kubeconfig: Path) -> asyncio.Task[None]:
        self._store = await KubeStore.open(await from_kubeconfig(str(kubeconfig), None, time.time))
        self._keeper = CertificateManager(
            self._store, HOME, names=["127.0.0.1"], clock=lambda: time.time() - self.behind
        )
        await self._keeper.prepare()
        await self._open()
        return asyncio.create_task(self._keeper.run())

    async def _stop(self) -> None:
        self._keeping.cancel()
        await asyncio.wait([self._keeping])
        await self._close()
        await self._store.close()

    async def _open(self) -> None:
        app = web.Application(middlewares=[errors_as_status, self._note])
        Webhook(Policy()).add_to(app)
        self._runner = make_runner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._keeper.context).start()

    async def _close(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.calls.append(request.path)
        return await handler(request)


def configurations(port: int, *, policy: str | None = None) -> Iterator[tuple[str, Json]]:
    """
    Both configurations that deploy/ has, each with its plural, for a webhook on loopback.

    There is no network inside of the cluster, so it is called by an address and not by its Service.
    """
    for configuration in yaml.safe_load_all((BASE / "webhook.yaml").read_text()):
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
            webhook["failurePolicy"] = policy or webhook["failurePolicy"]
        yield f"{configuration['kind'].lower()}s", configuration


@contextmanager
def configured(cluster: ControlPlane, server: WebhookServer, *, policy: str | None = None) -> Iterator[None]:
    """Inside, kube-apiserver calls the webhook about every Framework."""
    for plural, configuration in configurations(server.port, policy=policy):
        cluster.admin.post(f"{REGISTRATION}/{plural}", configuration)
    try:
        until_called(cluster, lambda: _is_called(cluster))
        yield
    finally:
        for plural in PLURALS:
            cluster.admin.delete(f"{REGISTRATION}/{plural}/framework-launcher")
        until(lambda: not _is_called(cluster) or None, "kube-apiserver calls the webhook no more")


def show_again(cluster: ControlPlane) -> None:
    """
    Change both configurations in a way that means nothing.

    When one is changed while kube-apiserver works out what the one before means, it takes that for the newest from then
    on, with the authority as it was. It gets over that with the next change.
    """
    again = {"metadata": {"annotations": {"launcher.test/shown": str(time.monotonic())}}}
    for plural in PLURALS:
        cluster.admin.patch(f"{REGISTRATION}/{plural}/framework-launcher", again)


def bundles(cluster: ControlPlane) -> list[str]:
    """Whom kube-apiserver trusts, by each webhook."""
    found = [cluster.admin.get(f"{REGISTRATION}/{plural}/framework-launcher") for plural in PLURALS]
    configs = [webhook["clientConfig"] for configuration in found for webhook in configuration["webhooks"]]
    return [b64decode(config.get("caBundle", "")).decode() for config in configs]


def kept(cluster: ControlPlane, name: str) -> str:
    """What the launcher keeps in its Secret under that name."""
    return b64decode(cluster.admin.get(SECRET)["data"][name]).decode()


def until_called(cluster: ControlPlane, is_called: Callable[[], bool]) -> None:
    """Return when kube-apiserver knows whom to trust, and calls the webhooks."""
    until(lambda: all(bundles(cluster)) or None, "the authority is told")
    ends = time.monotonic() + PATIENCE
    while not is_called():
        assert time.monotonic() < ends, f"kube-apiserver calls the webhook: not within {PATIENCE:g} s"
        time.sleep(1.0)
        show_again(cluster)
        time.sleep(1.0)


def _is_called(cluster: ControlPlane) -> bool:
    """Whether both webhooks work: one adds a number, and the other knows what the CRD cannot know."""
    return _is_defaulted(cluster) and _is_checked(cluster)


def _is_defaulted(cluster: ControlPlane) -> bool:
    answer = cluster.admin.ask("POST", _PROBE, a_framework(name="probe"))
    return answer.status == 201 and "replicas" in answer.body["spec"]


def _is_checked(cluster: ControlPlane) -> bool:
    return cluster.admin.ask("POST", _PROBE, a_waiting_framework("probe")).status == 422


def a_waiting_framework(name: str, **metadata: Any) -> Json:
    """One that the CRD takes and the launcher does not: its only role waits for itself."""
    role = a_role(startAfter=[{"role": "worker", "condition": "Running"}])
    waiting = a_framework(role, name=name)
    return {**waiting, "metadata": {**waiting["metadata"], **metadata}}
