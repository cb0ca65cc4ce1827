"""
Every Framework of the manual, unchanged, is POSTed with curl and run to completion by real kubelets.

The manual is read from a directory next to the project; without it, these tests are skipped. Its images are built here,
with get_ips.sh and with small programs that check their arguments and connect to each other. Their pods have no
permissions in the cluster. Instead of the NFS export a directory of each node is mounted.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.rendezvous.container_programs import program_text
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient
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
        node.replace_nfs(EXPORT, "/data/nfs")


def manuals_image() -> Image:
    """Both images of the manual in one."""
    image = images.python(f"docker.io/{TRAINER}", f"docker.io/{FINDER}")
    images.add_shell(image)
    bash = Path(shutil.which("bash") or "bash").resolve()
    image.files["/bin/bash"] = bash
    images.add_libraries(image, [bash])
    image.add_tree(STANDINS / "distributedtf", "")
    for directory in ("/benchmarks/scripts/tf_cnn_benchmarks", ""):
        image.texts[f"{directory}/get_ips.sh"] = program_text("get_ips.sh")
    return image


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def nodes_named_as_in_the_manual(ns: NamespaceClient) -> Iterator[None]:
    """Inside the block the nodes have the host names of the manual."""
    for node, name in zip(NAMES, ("10.151.40.241", "10.151.40.243"), strict=True):
        ns.kubectl("label", "--overwrite", "node", node, f"kubernetes.io/hostname={name}")
    yield
    for node in NAMES:
        ns.kubectl("label", "--overwrite", "node", node, f"kubernetes.io/hostname={node}")


def post(launcher: KubeLauncher, ns: NamespaceClient, directory: Path, text: str) -> tuple[Any, list[str]]:
    """The response of the launcher, and its warnings."""
    file = directory / "framework.yaml"
    file.write_text(text)
    headers = [
        "-H",
        f"Authorization: Bearer {ns.cluster.admin_token}",
        "-H",
        "Content-Type: application/yaml",
    ]
    response = launcher.curl(ns.frameworks, "--include", *headers, "--data-binary", f"@{file}")
    head, _, body = response.replace("\r", "").partition("\n\n")
    return orjson.loads(body), re.findall(r"^Warning: 299 - \"(.*)\"$", head, re.MULTILINE | re.IGNORECASE)


def test_the_first_sample_trains_with_addresses_of_get_ips(
    shared_launcher: KubeLauncher, ns: NamespaceClient, tmp_path: Path
) -> None:
    created, warnings = post(shared_launcher, ns, tmp_path, manual()[0])

    assert created["metadata"]["name"] == "tfexample"
    assert warnings == []
    assert ended(ns.wait_completed("tfexample")) == "Succeeded"
    assert ns.kubectl("logs", "tfexample-worker-0") == "worker 0 has done its part\n"
    assert ns.kubectl("logs", "tfexample-ps-0") == "ps 0 has done its part\n"


def test_a_file_on_the_replaced_export_is_read_in_the_pod(
    shared_launcher: KubeLauncher, ns: NamespaceClient, tmp_path: Path
) -> None:
    post(shared_launcher, ns, tmp_path, manual()[2])

    assert ended(ns.wait_completed("nfsexample")) == "Succeeded"
    assert ns.kubectl("logs", "nfsexample-worker-0").splitlines()[-1] == "Hello, NFS"


@pytest.mark.usefixtures("nodes_named_as_in_the_manual")
@pytest.mark.parametrize("number", [3, 4], ids=["one node", "several nodes"])
def test_a_file_on_the_host_is_read_in_the_pod(
    shared_launcher: KubeLauncher, ns: NamespaceClient, tmp_path: Path, number: int
) -> None:
    post(shared_launcher, ns, tmp_path, manual()[number])

    assert ended(ns.wait_completed("hostpathexample")) == "Succeeded"
    assert ns.kubectl("logs", "hostpathexample-worker-0") == "hostpathtest.txt\nHello, HostPath\n"
    if number == 4:
        assert ns.pods()["hostpathexample-worker-0"]["spec"]["nodeName"] == "node-1"


@pytest.mark.parametrize("number", [1, 5], ids=["init container", "training on NFS"])
def test_a_misspelled_field_causes_a_warning_and_is_ignored(
    shared_launcher: KubeLauncher, ns: NamespaceClient, tmp_path: Path, number: int
) -> None:
    _, warnings = post(shared_launcher, ns, tmp_path, manual()[number])

    assert [warning for warning in warnings if "olumeMounts" in warning and "volumeMounts" in warning]
    failed = ns.until(lambda: first_failure(ns), "the worker has failed for the first time")
    assert failed["code"] != 0


@pytest.mark.parametrize("number", [1, 5], ids=["init container", "training on NFS"])
def test_the_corrected_sample_trains_with_addresses_of_its_init_container(
    bed: RealNodes, shared_launcher: KubeLauncher, ns: NamespaceClient, tmp_path: Path, number: int
) -> None:
    corrected = manual()[number].replace(" olumeMounts", " volumeMounts")
    _, warnings = post(shared_launcher, ns, tmp_path, corrected)

    assert warnings == []
    assert ended(ns.wait_completed("tfexample")) == "Succeeded"
    workers = ns.kubectl("logs", "tfexample-worker-0")
    addresses = {f"{bed.address(node)}:4686{role}" for node in NAMES for role in (6, 7)}
    assert workers == "worker 0 has done its part\n" if number == 5 else set(workers.split()) <= addresses


def first_failure(ns: NamespaceClient) -> Any:
    """Waits for the first failure of the worker, and returns its completion."""
    status = ns.framework("tfexample").get("status", {}).get("attemptStatus", {})
    roles = status.get("taskRoleStatuses") or [{}]
    for task in roles[0].get("taskStatuses", ()):
        if completion := task["attemptStatus"].get("completionStatus"):
            return completion
    return None
