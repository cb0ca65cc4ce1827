"""The requests that create containers in an engine."""

from pathlib import Path

import pytest

from launcher.node.container_runtime import Confinement, ContainerConfig, RunId
from launcher.node.runtime.docker_container import Json, create_options

UID = "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize(
    ("podman", "request_for_gpus"),
    [
        pytest.param(
            False, {"Driver": "nvidia", "DeviceIDs": ["0", "2"], "Capabilities": [["gpu"]]}, id="Docker"
        ),
        pytest.param(
            True, {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=2"]}, id="Podman"
        ),
    ],
)
def test_gpus_are_requested_by_their_indexes(podman: bool, request_for_gpus: Json) -> None:
    config = ContainerConfig(
        RunId(f"{UID}.main.0"), "busybox", [], {}, Path("log"), confinement=Confinement(()), gpus=["0", "2"]
    )

    host = create_options(config, {}, (), podman=podman)["HostConfig"]

    assert host["DeviceRequests"] == [request_for_gpus]
    assert "Devices" not in host


@pytest.mark.parametrize(
    ("podman", "network", "mode", "hostname"),
    [
        pytest.param(False, None, "host", "own", id="the network of the machine, Docker"),
        pytest.param(True, None, "host", "own", id="the network of the machine, Podman"),
        pytest.param(False, Path("/run/n"), f"container:launcher-{UID}", None, id="isolated, Docker"),
        pytest.param(True, Path("/run/n"), "ns:/run/n", "own", id="isolated, Podman"),
    ],
)
def test_a_container_has_the_network_and_host_name_of_its_pod(
    podman: bool, network: Path | None, mode: str, hostname: str | None
) -> None:
    config = ContainerConfig(
        RunId(f"{UID}.main.0"), "busybox", [], {}, Path("log"), hostname="own", network=network
    )

    options = create_options(config, {}, (), podman=podman)

    assert (options["HostConfig"]["NetworkMode"], options.get("Hostname")) == (mode, hostname)


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        pytest.param({}, (None, None, None), id="none"),
        pytest.param({"stdin": True}, (True, False, None), id="stdin"),
        pytest.param({"stdin": True, "stdin_once": True}, (True, True, None), id="stdin once"),
        pytest.param({"tty": True}, (None, None, True), id="tty"),
    ],
)
def test_a_container_has_the_streams_of_its_config(
    streams: dict[str, bool], expected: tuple[bool | None, ...]
) -> None:
    config = ContainerConfig(RunId(f"{UID}.main.0"), "busybox", [], {}, Path("log"), **streams)  # type: ignore[arg-type]  # only flags

    options = create_options(config, {}, (), podman=False)

    assert tuple(options.get(name) for name in ("OpenStdin", "StdinOnce", "Tty")) == expected
