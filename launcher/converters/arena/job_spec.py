"""What ``arena submit tfjob`` asks for once Arena's own rules have been applied to its flags, in Arena's order."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import md5

from launcher.converters.arena import flag_parsers
from launcher.converters.arena.flag_values import FlagValues
from launcher.converters.arena.ports import free_ports
from launcher.converters.arena.quoting import unquoted
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.validation.field_errors import forbidden, invalid, required

ROLE_SEQUENCE, PULL_SECRETS, NAMESPACE = "tfjob_role_sequence", "imagePullSecrets", "namespace"


def read_config(text: str) -> Mapping[str, str]:
    """What the file says, the last word on each key; lines without ``=`` say nothing, as Arena reads them."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


#: What Arena calls each role.
TITLES = {"worker": "Worker", "ps": "PS", "chief": "Chief", "evaluator": "Evaluator"}
_SHORT = {title[0].lower(): role for role, title in TITLES.items()}


def read_sequence(text: str, where: str, problems: list[FieldError]) -> tuple[str, ...]:
    """The roles that ``Worker,PS`` or ``w,p`` names, in its order; *where* is who said so."""
    words = [word.strip().lower() for word in text.split(",")]
    roles = [_SHORT.get(word, word) for word in words]
    for word, role in zip(text.split(","), roles, strict=True):
        if role not in TITLES:
            allowed = ", ".join(f"{title} ({title[0].lower()})" for title in TITLES.values())
            problems.append(invalid(where, word.strip(), f"there is no such role; there are {allowed}"))
    return tuple(role for role in roles if role in TITLES)


def written(roles: Iterable[str]) -> str:
    """``Worker,PS``: what the annotation says."""
    return ",".join(TITLES[role] for role in roles)


_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 49


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """What the flags do not say, and a job depends on all the same."""

    #: Who submits it.
    user: str
    config: Mapping[str, str] = field(default_factory=dict)
    #: Ports that are taken on some node.
    used_ports: frozenset[int] = frozenset()
    #: What is in each file of ``--config-file``, by its path as written there.
    files: Mapping[str, bytes] = field(default_factory=dict)
    #: A number for this job alone, of nine digits.
    number: int = 0


@dataclass(frozen=True, slots=True)
class ArenaRole:
    """The instances of one type; *port* None is that of TFJob."""

    type: str
    count: int
    image: str
    gpus: int
    port: int | None = None


@dataclass(frozen=True, slots=True)
class ArenaJob:
    """A job with nothing left open but what its flags say by themselves."""

    name: str
    command: str
    given: FlagValues
    #: In the order in which Arena declares them.
    roles: tuple[ArenaRole, ...]
    #: One worker by itself: it is a chief, and is told of no peers.
    alone: bool
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
    #: The directory of the node for logs that nothing else keeps.
    log_directory: str

    def has(self, type_: str) -> bool:
        return any(role.type == type_ for role in self.roles)

    @property
    def instances(self) -> int:
        return sum(role.count for role in self.roles)

    @property
    def knows_peers(self) -> bool:
        """Whether its instances are told of each other."""
        return not self.alone and self.instances > 1

    @property
    def gpus(self) -> int:
        """What chief, evaluator and workers ask for together; parameter servers are not counted."""
        return sum(role.count * role.gpus for role in self.roles if role.type != "ps")

    @property
    def uid(self) -> str:
        """What Arena makes of the user's name, for labels."""
        return md5(self.user.encode(), usedforsecurity=False).hexdigest()


