"""Where real nodes cannot run, the tests are skipped with the reason."""

import os
import shutil

import pytest

from tests.realnodes import prepare


def test_without_root_the_tests_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert prepare.missing_requirement() == "they need root"


def test_a_missing_package_is_reported_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = shutil.which
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in {"containerd", "ctr"} else found(name))

    assert "containerd" in prepare.missing()
    assert (prepare.missing_requirement() or "").endswith("which `make test-node` installs")
