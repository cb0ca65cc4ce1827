"""Why an image cannot be pulled, from the kubelet's waiting reasons and messages."""

import re
from collections.abc import Sequence
from typing import Final

from launcher.core import causes
from launcher.core.causes import Cause
from launcher.core.diagnosis.finding import Problem
from launcher.core.diagnosis.inputs import Json, TaskView, last_event
from launcher.core.json_access import text

#: Waiting reasons of the kubelet that concern the image.
WAITING_REASONS: Final = frozenset(
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

#: What a runtime reports, the first that matches: pattern, cause, clause, next step.
_PATTERNS: Sequence[tuple[re.Pattern[str], Cause, str, str]] = (
    (
        re.compile(r"(?i)toomanyrequests|too many requests|rate limit|\b429\b"),
        causes.IMAGE_RATE_LIMIT,
        "the registry limits the number of pulls of image {image}",
        "wait, or set imagePullSecrets in {field} to an account with a higher limit",
    ),
    (
        re.compile(r"(?i)denied|unauthorized|authorization|authentication required|forbidden|\b40[13]\b"),
        causes.IMAGE_DENIED,
        "the registry denies access to image {image}",
        "check the name, and set imagePullSecrets in {field}: kubectl create secret docker-registry",
    ),
    (
        re.compile(r"(?i)no such host|dial tcp|i/o timeout|connection refused|TLS|x509|EOF|unavailable"),
        causes.REGISTRY_UNREACHABLE,
        "the registry of image {image} cannot be reached",
        "check the name of the registry, and its network and certificate on the node",
    ),
    (
        re.compile(r"(?i)not found|manifest unknown|does not exist|no match for platform"),
        causes.IMAGE_NOT_FOUND,
        "image {image} does not exist in its registry",
        "correct the image in {field}.containers[{container}].image, or push it",
    ),
)


def explain_image(view: TaskView, container: Json, reason: str, message: str) -> Problem:
    """A container that waits for its image."""
    name = text(container.get("name"))
    image = text(view.container(name).get("image")) or text(container.get("image"))
    event = last_event(view.events, "Failed")
    # Older kubelets repeat only the image in the back-off; the event has the runtime's error.
    details = f"{message} {text(event.get('message')) if event is not None else ''}"
    evidence = (
        view.evidence("status.containerStatuses[].state.waiting", f"{reason}: {message}".removesuffix(": ")),
    )
    words = {"image": image, "container": name, "field": view.field}
    if reason == "InvalidImageName":
        return Problem(
            causes.INVALID_IMAGE,
            f'"{image}" is not a valid image name',
            f"correct {view.field}.containers[{name}].image",
            evidence,
        )
    if reason == "ErrImageNeverPull":
        return Problem(
            causes.IMAGE_NEVER_PULLED,
            f"image {image} is not on the node and imagePullPolicy is Never",
            f"load the image on the node, or set {view.field}.containers[{name}].imagePullPolicy to IfNotPresent",
            evidence,
        )
    for pattern, cause, what, step in _PATTERNS:
        if pattern.search(details):
            return Problem(cause, what.format(**words), step.format(**words), evidence)
    return Problem(
        causes.IMAGE_PULL,
        f"image {image} cannot be pulled ({reason})",
        view.context.kubectl("describe pod", view.pod_name),
        evidence,
    )


def explain_pulling(view: TaskView, container: Json, event: Json) -> Problem:
    """A container whose image is being pulled."""
    name = text(container.get("name"))
    image = text(view.container(name).get("image"))
    return Problem(
        causes.IMAGE_PULLING,
        f"image {image} is being pulled",
        "wait; a large image takes some minutes",
        (view.evidence("events", text(event.get("message"))),),
    )
