"""Where there can be no real nodes, it is told in one line what is left out, why, and the way out."""

import os
import shutil

import pytest

from tests.realnodes import prepare


def test_without_root_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert prepare.lacking() == "they need root"


def test_a_package_that_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in {"containerd", "ctr"} else found(name))

    assert "containerd" in prepare.missing()
    assert (prepare.lacking() or "").endswith("which `make test-node` installs")
