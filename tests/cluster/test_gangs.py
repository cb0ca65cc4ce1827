"""The kinds of those who place gangs come from pinned modules, or it is told why they cannot be had."""

import sys
from pathlib import Path

import pytest

from tests.cluster import gangs
from tests.cluster.build import NoGo
from tests.cluster.gangs import NotDownloaded, crds_of


def test_without_go_it_is_told_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(NoGo, match=r"left out what needs the kinds of volcano\.sh/volcano"):
        crds_of("volcano.sh/volcano")


def test_a_module_that_cannot_be_downloaded_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _a_go(tmp_path, monkeypatch, says='{"Error": "no network"}', code=1)

    with pytest.raises(
        NotDownloaded, match=r"left out what needs the kinds of sigs\.k8s\.io/kueue: no network"
    ):
        crds_of("sigs.k8s.io/kueue")


def test_a_module_that_is_not_the_pinned_one_is_never_left_out_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _a_go(tmp_path, monkeypatch, says='{"Error": "checksum mismatch: SECURITY ERROR"}', code=1)

    with pytest.raises(AssertionError, match="SECURITY ERROR"):
        crds_of("sigs.k8s.io/kueue")


def test_its_definitions_are_found_in_the_modules_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _a_go(tmp_path, monkeypatch, says='{"Dir": "/modules/kueue"}', code=0)

    found = crds_of("sigs.k8s.io/kueue")

    assert [file.name for file in found] == [
        "kueue.x-k8s.io_localqueues.yaml",
        "kueue.x-k8s.io_workloads.yaml",
    ]
    assert (tmp_path / "asked").read_text().split() == [
        "mod",
        "download",
        "-json",
        "sigs.k8s.io/kueue@v0.15.0",
    ]


def _a_go(place: Path, monkeypatch: pytest.MonkeyPatch, *, says: str, code: int) -> None:
    go = place / "go"
    go.write_text(f"#!/bin/sh\necho \"$@\" > {place}/asked\necho '{says}'\nexit {code}\n")
    go.chmod(0o755)
    monkeypatch.setattr(gangs, "find_go", lambda: str(go))
