"""Names of images, and the policies of their pulls."""

import pytest

from launcher.node.pods.image_reference import ImageReference, InvalidImageName, parse_image, pull_policy

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param("busybox", ("docker.io", "library/busybox", "latest", ""), id="Docker's own"),
        pytest.param("ada/tf:2", ("docker.io", "ada/tf", "2", ""), id="of a user"),
        pytest.param("localhost/x", ("localhost", "x", "latest", ""), id="localhost"),
        pytest.param("127.0.0.1:5000/a/b:1", ("127.0.0.1:5000", "a/b", "1", ""), id="port"),
        pytest.param("ghcr.io/a/b@" + DIGEST, ("ghcr.io", "a/b", "", DIGEST), id="digest"),
        pytest.param("a:1@" + DIGEST, ("docker.io", "library/a", "1", DIGEST), id="tag and digest"),
        pytest.param("index.docker.io/a/b:1", ("docker.io", "a/b", "1", ""), id="Docker's old name"),
    ],
)
def test_a_name_has_dockers_defaults(image: str, expected: tuple[str, str, str, str]) -> None:
    assert parse_image(image) == ImageReference(*expected)


@pytest.mark.parametrize("image", ["", "A", "Ada/tf", "a b", "a:", "a@sha256:1", "http://a/b", "a//b", "/a"])
def test_an_invalid_name_is_rejected(image: str) -> None:
    with pytest.raises(InvalidImageName, match="invalid reference format"):
        parse_image(image)


@pytest.mark.parametrize(
    ("container", "policy"),
    [
        pytest.param({"image": "a"}, "Always", id="no tag"),
        pytest.param({"image": "a:latest"}, "Always", id="latest"),
        pytest.param({"image": "a:1"}, "IfNotPresent", id="another tag"),
        pytest.param({"image": "a@" + DIGEST}, "IfNotPresent", id="digest"),
        pytest.param({"image": "a:1", "imagePullPolicy": "Never"}, "Never", id="configured"),
    ],
)
def test_only_the_latest_image_is_always_pulled(container: dict[str, str], policy: str) -> None:
    assert pull_policy(container) == policy
