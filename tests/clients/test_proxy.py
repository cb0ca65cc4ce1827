"""curl by way of ``kubectl proxy``, as on a cluster."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.clients.kubectl import Kubectl
from tests.clients.program import Program
from tests.clients.space import Space, once
from tests.local.server import PATIENCE, PROJECT

JSON = ("-H", "Content-Type: application/json")


class Proxy:
    """A proxy, and curl through it."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url, self._directory = url, directory

    def command(self, path: str, *options: str) -> list[str]:
        """The command that a user types."""
        return ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE), *options, self._url + path]

    def __call__(self, path: str, *options: str) -> str:
        """The answer's body."""
        done = subprocess.run(
            self.command(path, *options), capture_output=True, text=True, timeout=PATIENCE * 2, check=True
        )
        return done.stdout

    def stream(self, path: str, *options: str) -> Program:
        """An answer that goes on."""
        return Program(self.command(path, "--no-buffer", *options), self._directory / "stream")


@pytest.fixture
def proxy(kubectl: Kubectl, tmp_path: Path) -> Proxy:
    """A proxy on a free port, for the length of a test."""
    said = kubectl.follow("proxy", "--port=0").until_said("Starting to serve on")
    found = re.search(r"127\.0\.0\.1:\d+", said)
    assert found
    return Proxy(f"http://{found[0]}", tmp_path)


@pytest.fixture
def watching(proxy: Proxy, space: Space) -> Iterator[Program]:
    """A watch of the namespace's Frameworks through the proxy."""
    stream = proxy.stream(f"{space.frameworks}?watch=1")
    yield stream
    stream.end()


def test_a_framework_is_posted_and_read_back(proxy: Proxy, space: Space) -> None:
    body = orjson.dumps(space.held()).decode()

    created = orjson.loads(proxy(space.frameworks, *JSON, "--data-binary", body))
    read = orjson.loads(proxy(f"{space.frameworks}/mnist"))
    listed = orjson.loads(proxy(space.frameworks))

    assert created["metadata"]["uid"] == read["metadata"]["uid"]
    assert [item["metadata"]["name"] for item in listed["items"]] == ["mnist"]
    assert orjson.loads(proxy(f"{space.frameworks}/mnist", "-X", "DELETE"))["kind"] in ("Status", "Framework")


def test_yaml_is_posted_as_it_is(proxy: Proxy, space: Space) -> None:
    options = ("-H", "Content-Type: application/yaml", "--data-binary", f"@{PROJECT}/examples/hello.yaml")

    created = orjson.loads(proxy(f"{space.frameworks}?dryRun=All", *options))

    assert created["metadata"]["name"] == "hello"


def test_an_error_is_a_status_with_its_code(proxy: Proxy, space: Space) -> None:
    body, _, code = proxy(f"{space.frameworks}/nosuch", "--write-out", "\n%{http_code}").rpartition("\n")

    assert code == "404"
    assert orjson.loads(body)["reason"] == "NotFound"


def test_a_watch_comes_through_line_by_line(watching: Program, proxy: Proxy, space: Space) -> None:
    proxy(space.frameworks, *JSON, "--data-binary", orjson.dumps(space.framework()).decode())

    def over(lines: list[str]) -> list[str] | None:
        states = [orjson.loads(line)["object"].get("status", {}).get("state") for line in lines]
        return lines if "Completed" in states else None

    events = [orjson.loads(line) for line in watching.until(over, "the Framework is over")]
    assert events[0]["type"] == "ADDED"
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


def test_logs_are_followed_through_it(proxy: Proxy, space: Space, kubectl: Kubectl) -> None:
    script = f"echo first; {once('go')} echo last"
    proxy(space.frameworks, *JSON, "--data-binary", orjson.dumps(space.framework(script=script)).decode())
    kubectl("wait", "fw/mnist", "--for=condition=Running", "--timeout=30s")
    stream = proxy.stream(f"{space.pods}/mnist-worker-0/log?follow=true")

    try:
        stream.until_said("first")
        space.open("go")
        assert stream.exit_code() == 0
        assert stream.lines() == ["first", "last"]
    finally:
        stream.end()
