"""Flags of a job, for tests that name only those that matter to them."""

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.converters.arena.flag_values import FlagValues
from launcher.converters.arena.framework import ArenaConversion, convert
from launcher.converters.arena.job_spec import JobEnvironment
from launcher.core.errors import InvalidObject
from launcher.core.framework import Framework
from launcher.core.manifest import validate_framework
from launcher.core.pods.services import services_of
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import FrameworkName

Json = dict[str, Any]
Value = str | int | bool | Sequence[str]

AROUND = JobEnvironment(user="joe", number=123)


def submit(
    around: JobEnvironment = AROUND, command: str = "python main.py", /, **flags: Value
) -> ArenaConversion:
    """What becomes of the flags, with ``_`` for ``-``; it is a Framework that the launcher takes."""
    values: dict[str, Value] = {"name": "tf", "image": "tf:1"}
    values.update({name.replace("_", "-"): value for name, value in flags.items()})
    found = convert(FlagValues(values), command, around)
    validate_framework(found.framework, strict=True)
    return found


def distributed(around: JobEnvironment = AROUND, /, **flags: Value) -> ArenaConversion:
    """The same for two workers and a parameter server."""
    return submit(around, **{"workers": 2, "ps": 1, **flags})


def problems(
    around: JobEnvironment = AROUND, command: str = "python main.py", /, **flags: Value
) -> list[str]:
    """What is wrong with the flags."""
    try:
        submit(around, command, **flags)
    except InvalidObject as error:
        return [str(problem) for problem in error.errors]
    return []


def roles(found: ArenaConversion) -> dict[str, Json]:
    return {role["name"]: role for role in found.framework["spec"]["taskRoles"]}


def services(found: ArenaConversion) -> dict[str, Json]:
    """The Services that the launcher will make for the job."""
    framework = found.framework
    name = FrameworkName(framework["metadata"]["name"])
    return services_of(Framework(name, "default", "uid", 1, spec_from_json(framework["spec"])))


def pod(found: ArenaConversion, role: str) -> Json:
    """The pod template of the role."""
    template: Json = roles(found)[role]["task"]["pod"]
    return template


def container(found: ArenaConversion, role: str) -> Json:
    first: Json = pod(found, role)["spec"]["containers"][0]
    return first


def env(found: ArenaConversion, role: str) -> Mapping[str, str]:
    return {each["name"]: each["value"] for each in container(found, role)["env"]}


def volumes(found: ArenaConversion, role: str) -> dict[str, Json]:
    return {each["name"]: each for each in pod(found, role)["spec"]["volumes"]}


def mounts(found: ArenaConversion, role: str) -> dict[str, str]:
    """Where each volume is."""
    return {each["name"]: each["mountPath"] for each in container(found, role)["volumeMounts"]}
