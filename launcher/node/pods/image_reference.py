"""Names of container images, as Docker parses them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: The registry of names without one, and the namespace of its own images.
DEFAULT_REGISTRY, _LIBRARY = "docker.io", "library"
_DEFAULT_TAG = "latest"
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:(?P<registry>{_HOST})/)?(?P<repository>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[+._-][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?"
)


class InvalidImageName(ValueError):
    """The name of an image is invalid; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class ImageReference:
    """The parts of an image's name, with Docker's defaults."""

    registry: str
    repository: str
    tag: str
    digest: str = ""


def parse_image(image: str) -> ImageReference:
    """The parts of the name *image*. Raises InvalidImageName."""
    match = _IMAGE.fullmatch(image)
    if match is None or not _is_lower_case(match["registry"] or ""):
        raise InvalidImageName(
            f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": '
            "invalid reference format"
        )
    registry, repository = match["registry"] or "", match["repository"]
    if registry and not _is_host(registry):
        registry, repository = "", f"{registry}/{repository}"
    if not registry or registry == "index.docker.io":
        registry = DEFAULT_REGISTRY
    if registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = f"{_LIBRARY}/{repository}"
    digest = match["digest"] or ""
    return ImageReference(registry, repository, match["tag"] or ("" if digest else _DEFAULT_TAG), digest)


def _is_host(name: str) -> bool:
    """Whether the first part of a name is a registry: it has a dot or a port, or is localhost."""
    return "." in name or ":" in name or name == "localhost"


def _is_lower_case(first: str) -> bool:
    """Whether the first part of a name is a registry, or a part of the repository without capitals."""
    return _is_host(first) or first == first.lower()


def pull_policy(container: Mapping[str, Any]) -> str:
    """The imagePullPolicy of the container; by default Always for the tag latest. Raises InvalidImageName."""
    if policy := container.get("imagePullPolicy"):
        return str(policy)
    reference = parse_image(container.get("image") or "")
    return "Always" if reference.tag == _DEFAULT_TAG and not reference.digest else "IfNotPresent"
