"""The image is made of what the project has, and fits the pods that run it."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import PurePosixPath

import orjson

from tests.deploy.manifests import DEPLOY, base_objects, named
from tests.local.server import PROJECT

FILE = DEPLOY / "Containerfile"
POD = named(base_objects(), "Deployment", "framework-launcher")["spec"]["template"]["spec"]


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction and what follows it, in order."""
    text = re.sub(r"(?m)^\s*#.*\n", "", FILE.read_text()).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        yield word, rest.strip()


def arguments(word: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == word]


def copied() -> list[str]:
    """What it takes from the project."""
    return [
        source for rest in arguments("COPY") if "--from=" not in rest for source in shlex.split(rest)[:-1]
    ]


def test_what_it_copies_is_there() -> None:
    assert [source for source in copied() if not (PROJECT / source).exists()] == []


def test_what_it_copies_is_all_that_the_package_is_made_of() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    setuptools = project["tool"]["setuptools"]
    places = {setuptools["package-dir"].get(name, name.replace(".", "/")) for name in setuptools["packages"]}
    files = {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}

    directories = [PurePosixPath(source) for source in copied() if source.endswith("/")]
    assert [
        place for place in places if not any(PurePosixPath(place).is_relative_to(d) for d in directories)
    ] == []
    assert files <= set(copied())


def test_what_it_copies_is_not_kept_from_the_builder() -> None:
    lines = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    let_in = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}

    assert rules[0] == "*"
    assert let_in == {source.rstrip("/") for source in copied()}
    assert any(fnmatch("**/__pycache__", rule) for rule in rules)


def test_its_bases_are_arguments_pinned_to_one_python() -> None:
    defaults = dict(rest.split("=", 1) for rest in arguments("ARG"))
    (builder, runtime) = (rest.split()[0] for rest in arguments("FROM"))

    assert (builder, runtime) == ("${BUILDER}", "${RUNTIME}")
    assert re.search(r":3\.11-slim-bookworm$", defaults["BUILDER"])
    assert re.search(r"python3-debian12:nonroot$", defaults["RUNTIME"])
    assert "python3.11/" in FILE.read_text(), "Debian 12 has Python 3.11"
    assert tuple(map(int, _least_python().split("."))) <= (3, 11)


def _least_python() -> str:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return str(project["project"]["requires-python"]).removeprefix(">=")


def test_it_runs_as_the_user_that_the_deployment_names() -> None:
    (user,) = arguments("USER")

    assert user == f"{POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}"
    assert POD["securityContext"]["runAsNonRoot"] is True


def test_it_needs_no_shell() -> None:
    """What the pod starts and what its probes and hooks do is said without one."""
    (entrypoint,) = arguments("ENTRYPOINT")
    (container,) = POD["containers"]

    assert orjson.loads(entrypoint) == ["/usr/bin/python3", "-m", "launcher"]
    assert "command" not in container
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert "exec" not in container[probe]
    assert list(container["lifecycle"]["preStop"]) == ["sleep"]


def test_it_listens_where_the_deployment_says() -> None:
    (container,) = POD["containers"]

    assert arguments("EXPOSE") == [str(port["containerPort"]) for port in container["ports"]]
    assert f"--listen=0.0.0.0:{arguments('EXPOSE')[0]}" in container["args"]


def test_nothing_has_to_be_written_and_nothing_can_be() -> None:
    (container,) = POD["containers"]
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]

    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert writable == []
    assert any("PYTHONDONTWRITEBYTECODE=1" in rest for rest in arguments("ENV"))
