"""
Every Framework of the manual, as it is printed, POSTed with curl and run to its end by real kubelets.

The manual is read where it stands beside the project; without it, these tests are left out and say so. Its images are
made here, with our get_ips.sh and with small programs that check what they are given and that they reach each other.
Their pods have no rights on the cluster. This kernel knows no NFS: a directory of each node is mounted where kubelet
mounts the export.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.rendezvous.programs import program
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.world import World
from tests.local.server import ended
from tests.local.test_seeds import FINDER, STANDINS, TRAINER, manual
from tests.realnodes import images
from tests.realnodes.bed import NAMES, RealNodes
from tests.realnodes.images import Image

EXPORT = "10.169.4.12:/home/t-zifang/nfs"


@pytest.fixture(scope="module", autouse=True)
def prepared(bed: RealNodes) -> None:
    """Nodes with the manual's images, files and export."""
    manual()
    bed.load(manuals_image())
    for node in bed.nodes.values():
        write(node.data / "hostpathdir" / "hostpathtest.txt", "Hello, HostPath\n")
        write(node.data / "nfs" / "nfstest.txt", "Hello, NFS\n")
        write(node.data / "nfs" / "cifar-10-batches-py" / "data_batch_1", "a little data\n")
        node.stand_in_for_nfs(EXPORT, "/data/nfs")


def manuals_image() -> Image:
    """Both of its images in one."""
    image = images.python(f"docker.io/{TRAINER}", f"docker.io/{FINDER}")
    images.add_shell(image)
    bash = Path(shutil.which("bash") or "bash").resolve()
    image.files["/bin/bash"] = bash
    images.add_libraries(image, [bash])
    image.add_tree(STANDINS / "distributedtf", "")
    for directory in ("/benchmarks/scripts/tf_cnn_benchmarks", ""):
        image.texts[f"{directory}/get_ips.sh"] = program("get_ips.sh")
    return image


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def known_by_address(world: World) -> Iterator[None]:
    """Nodes that are known by the names of the manual's."""
    for node, name in zip(NAMES, ("10.151.40.241", "10.151.40.243"), strict=True):
        world.kubectl("label", "--overwrite", "node", node, f"kubernetes.io/hostname={name}")
    yield
    for node in NAMES:
        world.kubectl("label", "--overwrite", "node", node, f"kubernetes.io/hostname={node}")


def post(launcher: KubeLauncher, world: World, directory: Path, text: str) -> tuple[Any, list[str]]:
    """What the launcher answers, and its warnings."""
    file = directory / "framework.yaml"
    file.write_text(text)
    words = [
        "-H",
        f"Authorization: Bearer {world.cluster.admin_token}",
        "-H",
        "Content-Type: application/yaml",
    ]
    answer = launcher.curl(world.frameworks, "--include", *words, "--data-binary", f"@{file}")
    head, _, body = answer.replace("\r", "").partition("\n\n")
    return orjson.loads(body), re.findall(r"^Warning: 299 - \"(.*)\"$", head, re.MULTILINE | re.IGNORECASE)


def test_the_first_sample_trains_with_addresses_that_it_finds_itself(
    shared_launcher: KubeLauncher, world: World, tmp_path: Path
) -> None:
    created, warnings = post(shared_launcher, world, tmp_path, manual()[0])

    assert created["metadata"]["name"] == "tfexample"
    assert warnings == []
    assert ended(world.completed("tfexample")) == "Succeeded"
    assert world.kubectl("logs", "tfexample-worker-0") == "worker 0 has done its part\n"
    assert world.kubectl("logs", "tfexample-ps-0") == "ps 0 has done its part\n"


def test_a_file_on_what_stands_for_the_export_is_read_in_the_pod(
    shared_launcher: KubeLauncher, world: World, tmp_path: Path
) -> None:
    post(shared_launcher, world, tmp_path, manual()[2])

    assert ended(world.completed("nfsexample")) == "Succeeded"
    assert world.kubectl("logs", "nfsexample-worker-0").splitlines()[-1] == "Hello, NFS"


@pytest.mark.usefixtures("known_by_address")
@pytest.mark.parametrize("number", [3, 4], ids=["one node", "several nodes"])
def test_a_file_on_the_host_is_read_in_the_pod(
    shared_launcher: KubeLauncher, world: World, tmp_path: Path, number: int
) -> None:
    post(shared_launcher, world, tmp_path, manual()[number])

    assert ended(world.completed("hostpathexample")) == "Succeeded"
    assert world.kubectl("logs", "hostpathexample-worker-0") == "hostpathtest.txt\nHello, HostPath\n"
    if number == 4:
        assert world.pods()["hostpathexample-worker-0"]["spec"]["nodeName"] == "node-1"


@pytest.mark.parametrize("number", [1, 5], ids=["init container", "training on NFS"])
def test_a_misspelt_field_is_warned_of_and_costs_the_worker_its_volumes(
    shared_launcher: KubeLauncher, world: World, tmp_path: Path, number: int
) -> None:
    _, warnings = post(shared_launcher, world, tmp_path, manual()[number])

    assert [warning for warning in warnings if "olumeMounts" in warning and "volumeMounts" in warning]
    failed = world.until(lambda: first_failure(world), "the worker has failed for the first time")
    assert failed["code"] != 0


@pytest.mark.parametrize("number", [1, 5], ids=["init container", "training on NFS"])
def test_spelt_right_it_trains_with_addresses_from_its_init_container(
    bed: RealNodes, shared_launcher: KubeLauncher, world: World, tmp_path: Path, number: int
) -> None:
    right = manual()[number].replace(" olumeMounts", " volumeMounts")
    _, warnings = post(shared_launcher, world, tmp_path, right)

    assert warnings == []
    assert ended(world.completed("tfexample")) == "Succeeded"
    workers = world.kubectl("logs", "tfexample-worker-0")
    addresses = {f"{bed.address(node)}:4686{role}" for node in NAMES for role in (6, 7)}
    assert workers == "worker 0 has done its part\n" if number == 5 else set(workers.split()) <= addresses


def first_failure(world: World) -> Any:
    """How the worker has ended when it has."""
    status = world.framework("tfexample").get("status", {}).get("attemptStatus", {})
    roles = status.get("taskRoleStatuses") or [{}]
    for task in roles[0].get("taskStatuses", ()):
        if completion := task["attemptStatus"].get("completionStatus"):
            return completion
    return None
