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
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from launcher.api.http.unix_socket import LONGEST_SOCKET_PATH, UNIX, UnixListener
from launcher.core.errors import LauncherError
from launcher.core.parsing.decoder import Decoded, Media, decode_utf8
from launcher.core.quantity import quantity
from launcher.core.validation.admission_policy import Policy
from launcher.core.validation.field_errors import suggestion
from launcher.node.logs.log_budget import LogBudgets
from launcher.node.node_spec import NodeSpec, named_nodes, this_machine


def refusal(listen_host: str, *, token: bool, tls: bool) -> str | None:
    """Why the server must not listen there, and the way out; None when it may."""
    if _is_loopback(listen_host) or (token and tls):
        return None
    missing = " and ".join(what for what, given in (("a token", token), ("TLS", tls)) if not given)
    return (
        f"{listen_host or 'every address'} can be reached from other machines, and whoever reaches the server can run "
        f"commands here: set {missing}, or listen on 127.0.0.1"
    )


def cluster_refusal(listen_host: str, *, tls: bool) -> str | None:
    """As ``refusal``, where the cluster decides who may do what: only callers' credentials have to be kept safe."""
    if _is_loopback(listen_host) or tls:
        return None
    return (
        f"{listen_host or 'every address'} can be reached from other machines, and callers send their credentials: "
        "set --tls-cert and --tls-key, or --tls-secret, or listen on 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    # A name may lead anywhere tomorrow, so only the one that the standards tie to this machine counts.
    if host == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


DEFAULT_LISTEN = "127.0.0.1:8080"
#: Less than one log file of a container is no budget.
LEAST_LOG_BUDGET_BYTES = 1024 * 1024
#: A token that can be guessed is none.
_SHORTEST_TOKEN = 16
#: Of a server, perhaps with a path before ours; nothing that a shell or a query could trip over.
_URL = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")

_HOST = re.compile(
    r"[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*|[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?"
)
_PORT = re.compile(r"[0-9]{1,5}")
#: Set by the kubelet in every container.
_POD_VARIABLE = "KUBERNETES_SERVICE_HOST"
#: Modes of a file with a secret: others use it in any way or the group changes it; others change it.
_USE_BY_OTHERS = stat.S_IRWXO | stat.S_IWGRP
_WRITE_BY_OTHERS = stat.S_IWOTH


class InvalidSetting(LauncherError):
    """A setting that cannot be followed; the message names it and the way out."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
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
    tls: TlsFiles | None = None
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
    tls: TlsFiles | str | None = None
    #: Whose client certificates are taken beside tokens.
    client_ca: Path | None = None
    #: Names by which clients may call us, beside those of the Service.
    hosts: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)
    #: Whether Frameworks can be had under FrameworkController's name, too.
    frameworkcontroller: bool = False
    #: Whether the cluster is asked who may read ``/metrics``.
    metrics_auth: bool = False
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
SWITCHES = ("kubernetes", "serve-frameworkcontroller", "metrics-auth")
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


class _SettingSources:
    """What flags, environment and config file say together, and where each setting was given."""

    def __init__(self, given: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """*given* are flags by name, None or no values when not given. Raises InvalidSetting."""
        self._given, self._environment = given, environment
        self._config = _ConfigFile()
        if config := self.one("config"):
            self._config = _ConfigFile.read(self.source("config"), Path(config))

    def source(self, name: str) -> str:
        """The flag, the variable or the line of the config file that sets *name*."""
        if self._is_flag(name):
            return f"--{name}"
        if _variable(name) in self._environment:
            return _variable(name)
        return self._config.source(name)

    def one(self, name: str) -> str | None:
        """The value; None when it is not set. Raises InvalidSetting for an empty one."""
        value = self._raw(name)
        return None if value is None else self._text(name, value)

    def several(self, name: str) -> Sequence[str]:
        """The values; those of a variable are separated by blanks. Raises InvalidSetting for an empty one."""
        values = self._raw(name)
        if isinstance(values, str):
            values = values.split() or [""]
        return [self._text(name, value) for value in values or ()]

    def yes(self, name: str) -> bool:
        value = self._raw(name)
        if isinstance(value, str):
            if value.lower() not in _YES_OR_NO:
                raise InvalidSetting(f"{self.source(name)}: {value!r} is neither true nor false")
            return _YES_OR_NO[value.lower()]
        return bool(value)

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Raises InvalidSetting when one of these was said all the same."""
        for name in names:
            if self._raw(name) is not None:
                raise InvalidSetting(f"{self.source(name)}: {why}")

    def file(self, name: str) -> Path | None:
        """The absolute path of a file that can be read. Raises InvalidSetting."""
        path = self.one(name)
        return None if path is None else _readable(self.source(name), Path(path))

    def secret_file(self, name: str) -> Path | None:
        """As ``file``, for a file that other users can neither read nor change."""
        path = self.file(name)
        if path is not None:
            _check_private(self.source(name), path, in_pod=_POD_VARIABLE in self._environment)
        return path

    def tls(self) -> TlsFiles | None:
        if (self.one("tls-cert") is None) != (self.one("tls-key") is None):
            raise InvalidSetting("tls-cert and tls-key belong together: give both or none")
        cert, key = self.file("tls-cert"), self.secret_file("tls-key")
        return TlsFiles(cert, key) if cert and key else None

    def hosts(self) -> tuple[str, ...]:
        hosts = tuple(self.several("host"))
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise InvalidSetting(
                    f"{self.source('host')}: {host!r} is not a host name; write it without scheme and port"
                )
        return hosts

    def credentials(self) -> tuple[Path, ...]:
        """Token, key and config file, and the directory in which systemd shows credentials to a service."""
        found = (
            self._config.path,
            self.one("token-file"),
            self.one("tls-key"),
            self._environment.get("CREDENTIALS_DIRECTORY"),
        )
        return tuple(Path(path).absolute() for path in found if path)

    def policy(self) -> Policy:
        return self._config.policy()

    def _raw(self, name: str) -> Any:
        if self._is_flag(name):
            return self._given[name]
        return self._environment.get(_variable(name), self._config.values.get(name))

    def _is_flag(self, name: str) -> bool:
        # A repeated flag that is not given has no values, and a switch is false.
        return self._given.get(name) not in (None, [], (), False)

    def _text(self, name: str, value: str) -> str:
        if not value.strip() or "\0" in value:
            raise InvalidSetting(
                f"{self.source(name)}: the value is empty; set one, or leave the setting out"
            )
        return value


def is_for_kubernetes(given: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Whether Kubernetes mode is asked for. Raises InvalidSetting."""
    return _SettingSources(given, environment).yes("kubernetes")


def settings_from(given: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """
    What *given* (flags, by name; None or empty when not given), the environment and the config file say together.

    Raises InvalidSetting for the first that cannot be followed.
    """
    said = _SettingSources(given, environment)
    said.refuse(_KUBERNETES_ONLY, "only with --kubernetes; without, the launcher runs pods on this machine")
    if said.yes("metrics-auth"):
        raise InvalidSetting(
            f"{said.source('metrics-auth')}: only with --kubernetes; on this machine --token-file is for all requests"
        )
    listen = said.one("listen") or DEFAULT_LISTEN
    unix_socket = _unix_socket(said.source("listen"), listen)
    host, port = ("localhost", 0) if unix_socket else _address(said.source("listen"), listen)
    token_file = said.secret_file("token-file")
    token = _token(said.source("token-file"), token_file) if token_file else None
    tls = said.tls()
    if tls and unix_socket:
        raise InvalidSetting(
            "tls-cert: not with a unix socket, which only this machine reaches; leave out one of them"
        )
    if why := refusal(host, token=token is not None, tls=tls is not None):
        raise InvalidSetting(why)
    named = said.one("data")
    data = _absolute(said.source("data"), named) if named else default_data(environment)
    return Settings(
        host=host,
        port=port,
        data=Path(os.path.realpath(data)),
        nodes=_nodes(said.source("node"), said.several("node")),
        images=_directories(said.source("image"), "image", said.several("image")),
        nfs=_directories(said.source("nfs"), "nfs", said.several("nfs")),
        claims=_directories(said.source("claim"), "claim", said.several("claim")),
        token=token,
        tls=tls,
        hosts=said.hosts(),
        policy=said.policy(),
        path=environment.get("PATH", ""),
        discovery_url=_url(said.source("discovery-url"), said.one("discovery-url") or ""),
        unix_socket=unix_socket,
        credentials=(*said.credentials(), *([unix_socket] if unix_socket else [])),
        log_budgets=_log_budgets(said),
    )


def cluster_settings_from(given: Mapping[str, Any], environment: Mapping[str, str]) -> ClusterSettings:
    """As ``settings_from``, for Kubernetes mode."""
    said = _SettingSources(given, environment)
    said.refuse(
        _LOCAL_ONLY, "not with --kubernetes: pods, their nodes and who may call are the cluster's matter"
    )
    listen = said.one("listen") or DEFAULT_LISTEN
    if _unix_socket(said.source("listen"), listen):
        raise InvalidSetting(
            f"{said.source('listen')}: no unix socket with --kubernetes, whose API server calls the launcher; "
            "set HOST:PORT"
        )
    host, port = _address(said.source("listen"), listen)
    tls, secret = said.tls(), said.one("tls-secret")
    if tls and secret:
        raise InvalidSetting("tls-secret: not beside tls-cert and tls-key; give the one or the other")
    client_ca = said.one("client-ca")
    if client_ca and not (tls or secret):
        raise InvalidSetting("client-ca: only with TLS; set --tls-cert and --tls-key, or --tls-secret")
    if why := cluster_refusal(host, tls=bool(tls or secret)):
        raise InvalidSetting(why)
    return ClusterSettings(
        host=host,
        port=port,
        cluster=_cluster(said, environment),
        tls=tls or secret,
        client_ca=said.file("client-ca"),
        hosts=said.hosts(),
        policy=said.policy(),
        frameworkcontroller=said.yes("serve-frameworkcontroller"),
        metrics_auth=said.yes("metrics-auth"),
        discovery_url=_url(said.source("discovery-url"), said.one("discovery-url") or ""),
    )


def _cluster(said: _SettingSources, environment: Mapping[str, str]) -> Kubeconfig | InPod:
    """Whatever is named goes first; a pod that is told nothing means the cluster around it."""
    files, context = said.one("kubeconfig"), said.one("context")
    service = environment.get(_POD_VARIABLE)
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
        data=data.absolute(),
        nodes=_nodes("node", nodes),
        images=_directories("image", "image", images),
        nfs=_directories("nfs", "nfs", nfs),
        claims=_directories("claim", "claim", claims),
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
    """Where a user's programs keep their data. Raises InvalidSetting when the user has no home directory."""
    base = environment.get("XDG_DATA_HOME") or "~/.local/share"
    return _absolute("data", base) / "framework-launcher"


def _absolute(source: str, text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidSetting(
            f"{source}: the home directory of {text!r} is not known; set an absolute path"
        ) from error


def _variable(name: str) -> str:
    return "LAUNCHER_" + name.upper().replace("-", "_")


def _address(source: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not _HOST.fullmatch(host) or not _PORT.fullmatch(port) or int(port) > 65535:
        raise InvalidSetting(f"{source}: {text!r} is not HOST:PORT; for instance {DEFAULT_LISTEN}")
    return host, int(port)


def _unix_socket(source: str, text: str) -> Path | None:
    """The path of ``unix:PATH``; None for an address."""
    if not text.startswith(UNIX):
        return None
    path = _absolute(source, text.removeprefix(UNIX))
    if path == Path.cwd() or len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise InvalidSetting(
            f"{source}: {text!r} is not unix:PATH with a path of at most {LONGEST_SOCKET_PATH} bytes; "
            "for instance unix:/run/user/1000/launcher.sock"
        )
    return path


def _url(source: str, text: str) -> str:
    if text and not _URL.fullmatch(text):
        raise InvalidSetting(
            f"{source}: {text!r} is no URL of a server; for instance https://launcher.example:8443"
        )
    return text.rstrip("/")


def _log_budgets(said: _SettingSources) -> LogBudgets:
    usual = LogBudgets()
    return LogBudgets(
        _bytes(said, "log-budget", usual.total, LEAST_LOG_BUDGET_BYTES),
        _bytes(said, "log-budget-framework", usual.framework, LEAST_LOG_BUDGET_BYTES),
        _bytes(said, "log-disk-reserve", usual.reserve, 0),
    )


def _bytes(said: _SettingSources, name: str, usual: int, least: int) -> int:
    text = said.one(name)
    if text is None:
        return usual
    try:
        amount = int(quantity(text))
    except ValueError as error:
        raise InvalidSetting(f"{said.source(name)}: {error}") from error
    if amount < least:
        raise InvalidSetting(f"{said.source(name)}: {text} is less than the least possible, {least} bytes")
    return amount


def _nodes(source: str, texts: Sequence[str]) -> tuple[NodeSpec, ...]:
    if not texts:
        return (this_machine(),)
    try:
        return named_nodes(texts)
    except ValueError as error:
        raise InvalidSetting(f"{source}: {error}") from error


def _directories(source: str, name: str, texts: Sequence[str]) -> dict[str, Path]:
    """``KEY=DIR`` by its key. A key may hold no ``=``, a directory may."""
    found: dict[str, Path] = {}
    for text in texts:
        key, equals, directory = text.partition("=")
        if not (key and equals and directory):
            raise InvalidSetting(f"{source}: {text!r} is not KEY=DIR; for instance {_DIRECTORIES[name]}")
        path = _absolute(source, directory)
        if not os.path.isdir(path):
            raise InvalidSetting(f"{source}: {key}: {path} is no directory")
        found[key] = path
    return found


def _token(source: str, path: Path) -> str:
    token = path.read_text(errors="replace").strip()
    if len(token) < _SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise InvalidSetting(
            f"{source}: {path} has to hold one word of at least {_SHORTEST_TOKEN} characters; "
            f"make one with: openssl rand -hex 32 > {path}"
        )
    return token


def _readable(source: str, path: Path) -> Path:
    if not (os.path.isfile(path) and os.access(path, os.R_OK)):
        raise InvalidSetting(f"{source}: {path} is no file that can be read")
    return path.absolute()


def _check_private(source: str, path: Path, *, in_pod: bool) -> None:
    """
    Raises InvalidSetting when other users can read or change the file.

    Its group may read it, as the group ssl-cert of Debian does. In a pod, every process that sees a mounted Secret
    belongs to the launcher, so its mode, 0644 by default, only must not let others write.
    """
    found = path.stat()
    if found.st_mode & (_WRITE_BY_OTHERS if in_pod else _USE_BY_OTHERS):
        mode = "600" if found.st_uid == os.geteuid() else "640"
        raise InvalidSetting(
            f"{source}: other users can read or change {path} (mode {stat.S_IMODE(found.st_mode):04o}); "
            f"run: chmod {mode} {path}"
        )


@dataclass(frozen=True, slots=True)
class _ConfigFile:
    """The settings of the config file, each of the type that it has to be."""

    values: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    data: bytes = b""

    @classmethod
    def read(cls, source: str, path: Path) -> "_ConfigFile":
        """Raises InvalidSetting, with the line, for what is no setting."""
        # Slow to import, and most start without a config file.
        from launcher.core.parsing.yaml_reader import read_yaml

        path = _readable(source, path)
        data = path.read_bytes()
        try:
            text = decode_utf8(data)
            # What is not a comment or the start of a document.
            lines = (line.strip() for line in text.splitlines())
            found = (
                read_yaml(text) if any(line.strip("-") and line[0] != "#" for line in lines) else Decoded({})
            )
        except LauncherError as error:
            raise InvalidSetting(f"config: {path}: {error}") from error
        if not isinstance(found.value, dict):
            raise InvalidSetting(f"config: {path} has to be a mapping of settings")
        config = cls(found.value, path, data)
        for name in found.duplicates:
            raise config.bad(name, f"{name} is set twice; remove one of them")
        for name, value in found.value.items():
            config._check(name, value)
        return config

    def source(self, name: str) -> str:
        """Where the setting is given: file, line and name; only the name when there is no file."""
        return name if self.path is None else f"{self._line(name)}: {name}"

    def bad(self, field: str, why: str) -> InvalidSetting:
        return InvalidSetting(f"{self._line(field)}: {why}")

    def policy(self) -> Policy:
        """``host-path-prefixes: [/srv]`` and so on, as the fields of Policy. Raises InvalidSetting."""
        known = {entry.name.replace("_", "-"): entry.name for entry in fields(Policy)}
        values: dict[str, Any] = {}
        for name, value in self.values.get("policy", {}).items():
            if name not in known:
                raise self.bad(
                    f"policy.{name}", f"policy: there is no setting {name!r}{_perhaps(name, known)}"
                )
            if why := _policy_problem(name, value):
                raise self.bad(f"policy.{name}", f"policy: {name} has to be {why}")
            values[known[name]] = tuple(value) if isinstance(value, list) else value
        return Policy(**values)

    def _check(self, name: str, value: Any) -> None:
        known = (*SINGLE, *REPEATED, *SWITCHES, "policy")
        if name not in known:
            raise self.bad(name, f"there is no setting {name!r}{_perhaps(name, known)}")
        wanted = _type_of(name)
        if not isinstance(value, wanted) or (wanted is list and not _is_texts(value)):
            what = {str: "text", list: "a list of texts", dict: "a mapping", bool: "true or false"}[wanted]
            raise self.bad(name, f"{name} has to be {what}")

    def _line(self, field: str) -> str:
        from launcher.core.parsing.source_positions import locate

        return f"config: {self.path}: line {locate(self.data, field, Media.YAML)[0]}"


def _type_of(name: str) -> type[Any]:
    if name in SWITCHES:
        return bool
    return str if name in SINGLE else dict if name == "policy" else list


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _policy_problem(name: str, value: Any) -> str | None:
    """What the setting of the policy has to be instead; None when it is right."""
    if name == "host-path-prefixes":
        # Without its slash a prefix would stand for every path.
        right = _is_texts(value) and all(
            path.startswith("/") and ".." not in path.split("/") for path in value
        )
        return None if right else "a list of texts, each an absolute path without '..'"
    if name == "nfs-servers":
        return None if _is_texts(value) and all(value) else "a list of texts, none of them empty"
    if name == "max-tasks":
        right = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        return None if right else "a number of at least 1"
    return None if isinstance(value, bool) else "true or false"


def _perhaps(name: Any, known: Iterable[str]) -> str:
    word = suggestion(str(name), known)
    return f"; did you mean {word!r}?" if word else f"; there are {', '.join(known)}"
