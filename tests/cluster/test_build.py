"""The programs of the test bed are built once for each set of pinned versions."""

import sys
from pathlib import Path

import pytest

from tests.cluster import build
from tests.cluster.build import BuildFailed, Kit, NoGo, is_built, programs_of
from tests.cluster.versions import DEFAULT, TOOLS, Version, chosen, pinned


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory in place of the build cache."""
    monkeypatch.setattr(build, "CACHE", tmp_path)
    return tmp_path


def test_without_go_the_error_names_the_missing_programs_and_how_to_build_them(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(empty_cache))
    monkeypatch.setattr(sys, "executable", str(empty_cache / "python"))

    with pytest.raises(NoGo, match=r"Kubernetes 1\.36\.3 are not built.*Install Go.*make test-cluster"):
        programs_of(Version.read("1.36.3"))


def test_built_programs_are_used_without_go(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Version.read(DEFAULT)
    go = empty_cache / "go"
    go.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setattr(sys, "executable", str(empty_cache / "python"))
    directory = programs_of(version)
    go.unlink()

    assert programs_of(version) == directory
    assert sorted(path.name for path in directory.iterdir()) == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
    ]


def test_a_failed_build_is_not_used(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Version.read(DEFAULT)
    go = empty_cache / "go"
    go.write_text("#!/bin/sh\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{empty_cache}:/bin")

    with pytest.raises(BuildFailed, match=r"go build go\.etcd\.io"):
        programs_of(version)

    assert not is_built(version)


def test_at_least_two_minor_versions_are_pinned() -> None:
    assert len({Version.read(name).minor for name in pinned()}) >= 2
    assert DEFAULT in pinned()


def test_a_pin_of_any_module_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Version.read(DEFAULT)
    before = build._directory(version)
    for module in (str(version), "kwok"):
        (tmp_path / module).mkdir()
        for name in ("go.mod", "go.sum"):
            (tmp_path / module / name).write_bytes((TOOLS / module / name).read_bytes())
    monkeypatch.setattr(build, "TOOLS", tmp_path)
    copied = build._directory(version)

    with (tmp_path / "kwok" / "go.sum").open("a") as file:
        file.write("another line\n")

    assert copied == before
    assert build._directory(version) != before


def test_node_programs_are_built_separately(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Version.read(DEFAULT)
    go = empty_cache / "go"
    go.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{empty_cache}:/bin")

    directory = programs_of(version, Kit.NODE)

    assert sorted(path.name for path in directory.iterdir()) == ["kube-proxy", "kubelet"]
    assert not is_built(version)


def test_a_version_that_is_not_pinned_is_rejected_with_a_hint() -> None:
    with pytest.raises(ValueError, match=r"K8S=1\.2\.3: only 1\..* pinned; .*tests\.cluster\.pin 1\.2\.3"):
        is_built(Version.read("1.2.3"))


def test_the_environment_selects_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8S", "1.34.4")
    assert str(chosen()) == "1.34.4"

    monkeypatch.setenv("K8S", "newest")
    with pytest.raises(ValueError, match="K8S=newest: name a release"):
        chosen()
