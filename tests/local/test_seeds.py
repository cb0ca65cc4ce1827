"""
Every Framework of the manual, unchanged, is POSTed with curl and runs to completion.

The manual is read from a directory next to the project; without it, these tests are skipped. Its images are replaced by
directories with get_ips.sh and with small programs, which check their arguments and connect to each other.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.rendezvous.container_programs import program_text
from tests.core.manifests import SEEDS
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server, ended, loopback, within

STANDINS = Path(__file__).parent / "standins"
TRAINER = "zichengfang/k8s_launcher:distributedtf"
FINDER = "zichengfang/k8s_initcontainer:update"
NODES = (f"10.151.40.241,ip={loopback(41)}", f"10.151.40.242,ip={loopback(42)}")


def manual() -> list[str]:
    """The samples, in their order in the manual."""
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
    """The directories that replace the manual's images."""
    trainer, finder = tmp_path / "trainer", tmp_path / "finder"
    shutil.copytree(STANDINS / "distributedtf", trainer)
    finder.mkdir()
    for directory in (trainer / "benchmarks/scripts/tf_cnn_benchmarks", finder):
        (directory / "get_ips.sh").write_text(program_text("get_ips.sh"))
    return {TRAINER: trainer, FINDER: finder}


@pytest.fixture
def share(tmp_path: Path) -> Path:
    """The directory that replaces the manual's NFS export."""
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
    """The response of the server, and its warnings."""
    (tmp_path / "framework.yaml").write_text(text)
    options = ("-H", "Content-Type: application/yaml", "--data-binary", f"@{tmp_path / 'framework.yaml'}")
    head, _, body = server.curl(FRAMEWORKS, "--include", *options).partition("\n\n")
    return orjson.loads(body), re.findall(r"^Warning: 299 - \"(.*)\"$", head, re.MULTILINE | re.IGNORECASE)


def test_the_first_sample_trains_with_addresses_of_get_ips(server: Server, tmp_path: Path) -> None:
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
def test_a_misspelled_field_causes_a_warning_and_is_ignored(
    serve: Serve, flags: list[str], tmp_path: Path, number: int
) -> None:
    sample = manual()[number]
    server = serve(*flags, module="tests.local.serve_without_backoff")

    _, warnings = post(server, tmp_path, sample)
    framework = server.completed("tfexample")

    assert [warning for warning in warnings if "olumeMounts" in warning and "volumeMounts" in warning]
    assert ended(framework) == "Failed"
    retries = framework["status"]["retryPolicyStatus"]["totalRetriedCount"]
    assert retries == 3, framework["status"]


@pytest.mark.parametrize("number", [1, 5], ids=["init container", "training on NFS"])
def test_the_corrected_sample_trains_with_addresses_of_its_init_container(
    server: Server, tmp_path: Path, number: int
) -> None:
    _, warnings = post(server, tmp_path, manual()[number].replace(" olumeMounts", " volumeMounts"))

    assert warnings == []
    assert ended(server.completed("tfexample")) == "Succeeded"
    workers = server.log("tfexample-worker-0")
    addresses = {f"{loopback(n)}:4686{role}" for n in (41, 42) for role in (6, 7)}
    assert workers == "worker 0 has done its part\n" if number == 5 else set(workers.split()) <= addresses
