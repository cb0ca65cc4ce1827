"""A launcher without a token is open to all users of the machine; as root it warns of that."""

import os
from pathlib import Path

import pytest

from tests.eventually import until
from tests.local.conftest import Serve

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="the warning is for root")


@as_root
def test_serve_as_root_without_a_token_warns_and_names_the_fix(serve: Serve) -> None:
    server = serve()

    warning = until(lambda: server.errors() or None, "the warning")

    assert warning.count("\n") == 1
    assert "run commands as root" in warning
    assert "--token-file FILE or --listen unix:PATH" in warning


@as_root
def test_serve_as_root_with_a_token_does_not_warn(serve: Serve, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    token.chmod(0o600)
    server = serve("--token-file", str(token))

    until(lambda: server.curl("/readyz") == "ok" or None, "the launcher is ready")

    assert server.stop() == 0
    assert server.errors() == ""
