"""The Containerfile agrees with the package and with the Deployment."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import PurePosixPath

import orjson

from deploy.generate.manifests import DEPLOY, base_objects, named
from tests.launcher_process import PROJECT

FILE = DEPLOY / "Containerfile"
POD = named(base_objects(), "Deployment", "framework-launcher")["spec"]["template"]["spec"]


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction and its arguments, in order."""
    text = re.sub(r"(?m)^\s*#.*\n", "", FILE.read_text()).replace("\\\n", " ")
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, rest = line.partition(" ")
        yield instruction, rest.strip()


def arguments(instruction: str) -> list[str]:
    """The arguments of every instruction of that name."""
    return [rest for name, rest in instructions() if name == instruction]


def copied_paths() -> list[str]:
    """The paths of the project that are copied."""
    return [
        source for rest in arguments("COPY") if "--from=" not in rest for source in shlex.split(rest)[:-1]
    ]


def test_every_copied_path_exists() -> None:
    assert [source for source in copied_paths() if not (PROJECT / source).exists()] == []


def test_every_file_of_the_package_is_copied() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    setuptools = project["tool"]["setuptools"]
    packages = {
        setuptools["package-dir"].get(name, name.replace(".", "/")) for name in setuptools["packages"]
    }
    files = {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}

    directories = [PurePosixPath(source) for source in copied_paths() if source.endswith("/")]
    assert [
        package
        for package in packages
        if not any(PurePosixPath(package).is_relative_to(d) for d in directories)
    ] == []
    assert files <= set(copied_paths())


def test_every_package_is_installed() -> None:
    setuptools = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(PROJECT) for path in (PROJECT / "launcher").rglob("*.py")}

    assert {".".join(folder.parts) for folder in folders} - set(setuptools["packages"]) == set()


def test_generators_and_tests_are_not_installed() -> None:
    setuptools = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]

    assert [name for name in setuptools["packages"] if name.partition(".")[0] != "launcher"] == []
    assert [name for name in setuptools["packages"] if "generate" in name.split(".")] == []
    assert set(setuptools["package-dir"].values()) == {"schemas"}


def test_copied_paths_are_not_excluded_from_the_build_context() -> None:
    lines = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    included = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}

    assert rules[0] == "*"
    assert included == {source.rstrip("/") for source in copied_paths()}
    assert any(fnmatch("**/__pycache__", rule) for rule in rules)


def test_the_base_images_are_arguments_and_have_the_same_python() -> None:
    defaults = dict(rest.split("=", 1) for rest in arguments("ARG"))
    (builder, runtime) = (rest.split()[0] for rest in arguments("FROM"))

    assert (builder, runtime) == ("${BUILDER}", "${RUNTIME}")
    assert re.search(r":3\.11-slim-bookworm$", defaults["BUILDER"])
    assert re.search(r"python3-debian12:nonroot$", defaults["RUNTIME"])
    assert "python3.11/" in FILE.read_text(), "Debian 12 has Python 3.11"
    assert tuple(map(int, _min_python().split("."))) <= (3, 11)


def _min_python() -> str:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return str(project["project"]["requires-python"]).removeprefix(">=")


def test_the_image_runs_as_the_user_of_the_deployment() -> None:
    (user,) = arguments("USER")

    assert user == f"{POD['securityContext']['runAsUser']}:{POD['securityContext']['runAsGroup']}"
    assert POD["securityContext"]["runAsNonRoot"] is True


def test_entrypoint_probes_and_hooks_need_no_shell() -> None:
    (entrypoint,) = arguments("ENTRYPOINT")
    (container,) = POD["containers"]

    assert orjson.loads(entrypoint) == ["/usr/bin/python3", "-m", "launcher"]
    assert "command" not in container
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert "exec" not in container[probe]
    assert list(container["lifecycle"]["preStop"]) == ["sleep"]


def test_the_image_exposes_the_port_of_the_deployment() -> None:
    (container,) = POD["containers"]

    assert arguments("EXPOSE") == [str(port["containerPort"]) for port in container["ports"]]
    assert f"--listen=0.0.0.0:{arguments('EXPOSE')[0]}" in container["args"]


def test_the_root_filesystem_is_read_only_and_nothing_is_written() -> None:
    (container,) = POD["containers"]
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]

    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert writable == []
    assert any("PYTHONDONTWRITEBYTECODE=1" in rest for rest in arguments("ENV"))
