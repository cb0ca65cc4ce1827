"""A real Kubernetes control plane with simulated nodes, on this machine's loopback."""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cluster.audit import AuditLog
from tests.cluster.client import ClusterClient
from tests.cluster.components import LOOPBACK, Component, Layout, arguments
from tests.cluster.nodes import is_ready, node
from tests.cluster.pki import Authority, Certificate
from tests.cluster.ports import free_port
from tests.cluster.processes import Guard, RunningProcess
from tests.cluster.users import User, kubeconfig
from tests.eventually import TIMEOUT_SECONDS, until

#: kube-apiserver reads tokens only when it starts, so there are more users than a test run needs.
_USERS = 500
_RBAC = "rbac.authorization.k8s.io"


class ComponentEnded(Exception):
    """A component exited; the message has the end of its log."""


class ControlPlane:
    """
    etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok, all below one directory.

    Their processes end with :meth:`stop`, with the ``with`` block, and with the process that made them, even if that
    is killed.
    """

    def __init__(
        self,
        directory: Path,
        programs: Path,
        *,
        nodes: int = 10,
        durable: bool = False,
        address: str = LOOPBACK,
    ) -> None:
        """
        *durable* makes etcd sync to disk, as in production: for benchmarks, not for tests.

        With no *nodes*, kwok does not run; *address* is that of kube-apiserver for real nodes.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._programs, self._nodes = directory, programs, nodes
        self._ports = [free_port() for _ in range(3)]
        etcd, peers, apiserver = (port.number for port in self._ports)
        self._layout = Layout(directory, etcd, peers, apiserver, address)
        self._authority = Authority(directory / "pki")
        names = ["admin", *(f"user-{number}" for number in range(_USERS))]
        self._tokens = {name: secrets.token_hex(16) for name in names}
        self._unused_users = iter(names[1:])
        self.url = f"https://{address}:{self._layout.apiserver}"
        self.admin_user = self._user("admin", self._tokens["admin"])
        self.admin = self.client(self.admin_user)
        self.audit = AuditLog(
            self._layout.audit, lambda agent: self.admin.request("GET", "/version", user_agent=agent)
        )
        self._arguments = arguments(
            self._layout, self._authority, self._tokens, self.kubeconfig, durable=durable
        )
        self._guard: Guard | None = None
        self._running: dict[Component, RunningProcess] = {}

    # Lifecycle.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return when pods can be created and scheduled. Raises ComponentEnded, in which case nothing runs."""
        self._guard = Guard()
        try:
            self._launch(Component.ETCD)
            self._launch(Component.APISERVER)
            self._until(self._is_ready, "kube-apiserver is ready")
            for component in (Component.CONTROLLER_MANAGER, Component.SCHEDULER):
                self._launch(component)
            if self._nodes:
                self._launch(Component.KWOK)
            for number in range(self._nodes):
                self.admin.post("/api/v1/nodes", node(number))
            self._until(self._nodes_are_ready, "every node is ready")
            self._until(lambda: self._is_set_up("default"), "namespace default is set up")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process and delete the data; the logs stay."""
        for component in reversed(Component):
            self.kill(component)
        if self._guard is not None:
            self._guard.end()
            self._guard = None
        for port in self._ports:
            port.release()
        shutil.rmtree(self._layout.data, ignore_errors=True)

    def add_flags(self, component: Component, *flags: str) -> None:
        """Add flags, which apply from the next start on."""
        self._arguments[component] += flags

    def kill(self, component: Component) -> None:
        """End it with SIGKILL."""
        self._end(component, signal.SIGKILL)

    def terminate(self, component: Component) -> None:
        """End it with SIGTERM, as an upgrade does."""
        self._end(component, signal.SIGTERM)

    def restart(self, component: Component) -> None:
        """Start it again, killing it if it runs; return when kube-apiserver is ready."""
        self.kill(component)
        self._launch(component)
        self._until(self._is_ready, "kube-apiserver is ready")

    @contextmanager
    def paused(self, component: Component) -> Iterator[None]:
        """Inside, it is stopped by SIGSTOP."""
        process = self._running[component]
        process.send(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send(signal.SIGCONT)

    def pid(self, component: Component) -> int:
        """The id of its process."""
        return self._running[component].pid

    def log(self, component: Component) -> Path:
        """Its log file, across restarts."""
        return self._directory / f"{component}.log"

    # Clients.

    @property
    def kubeconfig(self) -> Path:
        """The admin's."""
        return self.admin_user.kubeconfig

    @property
    def admin_token(self) -> str:
        return self.admin_user.token

    @property
    def etcd(self) -> str:
        """The URL of etcd, which has every version of every object."""
        return f"http://{LOOPBACK}:{self._layout.etcd}"

    @property
    def ca(self) -> Path:
        """The CA certificate of kube-apiserver."""
        return self._authority.certificate

    def client(self, user: User | None) -> ClusterClient:
        """A client with the credentials of *user*, or with none."""
        return ClusterClient(self._layout.address, self._layout.apiserver, self.ca, user)

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        ok: bool = True,
        user: User | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """The output of kubectl, run as admin or as *user*; with *ok* false it must fail, and errors are included."""
        config, cache = (user or self.admin_user).kubeconfig, self._directory / "kubectl"
        done = subprocess.run(
            [str(self._programs / "kubectl"), f"--kubeconfig={config}", f"--cache-dir={cache}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS * 2,
            env={**os.environ, **(environment or {})},
        )
        assert (done.returncode == 0) is ok, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout if ok else done.stdout + done.stderr

    def until_served(self, path: str) -> None:
        """Return when the API server serves *path*, which is some time after its CRD was created."""
        self._until(lambda: self.admin.request("GET", path).status == 200, f"{path} is served")

    def new_user(self) -> User:
        """A user without permissions."""
        name = next(self._unused_users)
        return self._user(name, self._tokens[name])

    def service_account(self, namespace: str, name: str) -> User:
        """The service account of that name, created if necessary."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        created = self.admin.request("POST", accounts, {"metadata": {"name": name}})
        assert created.status in {201, 409}, created
        response = self.admin.post(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 7200}})
        return self._user(f"system:serviceaccount:{namespace}:{name}", response["status"]["token"])

    def certified_user(self, name: str, *groups: str) -> User:
        """A member of these groups, by a certificate instead of a token."""
        certificate = self._authority.client(name, *groups)
        return User(name, self._kubeconfig(name, certificate), certificate=certificate)

    def grant(
        self, user: User, rules: Sequence[Mapping[str, Sequence[str]]], *, namespace: str | None = None
    ) -> None:
        """Grant *user* these RBAC rules, in one namespace or in all; return when they apply."""
        kind, scope = ("ClusterRole", "") if namespace is None else ("Role", f"/namespaces/{namespace}")
        path = f"/apis/{_RBAC}/v1{scope}/{kind.lower()}"
        meta = {"name": f"granted-{secrets.token_hex(4)}"}
        role = {"apiGroup": _RBAC, "kind": kind, "name": meta["name"]}
        subject = {"apiGroup": _RBAC, "kind": "User", "name": user.name}
        self.admin.post(f"{path}s", {"metadata": meta, "rules": rules})
        self.admin.post(f"{path}bindings", {"metadata": meta, "roleRef": role, "subjects": [subject]})
        rule = rules[-1]
        first = {"verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": rule["resources"][0]}
        attributes = {name: "any" if value == "*" else value for name, value in first.items()}
        self.until_allowed(user, **attributes, namespace=namespace or "")

    def until_allowed(self, user: User, **attributes: str) -> None:
        """Return when kube-apiserver allows an access with these attributes: roles and bindings apply with a delay."""
        review = {"spec": {"user": user.name, "resourceAttributes": attributes}}

        def is_allowed() -> bool:
            response = self.admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
            return bool(response["status"]["allowed"])

        self._until(is_allowed, f"{user.name} may {attributes}")

    def new_namespace(self) -> str:
        """An empty namespace in which pods can be created."""
        name = f"test-{secrets.token_hex(4)}"
        self.admin.post("/api/v1/namespaces", {"metadata": {"name": name}})
        self._until(lambda: self._is_set_up(name), f"namespace {name} is set up")
        return name

    # Components.

    def _launch(self, component: Component) -> None:
        assert self._guard is not None, "the control plane has not been started"
        argv = [str(self._programs / component), *self._arguments[component]]
        self._running[component] = self._guard.start(argv, log=self.log(component), directory=self._directory)

    def _end(self, component: Component, number: signal.Signals) -> None:
        process = self._running.pop(component, None)
        if process is None:
            return
        process.send(number)
        ended = process.ended(within=TIMEOUT_SECONDS)
        if not ended:
            process.send(signal.SIGKILL)
        process.close()
        assert ended, f"{component} has not exited {TIMEOUT_SECONDS:g} s after {number.name}"

    def _until(self, holds: Callable[[], bool], attributes: str) -> None:
        """Return when that holds. Raises ComponentEnded if a component has exited."""

        def probe() -> bool | None:
            for component, process in self._running.items():
                if process.ended():
                    raise ComponentEnded(f"{component} exited before {attributes}:\n{process.log_tail()}")
            return holds() or None

        until(probe, attributes)

    def _is_ready(self) -> bool:
        try:
            return self.admin.request("GET", "/readyz").status == 200
        except OSError:
            return False

    def _nodes_are_ready(self) -> bool:
        return all(is_ready(one) for one in self.admin.get("/api/v1/nodes")["items"])

    def _is_set_up(self, namespace: str) -> bool:
        """Whether its default service account exists; pods are rejected before that."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        return self.admin.request("GET", path).status == 200

    def _user(self, name: str, token: str) -> User:
        return User(name, self._kubeconfig(name, token), token=token)

    def _kubeconfig(self, name: str, credential: str | Certificate) -> Path:
        path = self._directory / f"{name.replace(':', '-')}.kubeconfig"
        path.write_text(kubeconfig(self.url, self.ca, credential))
        path.chmod(0o600)
        return path
