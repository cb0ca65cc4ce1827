"""The job of ``arena submit tfjob``: its flags after Arena's rules, in Arena's order."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import md5

from launcher.converters.arena import flag_parsers
from launcher.converters.arena.flag_values import FlagValues
from launcher.converters.arena.ports import free_ports
from launcher.converters.arena.quoting import unquote
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.validation.field_errors import forbidden, invalid, required

ROLE_SEQUENCE, PULL_SECRETS, NAMESPACE = "tfjob_role_sequence", "imagePullSecrets", "namespace"


def read_config(text: str) -> Mapping[str, str]:
    """Parses Arena's config file: the last value of each key; lines without ``=`` are ignored."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


#: Arena's names of roles.
TITLES = {"worker": "Worker", "ps": "PS", "chief": "Chief", "evaluator": "Evaluator"}
_SHORT = {title[0].lower(): role for role, title in TITLES.items()}


def read_sequence(text: str, source: str, errors: list[FieldError]) -> tuple[str, ...]:
    """The roles in ``Worker,PS`` or ``w,p``, in order; *source* is the source for errors."""
    names = [name.strip().lower() for name in text.split(",")]
    roles = [_SHORT.get(name, name) for name in names]
    for name, role in zip(text.split(","), roles, strict=True):
        if role not in TITLES:
            allowed = ", ".join(f"{title} ({title[0].lower()})" for title in TITLES.values())
            errors.append(invalid(source, name.strip(), f"no such role; must be one of {allowed}"))
    return tuple(role for role in roles if role in TITLES)


def format_sequence(roles: Iterable[str]) -> str:
    """``Worker,PS``: the value of the annotation."""
    return ",".join(TITLES[role] for role in roles)


_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_NAME_LENGTH = 49


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """What a job depends on besides its flags."""

    #: The submitting user.
    user: str
    config: Mapping[str, str] = field(default_factory=dict)
    #: Ports in use on any node.
    used_ports: frozenset[int] = frozenset()
    #: Contents of the files of ``--config-file``, by path as written.
    files: Mapping[str, bytes] = field(default_factory=dict)
    #: A unique number of nine digits.
    number: int = 0


@dataclass(frozen=True, slots=True)
class ArenaRole:
    """The instances of one type; *port* None is the default of TFJob."""

    type: str
    count: int
    image: str
    gpus: int
    port: int | None = None


