"""Tasks on real nodes find each other by way of the launcher, with the programs that it gives to their pods."""

import pytest
import yaml

from tests.core.manifests import a_framework, a_role
from tests.kubernetes.world import World
from tests.local.server import PROJECT, ended
from tests.realnodes import images
from tests.realnodes.bed import RealNodes
from tests.realnodes.pods import a_real_pod

PYTHON = "python:3.12-slim"
DISCOVERY = "localhost/framework-launcher-discovery:1"

pytestmark = pytest.mark.usefixtures("shared_launcher", "prepared")


@pytest.fixture(scope="module")
def prepared(bed: RealNodes) -> None:
    """Nodes with an image that has a shell and Python, and no more, and with the one for discovery."""
    image = images.python(f"docker.io/library/{PYTHON}")
    images.add_shell(image)
    bed.load(image)
    bed.load(images.discovery(DISCOVERY))


def test_the_example_adds_up(world: World) -> None:
    example = yaml.safe_load((PROJECT / "examples" / "discovery.yaml").read_text())

    world.submit(example)

    assert ended(world.completed("sum")) == "Succeeded"
    assert world.kubectl("logs", "sum-master-0") == "the sum is 6\n"


def test_pods_with_addresses_of_their_own_are_told_these(world: World) -> None:
    pod = a_real_pod("cat /configdir/configfile", container={"image": PYTHON})
    framework = a_framework(a_role(tasks=2, pod=pod), discovery={"ports": {"worker": 46866}})

    world.submit(framework)

    assert ended(world.completed()) == "Succeeded"
    addresses = [world.pods()[f"mnist-worker-{index}"]["status"]["podIP"] for index in range(2)]
    told = ",".join(f"{address}:46866" for address in addresses) + "\n"
    assert world.kubectl("logs", "mnist-worker-0") == told
    assert world.kubectl("logs", "mnist-worker-1") == told


def test_an_image_that_can_check_no_certificate_says_what_would_do(world: World) -> None:
    """What busybox alone has is not enough where the launcher is reached by TLS."""
    framework = a_framework(a_role(tasks=1, pod=a_real_pod("true")), discovery={})

    world.submit(framework)

    assert ended(world.completed()) == "Failed"
    said = world.kubectl("logs", "mnist-worker-0", "-c", "launcher-discovery")
    assert "use one with curl, python3 or GNU's wget" in said


def test_where_the_pods_own_image_will_not_do_another_one_is_named(world: World) -> None:
    pod = a_real_pod('. /configdir/hosts.env && echo "$RANK of $WORLD_SIZE"')
    framework = a_framework(a_role(tasks=2, pod=pod), discovery={"image": DISCOVERY})

    world.submit(framework)

    assert ended(world.completed()) == "Succeeded"
    assert world.kubectl("logs", "mnist-worker-1", "-c", "main") == "1 of 2\n"
