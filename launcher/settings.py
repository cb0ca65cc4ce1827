"""
What the launcher is told by flags, environment and a config file: the only reader of these.

A flag stands over its variable in the environment, and that over the config file. All three have the same names:
``--tls-cert``, ``LAUNCHER_TLS_CERT``, ``tls-cert:``.
"""

import os
import re
import secrets
import socket
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from launcher.api.exposure import cluster_refusal, refusal
from launcher.api.policy import Policy
from launcher.api.unix_socket import LONGEST_SOCKET_PATH, UNIX, UnixListener
from launcher.core.checking.guess import meant
from launcher.core.errors import LauncherError
from launcher.core.quantity import quantity
from launcher.node.log_budget import LogBudgets
from launcher.node.nodes import NodeSpec, named_nodes, this_machine

DEFAULT_LISTEN = "127.0.0.1:8080"
#: Less than one log file of a container is no budget.
LEAST_LOG_BUDGET_BYTES = 1024 * 1024
#: A token that can be guessed is none.
_SHORTEST_TOKEN = 16
#: Of a server, perhaps with a path before ours; nothing that a shell or a query could trip over.
_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")


class BadSetting(LauncherError):
    """A setting that cannot be followed; the message names it and the way out."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a certificate, with its chain, and of its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Settings:
    """What local mode runs with."""

    host: str
    port: int
    data: Path
    nodes: tuple[NodeSpec, ...]
    #: Directories laid over the root, by the image whose containers see them.
    images: Mapping[str, Path] = field(default_factory=dict)
    #: Directories that stand for ``server:/path``.
    nfs: Mapping[str, Path] = field(default_factory=dict)
    #: Directories that stand for persistent volume claims, by their names.
    claims: Mapping[str, Path] = field(default_factory=dict)
    token: str | None = None
    tls: Tls | None = None
    #: Names by which clients may call us, beside the address itself.
    hosts: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    #: Where containers look for programs after the usual places: where this launcher's user does.
    path: str = ""
    #: Where pods find us; empty: where we listen.
    discovery_url: str = ""
    #: The unix socket that is listened on instead of an address; *host* is then the name that clients send.
    unix_socket: Path | None = None
    #: Files and directories with credentials, and the unix socket: containers do not see them.
    credentials: tuple[Path, ...] = ()
    log_budgets: LogBudgets = field(default_factory=LogBudgets)


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A cluster by files, joined by colons, and a context in them; None is what kubectl takes."""

    files: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class InPod:
    """The cluster that this process runs in: where a pod is told to find its API server."""

    host: str
    port: str


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What Kubernetes mode runs with."""

    host: str
    port: int
    cluster: Kubeconfig | InPod
    #: Files of a certificate, or the Secret that keeps one which the launcher makes itself.
    tls: Tls | str | None = None
    #: Whose client certificates are taken beside tokens.
    client_ca: Path | None = None
    #: Names by which clients may call us, beside those of the Service.
    hosts: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    #: Whether Frameworks can be had under FrameworkController's name, too.
    frameworkcontroller: bool = False
    #: Where pods find us; empty: at our Service, or where we listen when we are outside of the cluster.
    discovery_url: str = ""


#: Every setting that is one text, every one that may be given several times, and every one that is yes or no.
SINGLE = (
    "listen",
    "data",
    "token-file",
    "tls-cert",
    "tls-key",
    "tls-secret",
    "client-ca",
    "kubeconfig",
    "context",
    "discovery-url",
    "log-budget",
    "log-budget-framework",
    "log-disk-reserve",
)
REPEATED = ("node", "image", "nfs", "claim", "host")
SWITCHES = ("kubernetes", "serve-frameworkcontroller")
#: Settings that mean something in one mode only: what pods run on is the cluster's matter, and so is who may call.
_LOCAL_ONLY = (
    "data",
    "token-file",
    "node",
    "image",
    "nfs",
    "claim",
    "log-budget",
    "log-budget-framework",
    "log-disk-reserve",
)
_KUBERNETES_ONLY = ("tls-secret", "client-ca", "kubeconfig", "context")
#: For those who write something else where a name is given a directory.
_DIRECTORIES = {
    "image": "tensorflow/tensorflow=/srv/tensorflow",
    "nfs": "10.0.0.1:/share=/srv/share",
    "claim": "training-data=/srv/data",
}
_YES_OR_NO = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class _Said:
    """What flags, environment and config file say together."""

    def __init__(self, given: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """*given* are flags by name, None or empty when not given. Raises BadSetting for a config file that is none."""
        self._given, self._environment = given, environment
        self._config = given.get("config") or environment.get("LAUNCHER_CONFIG")
        self._filed = _config(Path(self._config)) if self._config else {}

    def one(self, name: str) -> str | None:
        value: str | None = (
            self._given.get(name) or self._environment.get(_variable(name)) or self._filed.get(name)
        )
        return value

    def several(self, name: str) -> Sequence[str]:
        variable = self._environment.get(_variable(name), "").split()
        values: Sequence[str] = self._given.get(name) or variable or self._filed.get(name, ())
        return values

    def yes(self, name: str) -> bool:
        if self._given.get(name):
            return True
        word = self._environment.get(_variable(name))
        if word:
            if word.lower() not in _YES_OR_NO:
                raise BadSetting(f"{_variable(name)}: {word!r} is neither true nor false")
            return _YES_OR_NO[word.lower()]
        return bool(self._filed.get(name, False))

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Raises BadSetting when one of these was said all the same."""
        for name in names:
            if self.several(name) if name in REPEATED else self.one(name):
                raise BadSetting(f"{name}: {why}")

    def tls(self) -> Tls | None:
        cert, key = self.one("tls-cert"), self.one("tls-key")
        if bool(cert) != bool(key):
            raise BadSetting("tls-cert and tls-key belong together: give both or none")
        if not (cert and key):
            return None
        return Tls(_readable("tls-cert", Path(cert)), _readable("tls-key", Path(key)))

    def credentials(self) -> tuple[Path, ...]:
        """Token, key and config file, and the directory in which systemd shows credentials to a service."""
        found = (
            self._config,
            self.one("token-file"),
            self.one("tls-key"),
            self._environment.get("CREDENTIALS_DIRECTORY"),
        )
        return tuple(Path(path).absolute() for path in found if path)

    def policy(self) -> Policy:
        return _policy(self._filed.get("policy", {}))


