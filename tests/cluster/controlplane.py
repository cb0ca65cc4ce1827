"""A real Kubernetes control plane with simulated nodes, on this machine's loopback."""

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
from tests.cluster.client import Client
from tests.cluster.nodes import is_ready, node
from tests.cluster.parts import LOOPBACK, Part, Places, arguments
from tests.cluster.pki import Authority, Certificate
from tests.cluster.ports import free_port
from tests.cluster.processes import Guard, Running
from tests.cluster.users import User, kubeconfig
from tests.local.server import PATIENCE, until

#: kube-apiserver reads tokens when it starts and never again, so there are more users than any test run wants.
_USERS = 500
_RBAC = "rbac.authorization.k8s.io"


class PartEnded(Exception):
    """A program of the control plane ended by itself; the message has the end of its log."""


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
        *durable* lets etcd wait for the disk, as it does in earnest: for figures, not for tests.

        Without *nodes*, nothing simulates any; *address* is where real ones find kube-apiserver.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._programs, self._nodes = directory, programs, nodes
        self._ports = [free_port() for _ in range(3)]
        etcd, peers, apiserver = (port.number for port in self._ports)
        self._places = Places(directory, etcd, peers, apiserver, address)
        self._authority = Authority(directory / "pki")
        names = ["admin", *(f"user-{number}" for number in range(_USERS))]
        self._tokens = {name: secrets.token_hex(16) for name in names}
        self._nobodies = iter(names[1:])
        self.url = f"https://{address}:{self._places.apiserver}"
        self.admin_user = self._user("admin", self._tokens["admin"])
        self.admin = self.client(self.admin_user)
        self.audit = AuditLog(
            self._places.audit, lambda agent: self.admin.ask("GET", "/version", user_agent=agent)
        )
        self._arguments = arguments(
            self._places, self._authority, self._tokens, self.kubeconfig, durable=durable
        )
        self._guard: Guard | None = None
        self._running: dict[Part, Running] = {}

    # Its life.

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return when pods can be created and find a node. Raises PartEnded; then nothing runs."""
        self._guard = Guard()
        try:
            self._launch(Part.ETCD)
            self._launch(Part.APISERVER)
            self._until(self._answers, "kube-apiserver is ready")
            for part in (Part.CONTROLLER_MANAGER, Part.SCHEDULER):
                self._launch(part)
            if self._nodes:
                self._launch(Part.KWOK)
            for number in range(self._nodes):
                self.admin.post("/api/v1/nodes", node(number))
            self._until(self._nodes_are_ready, "every node is ready")
            self._until(lambda: self._is_set_up("default"), "namespace default is set up")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process, and return when they have ended. The logs stay; the data goes."""
        for part in reversed(Part):
            self.kill(part)
        if self._guard is not None:
            self._guard.end()
            self._guard = None
        for port in self._ports:
            port.give_back()
        shutil.rmtree(self._places.data, ignore_errors=True)

    def tell(self, part: Part, *flags: str) -> None:
        """Give it these flags too, from its next start on."""
        self._arguments[part] += flags

    def kill(self, part: Part) -> None:
        """End it as a crash does."""
        self._end(part, signal.SIGKILL)

    def terminate(self, part: Part) -> None:
        """Ask it to end, as an upgrade does, and return when it has."""
        self._end(part, signal.SIGTERM)

    def restart(self, part: Part) -> None:
        """Start it again in its place, killed now unless it has ended; return when kube-apiserver is ready."""
        self.kill(part)
        self._launch(part)
        self._until(self._answers, "kube-apiserver is ready")

    @contextmanager
    def paused(self, part: Part) -> Iterator[None]:
        """Inside, it is there and does nothing."""
        process = self._running[part]
        process.send(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send(signal.SIGCONT)

    def pid(self, part: Part) -> int:
        """Its process, while it runs."""
        return self._running[part].pid

    def log(self, part: Part) -> Path:
        """What it has said, over all its restarts."""
        return self._directory / f"{part}.log"

    # Its clients.

    @property
    def kubeconfig(self) -> Path:
        """The admin's."""
        return self.admin_user.kubeconfig

    @property
    def admin_token(self) -> str:
        return self.admin_user.token

    @property
    def etcd(self) -> str:
        """Where etcd itself is asked: it knows every version of every object, whoever was there to see it."""
        return f"http://{LOOPBACK}:{self._places.etcd}"

    @property
    def ca(self) -> Path:
        """The certificate by which a client knows kube-apiserver."""
        return self._authority.certificate

    def client(self, user: User | None) -> Client:
        """Asks as *user*, or as nobody."""
        return Client(self._places.address, self._places.apiserver, self.ca, user)

    def kubectl(
        self, *words: str, stdin: str | None = None, ok: bool = True, user: User | None = None
    ) -> str:
        """What kubectl prints, asked by the admin or by *user*; its complaints too when it is to fail."""
        config, cache = (user or self.admin_user).kubeconfig, self._directory / "kubectl"
        done = subprocess.run(
            [str(self._programs / "kubectl"), f"--kubeconfig={config}", f"--cache-dir={cache}", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
        )
        assert (done.returncode == 0) is ok, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout if ok else done.stdout + done.stderr

    def until_served(self, path: str) -> None:
        """Return when the API server serves objects at *path*, which is a while after it got their definition."""
        self._until(lambda: self.admin.ask("GET", path).status == 200, f"{path} is served")

    def new_user(self) -> User:
        """Somebody who has no rights yet."""
        name = next(self._nobodies)
        return self._user(name, self._tokens[name])

    def service_account(self, namespace: str, name: str) -> User:
        """The service account of that name, made if there is none."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        made = self.admin.ask("POST", accounts, {"metadata": {"name": name}})
        assert made.status in {201, 409}, made
        answer = self.admin.post(f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 7200}})
        return self._user(f"system:serviceaccount:{namespace}:{name}", answer["status"]["token"])

    def certified_user(self, name: str, *groups: str) -> User:
        """A member of these groups, by a certificate instead of a token."""
        certificate = self._authority.client(name, *groups)
        return User(name, self._kubeconfig(name, certificate), certificate=certificate)

    def grant(
        self, user: User, rules: Sequence[Mapping[str, Sequence[str]]], *, namespace: str | None = None
    ) -> None:
        """Let *user* do what these RBAC rules say, in one namespace or everywhere; return when he may."""
        kind, scope = ("ClusterRole", "") if namespace is None else ("Role", f"/namespaces/{namespace}")
        place = f"/apis/{_RBAC}/v1{scope}/{kind.lower()}"
        meta = {"name": f"granted-{secrets.token_hex(4)}"}
        role = {"apiGroup": _RBAC, "kind": kind, "name": meta["name"]}
        who = {"apiGroup": _RBAC, "kind": "User", "name": user.name}
        self.admin.post(f"{place}s", {"metadata": meta, "rules": rules})
        self.admin.post(f"{place}bindings", {"metadata": meta, "roleRef": role, "subjects": [who]})
        rule = rules[-1]
        first = {"verb": rule["verbs"][0], "group": rule["apiGroups"][0], "resource": rule["resources"][0]}
        asked = {name: "any" if value == "*" else value for name, value in first.items()}
        self.until_allowed(user, **asked, namespace=namespace or "")

    def until_allowed(self, user: User, **what: str) -> None:
        """Return when kube-apiserver lets *user* do that: it hears of roles and their bindings a while later."""
        question = {"spec": {"user": user.name, "resourceAttributes": what}}

        def is_allowed() -> bool:
            answer = self.admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", question)
            return bool(answer["status"]["allowed"])

        self._until(is_allowed, f"{user.name} may {what}")

    def new_namespace(self) -> str:
        """An empty namespace in which pods can be created."""
        name = f"test-{secrets.token_hex(4)}"
        self.admin.post("/api/v1/namespaces", {"metadata": {"name": name}})
        self._until(lambda: self._is_set_up(name), f"namespace {name} is set up")
        return name

    # Its parts.

    def _launch(self, part: Part) -> None:
        assert self._guard is not None, "the control plane has not been started"
        argv = [str(self._programs / part), *self._arguments[part]]
        self._running[part] = self._guard.start(argv, log=self.log(part), directory=self._directory)

    def _end(self, part: Part, number: signal.Signals) -> None:
        process = self._running.pop(part, None)
        if process is None:
            return
        process.send(number)
        ended = process.ended(within=PATIENCE)
        if not ended:
            process.send(signal.SIGKILL)
        process.forget()
        assert ended, f"{part} has not ended {PATIENCE:g} s after {number.name}"

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        """Return when that holds; raise at once when a part has ended, since it never will then."""

        def look() -> bool | None:
            for part, process in self._running.items():
                if process.ended():
                    raise PartEnded(f"{part} has ended before {what}:\n{process.last_words()}")
            return holds() or None

        until(look, what)

    def _answers(self) -> bool:
        try:
            return self.admin.ask("GET", "/readyz").status == 200
        except OSError:
            return False

    def _nodes_are_ready(self) -> bool:
        return all(is_ready(one) for one in self.admin.get("/api/v1/nodes")["items"])

    def _is_set_up(self, namespace: str) -> bool:
        """Whether it has the service account that its pods run as; before, they are refused."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        return self.admin.ask("GET", path).status == 200

    def _user(self, name: str, token: str) -> User:
        return User(name, self._kubeconfig(name, token), token=token)

    def _kubeconfig(self, name: str, proof: str | Certificate) -> Path:
        path = self._directory / f"{name.replace(':', '-')}.kubeconfig"
        path.write_text(kubeconfig(self.url, self.ca, proof))
        path.chmod(0o600)
        return path
