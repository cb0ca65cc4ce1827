"""The programs of the test bed are built once for each set of pins, and it is told when they cannot be."""

import sys
from pathlib import Path

import pytest

from tests.cluster import build
from tests.cluster.build import BuildFailed, Kit, NoGo, is_built, programs_of
from tests.cluster.versions import DEFAULT, TOOLS, Version, chosen, pinned


@pytest.fixture
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, empty."""
    monkeypatch.setattr(build, "CACHE", tmp_path)
    return tmp_path


def test_without_go_it_is_told_what_is_left_out_and_how_to_get_it(
    nothing_built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(nothing_built))
    monkeypatch.setattr(sys, "executable", str(nothing_built / "python"))

    with pytest.raises(NoGo, match=r"left out .* Kubernetes 1\.36\.3.*Install Go.*make test-cluster"):
        programs_of(Version.read("1.36.3"))


def test_what_was_built_needs_no_go(nothing_built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Version.read(DEFAULT)
    go = nothing_built / "go"
    go.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setattr(sys, "executable", str(nothing_built / "python"))
    place = programs_of(version)
    go.unlink()

    assert programs_of(version) == place
    assert sorted(path.name for path in place.iterdir()) == [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
    ]


def test_a_build_that_fails_leaves_nothing_that_looks_built(
    nothing_built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = Version.read(DEFAULT)
    go = nothing_built / "go"
    go.write_text("#!/bin/sh\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{nothing_built}:/bin")

    with pytest.raises(BuildFailed, match=r"go build go\.etcd\.io"):
        programs_of(version)

    assert not is_built(version)


def test_two_minor_versions_are_pinned_at_least() -> None:
    assert len({Version.read(name).minor for name in pinned()}) >= 2
    assert DEFAULT in pinned()


def test_a_pin_of_any_module_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = Version.read(DEFAULT)
    before = build._place(version)
    for module in (str(version), "kwok"):
        (tmp_path / module).mkdir()
        for name in ("go.mod", "go.sum"):
            (tmp_path / module / name).write_bytes((TOOLS / module / name).read_bytes())
    monkeypatch.setattr(build, "TOOLS", tmp_path)
    copied = build._place(version)

    with (tmp_path / "kwok" / "go.sum").open("a") as file:
        file.write("another line\n")

    assert copied == before
    assert build._place(version) != before


def test_what_nodes_run_is_built_apart_from_the_control_plane(
    nothing_built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = Version.read(DEFAULT)
    go = nothing_built / "go"
    go.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{nothing_built}:/bin")

    place = programs_of(version, Kit.NODE)

    assert sorted(path.name for path in place.iterdir()) == ["kube-proxy", "kubelet"]
    assert not is_built(version)


def test_a_version_that_is_not_pinned_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"K8S=1\.2\.3: only 1\..* pinned; .*tests\.cluster\.pin 1\.2\.3"):
        is_built(Version.read("1.2.3"))


def test_a_version_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8S", "1.34.4")
    assert str(chosen()) == "1.34.4"

    monkeypatch.setenv("K8S", "newest")
    with pytest.raises(ValueError, match="K8S=newest: name a release"):
        chosen()
