"""A malformed name never refers to another object, and an empty one never to all objects."""

import pytest

from launcher.cli.main import main
from tests.builders import a_framework
from tests.local.conftest import Serve, serve  # noqa: F401 - a fixture
from tests.local.server import FRAMEWORKS

MALFORMED = ("", "..", "../frameworks", "one/../two", "%2e%2e", "one/scale", "*")


def test_deleting_a_malformed_name_deletes_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    server = serve()
    monkeypatch.setenv("LAUNCHER_SERVER", server.url)
    for name in ("one", "two"):
        server.post(FRAMEWORKS, a_framework(name=name, executionType="Create"))

    assert {name: main(["delete", name]) for name in MALFORMED} == dict.fromkeys(MALFORMED, 2)
    assert main(["delete", "-l", ""]) == 2

    remaining = server.get(FRAMEWORKS)["items"]
    assert [item["metadata"]["name"] for item in remaining] == ["one", "two"]
    assert all("deletionTimestamp" not in item["metadata"] for item in remaining)
