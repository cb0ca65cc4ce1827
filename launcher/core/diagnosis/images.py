"""Containers that wait for their image."""

from collections.abc import Mapping

from launcher.core import causes
from launcher.core.diagnosis.finding import Problem
from launcher.core.diagnosis.inputs import Json, TaskView, last_event
from launcher.core.json_access import text
from launcher.core.pods.image_reason import image_reason

#: The next step by cause.
_STEPS: Mapping[str, str] = {
    causes.INVALID_IMAGE.id: "correct {field}.containers[{container}].image",
    causes.IMAGE_NOT_FOUND.id: "correct the image in {field}.containers[{container}].image, or push it",
    causes.IMAGE_DENIED.id: "check the name, and set imagePullSecrets in {field}: kubectl create secret "
    "docker-registry",
    causes.REGISTRY_UNREACHABLE.id: "check the name of the registry, and its network and certificate on the node",
    causes.IMAGE_NEVER_PULLED.id: "load the image on the node, or set {field}.containers[{container}].imagePullPolicy "
    "to IfNotPresent",
    causes.IMAGE_RATE_LIMIT.id: "wait, or set imagePullSecrets in {field} to an account with a higher limit",
    causes.IMAGE_PULL.id: "{kubectl} describe pod {pod}",
}


def explain_image(view: TaskView, container: Json, reason: str, message: str) -> Problem:
    """A container that waits for its image."""
    name = text(container.get("name"))
    image = text(view.container(name).get("image")) or text(container.get("image"))
    event = last_event(view.events, "Failed")
    # Older kubelets repeat only the image in the back-off; the event has the runtime's error.
    details = f"{message} {text(event.get('message')) if event is not None else ''}"
    found = image_reason(reason, details, image)
    words = {
        "container": name,
        "field": view.field,
        "kubectl": view.context.kubectl(),
        "pod": view.pod_name,
    }
    shown = f"{reason}: {message}".removesuffix(": ")
    evidence = (view.evidence("status.containerStatuses[].state.waiting", shown),)
    return Problem(found.cause, found.text, _STEPS[found.cause.id].format(**words), evidence)


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
