"""What is known of container engines without a connection, and their errors."""

import os
import platform
from typing import Any

import pytest

from launcher.node.runtime.docker_engine import DockerEngine, EngineError, is_missing, is_not_running


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(EngineError(404, "No such container: x"), True, id="Docker"),
        pytest.param(
            EngineError(500, "container x does not exist in database: no such container"), True, id="Podman"
        ),
        pytest.param(EngineError(500, "container not known"), True, id="Podman has removed a part"),
        pytest.param(EngineError(500, "internal error"), False, id="another error"),
    ],
)
def test_a_missing_container_is_recognized(error: EngineError, expected: bool) -> None:
    assert is_missing(error) is expected


@pytest.mark.parametrize(
    ("server", "has_gpus"),
    [
        ("Docker/20.10.24", True),
        ("Libpod/4.9.3", False),
        ("Libpod/5.4.0 (linux)", True),
        ("Libpod/5.10.1", True),
    ],
)
def test_podman_before_5_4_ignores_requests_for_gpus(server: str, has_gpus: bool) -> None:
    client: Any = None

    assert bool(DockerEngine("unix:///run", client, server).why_without_gpus()) is not has_gpus


@pytest.mark.parametrize(
    ("url", "server", "machine", "reason"),
    [
        pytest.param("unix:///run", "Docker/20.10.24", "x86_64", "", id="Docker of this machine"),
        pytest.param("unix:///run", "Libpod/4.3.1", "s390x", "", id="Podman of this machine"),
        pytest.param("unix:///run", "Docker/20.10.24", "s390x", "s390x processors", id="no program"),
        pytest.param("tcp://engine:2375", "Docker/20.10.24", "x86_64", "on another machine", id="remote"),
    ],
)
def test_only_an_engine_of_this_machine_isolates_pods(
    url: str, server: str, machine: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client: Any = None
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    engine = DockerEngine(url, client, server)

    assert (reason in engine.why_not_isolated()) if reason else not engine.why_not_isolated()


def test_a_launcher_that_does_not_run_as_root_cannot_isolate_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = None
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert "root" in DockerEngine("unix:///run", client, "Libpod/4.3.1").why_not_isolated()


@pytest.mark.parametrize(
    "message", ["container 5af is not running", "container state improper: stopped", "can only kill running"]
)
def test_a_container_that_ends_during_a_call_is_not_running(message: str) -> None:
    assert is_not_running(EngineError(409, message))