def read_job(given: FlagValues, command: str, around: JobEnvironment) -> ArenaJob:
    """The job that the flags ask for. Raises InvalidObject with everything that is wrong."""
    given.refuse_the_impossible()
    command = unquoted(command)
    _check(given, command)
    alone = given.number("ps") < 1 and given.number("workers") == 1
    job = ArenaJob(
        name=given.text("name"),
        command=command,
        given=given,
        roles=tuple(_roles(given, around, alone)),
        alone=alone,
        sequence=_sequence(given, around),
        labels=flag_parsers.pairs(given, "label"),
        annotations=flag_parsers.pairs(given, "annotation"),
        env=flag_parsers.pairs(given, "env"),
        devices=flag_parsers.devices(given),
        claims=flag_parsers.claims(given),
        directories=flag_parsers.directories(given),
        files=flag_parsers.files(given, around.files),
        pull_secrets=given.each("image-pull-secret") or _listed(around.config.get(PULL_SECRETS, "")),
        tolerations=flag_parsers.tolerations(given),
        user=around.user,
        log_directory=f"/arena_logs/training{around.number:09d}",
    )
    _check_roles(job)
    return job


def _check(given: FlagValues, command: str) -> None:
    name = given.text("name")
    if not name:
        given.complain(required("--name", "what is the job to be called?"))
    elif len(name) > _LONGEST or not _NAME.fullmatch(name):
        must = f"must be at most {_LONGEST} lower-case letters, digits and -, with - neither first nor last"
        given.complain(invalid("--name", name, must))
    if not command.strip():
        given.complain(
            required("COMMAND", 'what are the containers to run? write it last, as in: "python main.py"')
        )
    _check_sync(given)


def _check_sync(given: FlagValues) -> None:
    mode, source = given.text("sync-mode"), given.text("sync-source")
    if mode not in ("", "git", "rsync"):
        given.complain(invalid("--sync-mode", mode, "must be git or rsync"))
    if mode and not source:
        given.complain(required("--sync-source", f"where is the code that --sync-mode={mode} gets?"))
    if not mode:
        for name in ("sync-source", "sync-image"):
            if given.has(name):
                given.complain(forbidden(f"--{name}", "only together with --sync-mode"))


def _roles(given: FlagValues, around: JobEnvironment, alone: bool) -> Iterator[ArenaRole]:
    """The roles that have instances."""
    worker_image = given.text("worker-image") or given.text("image")
    gpus, servers = given.number("gpus"), given.number("ps")
    counts = {
        "ps": servers,
        "worker": 0 if alone else given.number("workers"),
        "chief": int(alone or given.is_on("chief")),
        "evaluator": int(given.is_on("evaluator")),
    }
    ports = _ports(given, around, counts)
    for type_, count in counts.items():
        if count:
            image = given.text("ps-image") or given.text("image") if type_ == "ps" else worker_image
            yield ArenaRole(
                type_, count, image, given.number("ps-gpus") if type_ == "ps" else gpus, ports.get(type_)
            )


def _ports(given: FlagValues, around: JobEnvironment, counts: Mapping[str, int]) -> dict[str, int]:
    """The port of each role that has one; those that are left open are given out in this order."""
    free = free_ports(around.used_ports)
    wanted = {type_: given.number(f"{type_}-port") for type_ in ("worker", "chief", "ps") if counts[type_]}
    try:
        return {type_: port or next(free) for type_, port in wanted.items()}
    except InvalidObject as error:
        given.problems.extend(error.errors)
        return {}


def _sequence(given: FlagValues, around: JobEnvironment) -> tuple[str, ...]:
    if said := given.text("role-sequence"):
        return read_sequence(said, "--role-sequence", given.problems)
    if said := around.config.get(ROLE_SEQUENCE, ""):
        return read_sequence(said, f"{ROLE_SEQUENCE} of the config file", given.problems)
    return ()


def _listed(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _check_roles(job: ArenaJob) -> None:
    given = job.given
    if not job.has("worker") and not job.has("chief"):
        given.complain(invalid("--workers", 0, "there has to be a worker, or a chief (--chief)"))
    if not (given.text("worker-image") or given.text("image")):
        given.complain(required("--image", "or --worker-image: which image do the workers run?"))
    if job.has("ps") and not (given.text("ps-image") or given.text("image")):
        given.complain(required("--ps-image", "or --image: which image do the parameter servers run?"))