@dataclass(frozen=True, slots=True)
class ArenaJob:
    """A parsed job; further flags are in *flags*."""

    name: str
    command: str
    flags: FlagValues
    #: In Arena's order.
    roles: tuple[ArenaRole, ...]
    #: A single worker: it becomes a chief without TF_CONFIG.
    is_standalone: bool
    sequence: tuple[str, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    env: Mapping[str, str]
    devices: Mapping[str, str]
    claims: Mapping[str, str]
    directories: tuple[tuple[str, str], ...]
    files: tuple[flag_parsers.ConfigFile, ...]
    pull_secrets: tuple[str, ...]
    tolerations: list[flag_parsers.Json]
    user: str
    #: The host directory for logs that are not on a volume.
    log_directory: str

    def has(self, type_: str) -> bool:
        return any(role.type == type_ for role in self.roles)

    @property
    def instances(self) -> int:
        return sum(role.count for role in self.roles)

    @property
    def has_tf_config(self) -> bool:
        """Whether its instances get TF_CONFIG."""
        return not self.is_standalone and self.instances > 1

    @property
    def gpus(self) -> int:
        """The GPUs of chief, evaluator and workers; those of parameter servers are not counted."""
        return sum(role.count * role.gpus for role in self.roles if role.type != "ps")

    @property
    def uid(self) -> str:
        """The hash of the user name, for labels."""
        return md5(self.user.encode(), usedforsecurity=False).hexdigest()


def read_job(flags: FlagValues, command: str, environment: JobEnvironment) -> ArenaJob:
    """The job of the flags. Errors are added to *flags*."""
    flags.reject_unsupported()
    command = unquote(command)
    _check(flags, command)
    is_standalone = flags.number("ps") < 1 and flags.number("workers") == 1
    job = ArenaJob(
        name=flags.text("name"),
        command=command,
        flags=flags,
        roles=tuple(_roles(flags, environment, is_standalone)),
        is_standalone=is_standalone,
        sequence=_sequence(flags, environment),
        labels=flag_parsers.pairs(flags, "label"),
        annotations=flag_parsers.pairs(flags, "annotation"),
        env=flag_parsers.pairs(flags, "env"),
        devices=flag_parsers.devices(flags),
        claims=flag_parsers.claims(flags),
        directories=flag_parsers.directories(flags),
        files=flag_parsers.files(flags, environment.files),
        pull_secrets=flags.repeated("image-pull-secret")
        or _parse_list(environment.config.get(PULL_SECRETS, "")),
        tolerations=flag_parsers.tolerations(flags),
        user=environment.user,
        log_directory=f"/arena_logs/training{environment.number:09d}",
    )
    _check_roles(job)
    return job


def _check(flags: FlagValues, command: str) -> None:
    name = flags.text("name")
    if not name:
        flags.add_error(required("--name", "must be the name of the job"))
    elif len(name) > _MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        must = (
            f"must be at most {_MAX_NAME_LENGTH} lower-case letters, digits and -, "
            "starting and ending with a letter or digit"
        )
        flags.add_error(invalid("--name", name, must))
    if not command.strip():
        flags.add_error(required("COMMAND", 'must be the last argument, as in: "python main.py"'))
    _check_sync(flags)


def _check_sync(flags: FlagValues) -> None:
    mode, source = flags.text("sync-mode"), flags.text("sync-source")
    if mode not in ("", "git", "rsync"):
        flags.add_error(invalid("--sync-mode", mode, "must be git or rsync"))
    if mode and not source:
        flags.add_error(required("--sync-source", f"must be the source of the code for --sync-mode={mode}"))
    if not mode:
        for name in ("sync-source", "sync-image"):
            if flags.has(name):
                flags.add_error(forbidden(f"--{name}", "only together with --sync-mode"))


def _roles(flags: FlagValues, environment: JobEnvironment, is_standalone: bool) -> Iterator[ArenaRole]:
    """The roles with instances."""
    worker_image = flags.text("worker-image") or flags.text("image")
    gpus, servers = flags.number("gpus"), flags.number("ps")
    counts = {
        "ps": servers,
        "worker": 0 if is_standalone else flags.number("workers"),
        "chief": int(is_standalone or flags.is_on("chief")),
        "evaluator": int(flags.is_on("evaluator")),
    }
    ports = _ports(flags, environment, counts)
    for type_, count in counts.items():
        if count:
            image = flags.text("ps-image") or flags.text("image") if type_ == "ps" else worker_image
            yield ArenaRole(
                type_, count, image, flags.number("ps-gpus") if type_ == "ps" else gpus, ports.get(type_)
            )


def _ports(flags: FlagValues, environment: JobEnvironment, counts: Mapping[str, int]) -> dict[str, int]:
    """The port of each role; open ones get free ports in this order."""
    free = free_ports(environment.used_ports)
    ports = {type_: flags.number(f"{type_}-port") for type_ in ("worker", "chief", "ps") if counts[type_]}
    try:
        return {type_: port or next(free) for type_, port in ports.items()}
    except InvalidObject as error:
        flags.errors.extend(error.errors)
        return {}


def _sequence(flags: FlagValues, environment: JobEnvironment) -> tuple[str, ...]:
    if text := flags.text("role-sequence"):
        return read_sequence(text, "--role-sequence", flags.errors)
    if text := environment.config.get(ROLE_SEQUENCE, ""):
        return read_sequence(text, f"{ROLE_SEQUENCE} of the config file", flags.errors)
    return ()


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def _check_roles(job: ArenaJob) -> None:
    flags = job.flags
    if not job.has("worker") and not job.has("chief"):
        flags.add_error(invalid("--workers", 0, "must be at least 1, unless there is a chief (--chief)"))
    if not (flags.text("worker-image") or flags.text("image")):
        flags.add_error(required("--image", "--image or --worker-image must be set"))
    if job.has("ps") and not (flags.text("ps-image") or flags.text("image")):
        flags.add_error(required("--ps-image", "--ps-image or --image must be set"))
