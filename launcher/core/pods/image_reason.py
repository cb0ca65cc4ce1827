"""Why an image cannot be pulled, from the kubelet's waiting reason and message: the cause and a clause."""

import re
from collections.abc import Sequence
from typing import Final

from launcher.core import causes
from launcher.core.causes import Cause, Reason

#: Waiting reasons of the kubelet that concern the image.
IMAGE_REASONS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)

#: What a runtime reports, the first that matches.
_PATTERNS: Sequence[tuple[re.Pattern[str], Cause, str]] = (
    (
        re.compile(r"(?i)toomanyrequests|too many requests|rate limit|\b429\b"),
        causes.IMAGE_RATE_LIMIT,
        "the registry limits the number of pulls of image {image}",
    ),
    (
        re.compile(r"(?i)denied|unauthorized|authorization|authentication required|forbidden|\b40[13]\b"),
        causes.IMAGE_DENIED,
        "the registry denies access to image {image}",
    ),
    (
        re.compile(r"(?i)no such host|dial tcp|i/o timeout|connection refused|TLS|x509|EOF|unavailable"),
        causes.REGISTRY_UNREACHABLE,
        "the registry of image {image} cannot be reached",
    ),
    (
        re.compile(r"(?i)not found|manifest unknown|does not exist|no match for platform"),
        causes.IMAGE_NOT_FOUND,
        "image {image} does not exist in its registry",
    ),
)


def image_reason(reason: str, message: str, image: str) -> Reason:
    """The reason of a container that waits with one of IMAGE_REASONS."""
    if reason == "InvalidImageName":
        return Reason(causes.INVALID_IMAGE, f'"{image}" is not a valid image name')
    if reason == "ErrImageNeverPull":
        text = f"image {image} is not on the node and imagePullPolicy is Never"
        return Reason(causes.IMAGE_NEVER_PULLED, text)
    for pattern, cause, what in _PATTERNS:
        if pattern.search(message):
            return Reason(cause, what.format(image=image))
    return Reason(causes.IMAGE_PULL, f"image {image} cannot be pulled ({reason})")
