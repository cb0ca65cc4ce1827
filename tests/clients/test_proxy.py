"""curl through ``kubectl proxy``."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.clients.isolated_namespace import IsolatedNamespace, wait_for_file
from tests.clients.kubectl import Kubectl
from tests.clients.program import ClientProcess
from tests.eventually import TIMEOUT_SECONDS
from tests.launcher_process import PROJECT

JSON = ("-H", "Content-Type: application/json")


class KubectlProxy:
    """A running ``kubectl proxy``, and curl through it."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url, self._directory = url, directory

    def command(self, path: str, *options: str) -> list[str]:
        """The curl command for this path."""
        return [
            "curl",
            "--silent",
            "--show-error",
            "--max-time",
            str(TIMEOUT_SECONDS),
            *options,
            self._url + path,
        ]

    def __call__(self, path: str, *options: str) -> str:
        """The body of the response."""
        done = subprocess.run(
            self.command(path, *options),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS * 2,
            check=True,
        )
        return done.stdout

    def stream(self, path: str, *options: str) -> ClientProcess:
        """Opens a streaming response."""
        return ClientProcess(self.command(path, "--no-buffer", *options), self._directory / "stream")


@pytest.fixture
def proxy(kubectl: Kubectl, tmp_path: Path) -> KubectlProxy:
    """A proxy on a free port."""
    output = kubectl.follow("proxy", "--port=0").wait_for_line("Starting to serve on")
    found = re.search(r"127\.0\.0\.1:\d+", output)
    assert found
    return KubectlProxy(f"http://{found[0]}", tmp_path)


@pytest.fixture
def watch_lines(proxy: KubectlProxy, isolated: IsolatedNamespace) -> Iterator[ClientProcess]:
    """A watch of the namespace's Frameworks through the proxy."""
    stream = proxy.stream(f"{isolated.frameworks}?watch=1")
    yield stream
    stream.end()


def test_a_framework_is_posted_and_read_back(proxy: KubectlProxy, isolated: IsolatedNamespace) -> None:
    body = orjson.dumps(isolated.suspended()).decode()

    created = orjson.loads(proxy(isolated.frameworks, *JSON, "--data-binary", body))
    read = orjson.loads(proxy(f"{isolated.frameworks}/mnist"))
    listed = orjson.loads(proxy(isolated.frameworks))

    assert created["metadata"]["uid"] == read["metadata"]["uid"]
    assert [item["metadata"]["name"] for item in listed["items"]] == ["mnist"]
    assert orjson.loads(proxy(f"{isolated.frameworks}/mnist", "-X", "DELETE"))["kind"] in (
        "Status",
        "Framework",
    )


def test_yaml_is_accepted(proxy: KubectlProxy, isolated: IsolatedNamespace) -> None:
    options = ("-H", "Content-Type: application/yaml", "--data-binary", f"@{PROJECT}/examples/hello.yaml")

    created = orjson.loads(proxy(f"{isolated.frameworks}?dryRun=All", *options))

    assert created["metadata"]["name"] == "hello"


def test_an_error_is_a_status_with_its_code(proxy: KubectlProxy, isolated: IsolatedNamespace) -> None:
    body, _, code = proxy(f"{isolated.frameworks}/nosuch", "--write-out", "\n%{http_code}").rpartition("\n")

    assert code == "404"
    assert orjson.loads(body)["reason"] == "NotFound"


def test_a_watch_is_streamed_line_by_line(
    watch_lines: ClientProcess, proxy: KubectlProxy, isolated: IsolatedNamespace
) -> None:
    proxy(isolated.frameworks, *JSON, "--data-binary", orjson.dumps(isolated.framework()).decode())

    def until_completed(lines: list[str]) -> list[str] | None:
        states = [orjson.loads(line)["object"].get("status", {}).get("state") for line in lines]
        return lines if "Completed" in states else None

    events = [orjson.loads(line) for line in watch_lines.until(until_completed, "the Framework is completed")]
    assert events[0]["type"] == "ADDED"
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))


def test_logs_are_followed_through_the_proxy(
    proxy: KubectlProxy, isolated: IsolatedNamespace, kubectl: Kubectl
) -> None:
    script = f"echo first; {wait_for_file('go')} echo last"
    proxy(
        isolated.frameworks, *JSON, "--data-binary", orjson.dumps(isolated.framework(script=script)).decode()
    )
    kubectl("wait", "fw/mnist", "--for=condition=Running", "--timeout=30s")
    stream = proxy.stream(f"{isolated.pods}/mnist-worker-0/log?follow=true")

    try:
        stream.wait_for_line("first")
        isolated.create_file("go")
        assert stream.exit_code() == 0
        assert stream.lines() == ["first", "last"]
    finally:
        stream.end()
