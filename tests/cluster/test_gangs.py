"""The CRDs of gang schedulers come from pinned modules."""

import sys
from pathlib import Path

import pytest

from tests.cluster import gangs
from tests.cluster.build import NoGo
from tests.cluster.gangs import NotDownloaded, crds_of


def test_without_go_the_error_names_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(NoGo, match=r"the CRDs of volcano\.sh/volcano cannot be downloaded: Go"):
        crds_of("volcano.sh/volcano")


def test_a_module_that_cannot_be_downloaded_raises_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_fake_go(tmp_path, monkeypatch, output='{"Error": "no network"}', code=1)

    with pytest.raises(
        NotDownloaded, match=r"the CRDs of sigs\.k8s\.io/kueue cannot be downloaded: no network"
    ):
        crds_of("sigs.k8s.io/kueue")


def test_a_module_with_another_checksum_fails_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_fake_go(tmp_path, monkeypatch, output='{"Error": "checksum mismatch: SECURITY ERROR"}', code=1)

    with pytest.raises(AssertionError, match="SECURITY ERROR"):
        crds_of("sigs.k8s.io/kueue")


def test_the_crds_are_found_in_the_directory_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_fake_go(tmp_path, monkeypatch, output='{"Dir": "/modules/kueue"}', code=0)

    found = crds_of("sigs.k8s.io/kueue")

    assert [file.name for file in found] == [
        "kueue.x-k8s.io_localqueues.yaml",
        "kueue.x-k8s.io_workloads.yaml",
    ]
    assert (tmp_path / "arguments").read_text().split() == [
        "mod",
        "download",
        "-json",
        "sigs.k8s.io/kueue@v0.15.0",
    ]


def _install_fake_go(directory: Path, monkeypatch: pytest.MonkeyPatch, *, output: str, code: int) -> None:
    go = directory / "go"
    go.write_text(f"#!/bin/sh\necho \"$@\" > {directory}/arguments\necho '{output}'\nexit {code}\n")
    go.chmod(0o755)
    monkeypatch.setattr(gangs, "find_go", lambda: str(go))