def is_for_kubernetes(given: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether Kubernetes mode is asked for. Raises BadSetting."""
    return _Said(given, environment).yes("kubernetes")


def settings_from(given: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """
    What *given* (flags, by name; None or empty when not given), the environment and the config file say together.

    Raises BadSetting for the first that cannot be followed.
    """
    said = _Said(given, environment)
    said.refuse(_KUBERNETES_ONLY, "only with --kubernetes; without, the launcher runs pods on this machine")
    listen = said.one("listen") or DEFAULT_LISTEN
    unix_socket = _unix_socket(listen)
    host, port = ("localhost", 0) if unix_socket else _address(listen)
    token_file = said.one("token-file")
    token = _token(Path(token_file)) if token_file else None
    tls = said.tls()
    if tls and unix_socket:
        raise BadSetting(
            "tls-cert: not with a unix socket, which only this machine reaches; leave out one of them"
        )
    if why := refusal(host, token=token is not None, tls=tls is not None):
        raise BadSetting(why)
    return Settings(
        host=host,
        port=port,
        data=Path(said.one("data") or default_data(environment)).expanduser().resolve(),
        nodes=_nodes(said.several("node")),
        images=_directories("image", said.several("image")),
        nfs=_directories("nfs", said.several("nfs")),
        claims=_directories("claim", said.several("claim")),
        token=token,
        tls=tls,
        hosts=tuple(said.several("host")),
        policy=said.policy(),
        path=environment.get("PATH", ""),
        discovery_url=_url("discovery-url", said.one("discovery-url") or ""),
        unix_socket=unix_socket,
        credentials=(*said.credentials(), *([unix_socket] if unix_socket else [])),
        log_budgets=_log_budgets(said),
    )


def cluster_settings_from(given: Mapping[str, Any], environment: Mapping[str, str]) -> ClusterSettings:
    """As ``settings_from``, for Kubernetes mode."""
    said = _Said(given, environment)
    said.refuse(
        _LOCAL_ONLY, "not with --kubernetes: pods, their nodes and who may call are the cluster's matter"
    )
    listen = said.one("listen") or DEFAULT_LISTEN
    if _unix_socket(listen):
        raise BadSetting(
            "listen: unix: not with --kubernetes, whose API server calls the launcher; set HOST:PORT"
        )
    host, port = _address(listen)
    tls, secret = said.tls(), said.one("tls-secret")
    if tls and secret:
        raise BadSetting("tls-secret: not beside tls-cert and tls-key; give the one or the other")
    client_ca = said.one("client-ca")
    if client_ca and not (tls or secret):
        raise BadSetting("client-ca: only with TLS; set --tls-cert and --tls-key, or --tls-secret")
    if why := cluster_refusal(host, tls=bool(tls or secret)):
        raise BadSetting(why)
    return ClusterSettings(
        host=host,
        port=port,
        cluster=_cluster(said, environment),
        tls=tls or secret,
        client_ca=_readable("client-ca", Path(client_ca)) if client_ca else None,
        hosts=tuple(said.several("host")),
        policy=said.policy(),
        frameworkcontroller=said.yes("serve-frameworkcontroller"),
        discovery_url=_url("discovery-url", said.one("discovery-url") or ""),
    )


def _cluster(said: _Said, environment: Mapping[str, str]) -> Kubeconfig | InPod:
    """Whatever is named goes first; a pod that is told nothing means the cluster around it."""
    files, context = said.one("kubeconfig"), said.one("context")
    service = environment.get("KUBERNETES_SERVICE_HOST")
    if service and not files and not context:
        return InPod(service, environment.get("KUBERNETES_SERVICE_PORT", "443"))
    return Kubeconfig(files or environment.get("KUBECONFIG") or None, context)


def for_run(
    data: Path, nodes: Sequence[str], images: Sequence[str], nfs: Sequence[str], claims: Sequence[str] = ()
) -> Settings:
    """Settings of a launcher for the life of one Framework: any free port, and a token that nobody else knows."""
    return Settings(
        host="127.0.0.1",
        port=0,
        data=data.resolve(),
        nodes=_nodes(nodes),
        images=_directories("image", images),
        nfs=_directories("nfs", nfs),
        claims=_directories("claim", claims),
        token=secrets.token_urlsafe(32),
        path=os.environ.get("PATH", ""),
    )


def listening(settings: Settings | ClusterSettings) -> socket.socket:
    """A socket that clients can connect to from now on. Raises OSError when the address cannot be had."""
    if isinstance(settings, Settings) and settings.unix_socket:
        return UnixListener(settings.unix_socket)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=1024)


def url_of(settings: Settings | ClusterSettings, sock: socket.socket) -> str:
    """Where clients find us at *sock*."""
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls else 'http'}://{shown}:{port}"


def default_data(environment: Mapping[str, str]) -> Path:
    """Where a user's programs keep their data."""
    base = environment.get("XDG_DATA_HOME")
    return (Path(base) if base else Path("~/.local/share").expanduser()) / "framework-launcher"


def _variable(name: str) -> str:
    return "LAUNCHER_" + name.upper().replace("-", "_")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise BadSetting(f"listen: {text!r} is not HOST:PORT; for instance {DEFAULT_LISTEN}")
    return host, int(port)


def _unix_socket(text: str) -> Path | None:
    """The path of ``unix:PATH``; None for an address."""
    if not text.startswith(UNIX):
        return None
    path = Path(text.removeprefix(UNIX)).expanduser().absolute()
    if path == Path.cwd() or len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise BadSetting(
            f"listen: {text!r} is not unix:PATH with a path of at most {LONGEST_SOCKET_PATH} bytes; "
            "for instance unix:/run/user/1000/launcher.sock"
        )
    return path


def _url(name: str, text: str) -> str:
    if text and not _URL.fullmatch(text):
        raise BadSetting(
            f"{name}: {text!r} is no URL of a server; for instance https://launcher.example:8443"
        )
    return text.rstrip("/")


def _log_budgets(said: _Said) -> LogBudgets:
    usual = LogBudgets()
    return LogBudgets(
        _bytes("log-budget", said.one("log-budget"), usual.total, LEAST_LOG_BUDGET_BYTES),
        _bytes(
            "log-budget-framework",
            said.one("log-budget-framework"),
            usual.framework,
            LEAST_LOG_BUDGET_BYTES,
        ),
        _bytes("log-disk-reserve", said.one("log-disk-reserve"), usual.reserve, 0),
    )


def _bytes(name: str, text: str | None, usual: int, least: int) -> int:
    if text is None:
        return usual
    try:
        amount = int(quantity(text))
    except ValueError as error:
        raise BadSetting(f"{name}: {error}") from error
    if amount < least:
        raise BadSetting(f"{name}: {text} is less than the least possible, {least} bytes")
    return amount


def _nodes(texts: Sequence[str]) -> tuple[NodeSpec, ...]:
    if not texts:
        return (this_machine(),)
    try:
        return named_nodes(texts)
    except ValueError as error:
        raise BadSetting(f"node: {error}") from error


def _directories(name: str, texts: Sequence[str]) -> dict[str, Path]:
    """``KEY=DIR`` by its key. A key may hold no ``=``, a directory may."""
    found: dict[str, Path] = {}
    for text in texts:
        key, equals, directory = text.partition("=")
        if not (key and equals and directory):
            raise BadSetting(f"{name}: {text!r} is not KEY=DIR; for instance {_DIRECTORIES[name]}")
        path = Path(directory).expanduser().absolute()
        if not path.is_dir():
            raise BadSetting(f"{name}: {key}: {path} is no directory")
        found[key] = path
    return found


def _token(path: Path) -> str:
    _readable("token-file", path)
    if path.stat().st_mode & stat.S_IROTH:
        raise BadSetting(f"token-file: everybody can read {path}; run: chmod 600 {path}")
    token = path.read_text(errors="replace").strip()
    if len(token) < _SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise BadSetting(
            f"token-file: {path} has to hold one word of at least {_SHORTEST_TOKEN} characters; "
            f"make one with: openssl rand -hex 32 > {path}"
        )
    return token


def _readable(name: str, path: Path) -> Path:
    if not (path.is_file() and os.access(path, os.R_OK)):
        raise BadSetting(f"{name}: {path} is no file that can be read")
    return path.absolute()


def _config(path: Path) -> dict[str, Any]:
    """The config file, each setting of the type that it has to be."""
    import yaml  # slow to import, and most start without a config file

    _readable("config", path)
    try:
        value = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise BadSetting(f"config: {path}: {error}") from error
    known = (*SINGLE, *REPEATED, *SWITCHES, "policy")
    for name, setting in _mapping(f"config: {path}", value or {}).items():
        if name not in known:
            raise BadSetting(f"config: {path}: there is no setting {name!r}{_perhaps(name, known)}")
        wanted = _type_of(name)
        if not isinstance(setting, wanted) or (
            wanted is list and not all(isinstance(s, str) for s in setting)
        ):
            what = {str: "text", list: "a list of texts", dict: "a mapping", bool: "true or false"}[wanted]
            raise BadSetting(f"config: {path}: {name} has to be {what}")
    return value or {}


def _type_of(name: str) -> type[Any]:
    if name in SWITCHES:
        return bool
    return str if name in SINGLE else dict if name == "policy" else list


def _policy(given: Mapping[str, Any]) -> Policy:
    """``host-path-prefixes: [/srv]`` and so on, as the fields of Policy."""
    known = {entry.name.replace("_", "-"): entry.name for entry in fields(Policy)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise BadSetting(f"config: policy: there is no setting {name!r}{_perhaps(name, known)}")
        if name in ("host-path-prefixes", "nfs-servers"):
            if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
                raise BadSetting(f"config: policy: {name} has to be a list of texts")
            value = tuple(value)
        elif name == "max-tasks":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadSetting(f"config: policy: {name} has to be a number of at least 1")
        elif not isinstance(value, bool):
            raise BadSetting(f"config: policy: {name} has to be true or false")
        values[known[name]] = value
    return Policy(**values)


def _mapping(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadSetting(f"{where} has to be a mapping of settings")
    return value


def _perhaps(name: Any, known: Iterable[str]) -> str:
    word = meant(str(name), known)
    return f"; did you mean {word!r}?" if word else f"; there are {', '.join(known)}"
