"""Tasks on real nodes find each other through the launcher's rendezvous."""

import pytest
import yaml

from tests.builders import a_framework, a_role
from tests.kubernetes.namespace_client import NamespaceClient
from tests.launcher_process import PROJECT
from tests.local.server import ended
from tests.realnodes import images
from tests.realnodes.bed import RealNodes
from tests.realnodes.pods import a_real_pod

PYTHON = "python:3.12-slim"
DISCOVERY = "localhost/framework-launcher-discovery:1"

pytestmark = pytest.mark.usefixtures("shared_launcher", "prepared")


@pytest.fixture(scope="module")
def prepared(bed: RealNodes) -> None:
    """Nodes with an image with a shell and Python, and with the discovery image."""
    image = images.python(f"docker.io/library/{PYTHON}")
    images.add_shell(image)
    bed.load(image)
    bed.load(images.discovery(DISCOVERY))


def test_the_discovery_example_succeeds(ns: NamespaceClient) -> None:
    example = yaml.safe_load((PROJECT / "examples" / "discovery.yaml").read_text())

    ns.submit(example)

    assert ended(ns.wait_completed("sum")) == "Succeeded"
    assert ns.kubectl("logs", "sum-master-0") == "the sum is 6\n"


def test_pods_with_their_own_addresses_receive_these(ns: NamespaceClient) -> None:
    pod = a_real_pod("cat /configdir/configfile", container={"image": PYTHON})
    framework = a_framework(a_role(tasks=2, pod=pod), discovery={"ports": {"worker": 46866}})

    ns.submit(framework)

    assert ended(ns.wait_completed()) == "Succeeded"
    addresses = [ns.pods()[f"mnist-worker-{index}"]["status"]["podIP"] for index in range(2)]
    peers = ",".join(f"{address}:46866" for address in addresses) + "\n"
    assert ns.kubectl("logs", "mnist-worker-0") == peers
    assert ns.kubectl("logs", "mnist-worker-1") == peers


def test_an_image_that_cannot_verify_certificates_fails_with_the_requirement(ns: NamespaceClient) -> None:
    """Busybox alone cannot verify the launcher's TLS certificate."""
    framework = a_framework(a_role(tasks=1, pod=a_real_pod("true")), discovery={})

    ns.submit(framework)

    assert ended(ns.wait_completed()) == "Failed"
    output = ns.kubectl("logs", "mnist-worker-0", "-c", "launcher-discovery")
    assert "use curl, python3 or GNU wget" in output


def test_another_image_can_be_configured_for_the_rendezvous(ns: NamespaceClient) -> None:
    pod = a_real_pod('. /configdir/hosts.env && echo "$RANK of $WORLD_SIZE"')
    framework = a_framework(a_role(tasks=2, pod=pod), discovery={"image": DISCOVERY})

    ns.submit(framework)

    assert ended(ns.wait_completed()) == "Succeeded"
    assert ns.kubectl("logs", "mnist-worker-1", "-c", "main") == "1 of 2\n"
