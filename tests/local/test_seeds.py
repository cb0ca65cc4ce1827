"""
Every Framework of the manual, as it is printed, POSTed with curl and run to its end.

The manual is read where it stands beside the project; without it, these tests are left out and say so. Its images are
stood in for by directories with our get_ips.sh and with small programs, which check what they are given and that they
reach each other.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.rendezvous.programs import program
from tests.core.manifests import SEEDS
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server, ended, loopback, within

STANDINS = Path(__file__).parent / "standins"
TRAINER = "zichengfang/k8s_launcher:distributedtf"
FINDER = "zichengfang/k8s_initcontainer:update"
NODES = (f"10.151.40.241,ip={loopback(41)}", f"10.151.40.242,ip={loopback(42)}")


def manual() -> list[str]:
    """The samples, in the order in which they are printed."""
    found = [
        sample
        for path in sorted(SEEDS.glob("004*.txt"))
        for sample in re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)
    ]
    if not found:
        pytest.skip(f"the manual is not there: {SEEDS} has no 004*.txt")
    return found


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Path]:
    """The directories that stand for the manual's images."""
    trainer, finder = tmp_path / "trainer", tmp_path / "finder"
    shutil.copytree(STANDINS / "distributedtf", trainer)
    finder.mkdir()
    for directory in (trainer / "benchmarks/scripts/tf_cnn_benchmarks", finder):
        (directory / "get_ips.sh").write_text(program("get_ips.sh"))
    return {TRAINER: trainer, FINDER: finder}


@pytest.fixture
def share(tmp_path: Path) -> Path:
    """What the manual's NFS server exports."""
    directory = tmp_path / "share"
    (directory / "cifar-10-batches-py").mkdir(parents=True)
    (directory / "cifar-10-batches-py" / "data_batch_1").write_text("a little data\n")
    (directory / "nfstest.txt").write_text("Hello, NFS\n")
    return directory


@pytest.fixture
def flags(images: Mapping[str, Path], share: Path) -> list[str]:
    return [
        *(f"--node={node}" for node in NODES),
        *(f"--image={name}={directory}" for name, directory in images.items()),
        f"--nfs=10.169.4.12:/home/t-zifang/nfs={share}",
    ]


@pytest.fixture
def server(serve: Serve, flags: list[str]) -> Server:
    return serve(*flags)


def post(server: Server, tmp_path: Path, text: str) -> tuple[Any, list[str]]:
    """What the server answers, and its warnings."""
    (tmp_path / "framework.yaml").write_text(text)
    options = ("-H", "Content-Type: application/yaml", "--data-binary", f"@{tmp_path / 'framework.yaml'}")
    head, _, body = server.curl(FRAMEWORKS, "--include", *options).partition("\n\n")
    return orjson.loads(body), re.findall(r"^Warning: 299 - \"(.*)\"$", head, re.MULTILINE | re.IGNORECASE)


def test_the_first_sample_trains_with_addresses_that_it_finds_itself(server: Server, tmp_path: Path) -> None:
    created, warnings = post(server, tmp_path, manual()[0])

    assert created["metadata"]["name"] == "tfexample"
    assert warnings == []
    assert ended(server.completed("tfexample")) == "Succeeded"
    assert server.log("tfexample-worker-0") == "worker 0 has done its part\n"
    assert server.log("tfexample-ps-0") == "ps 0 has done its part\n"


def test_a_file_on_the_export_is_read_in_the_pod(server: Server, tmp_path: Path) -> None:
    post(server, tmp_path, manual()[2])

    assert ended(server.completed("nfsexample")) == "Succeeded"
    assert server.log("nfsexample-worker-0").splitlines()[-1] == "Hello, NFS"


@pytest.mark.parametrize("number", [3, 4], ids=["one node", "several nodes"])
def test_a_file_on_the_host_is_read_in_the_pod(
    serve: Serve, flags: list[str], tmp_path: Path, number: int
) -> None:
    sample = manual()[number]
    (tmp_path / "host" / "hostpathdir").mkdir(parents=True)
    (tmp_path / "host" / "hostpathdir" / "hostpathtest.txt").write_text("Hello, HostPath\n")
    server = serve(*flags, "--node=10.151.40.243", under=within(data=tmp_path / "host"))

    post(server, tmp_path, sample)

    assert ended(server.completed("hostpathexample")) == "Succeeded"
    assert server.log("hostpathexample-worker-0") == "hostpathtest.txt\nHello, HostPath\n"
    if number == 4:
        pod = server.get(f"{PODS}/hostpathexample-worker-0")
        assert pod["spec"]["nodeName"] in ("10.151.40.241", "10.151.40.242")


@pytest.mark.parametrize("number", [1, 5], ids=["init container", "training on NFS"])
def test_a_misspelt_field_is_warned_of_and_costs_the_worker_its_volumes(
    serve: Serve, flags: list[str], tmp_path: Path, number: int
) -> None:
    sample = manual()[number]
    server = serve(*flags, module="tests.local.impatient")

    _, warnings = post(server, tmp_path, sample)
    framework = server.completed("tfexample")

    assert [warning for warning in warnings if "olumeMounts" in warning and "volumeMounts" in warning]
    assert ended(framework) == "Failed"
    retries = framework["status"]["retryPolicyStatus"]["totalRetriedCount"]
    assert retries == 3, framework["status"]


@pytest.mark.parametrize("number", [1, 5], ids=["init container", "training on NFS"])
def test_spelt_right_it_trains_with_addresses_from_its_init_container(
    server: Server, tmp_path: Path, number: int
) -> None:
    _, warnings = post(server, tmp_path, manual()[number].replace(" olumeMounts", " volumeMounts"))

    assert warnings == []
    assert ended(server.completed("tfexample")) == "Succeeded"
    workers = server.log("tfexample-worker-0")
    addresses = {f"{loopback(n)}:4686{role}" for n in (41, 42) for role in (6, 7)}
    assert workers == "worker 0 has done its part\n" if number == 5 else set(workers.split()) <= addresses
