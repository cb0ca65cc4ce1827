"""Why a container does not run, or runs again after a failure."""

from launcher.core import causes
from launcher.core.completion_codes import ContainerTermination
from launcher.core.diagnosis import images, start_order, volumes
from launcher.core.diagnosis.exits import (
    START_REASONS,
    exit_text,
    explain_command,
    explain_exit,
    explain_full_disk,
    is_disk_full,
    output_text,
    termination_evidence,
    with_output,
)
from launcher.core.diagnosis.finding import Problem
from launcher.core.diagnosis.inputs import Json, TaskView, last_event, parsed_time
from launcher.core.json_access import as_list, as_object, text
from launcher.core.names import DISCOVERY
from launcher.core.pods.image_reason import IMAGE_REASONS
from launcher.core.pods.volume_reason import is_reference_error
from launcher.core.pods.waiting_reason import CREATING_REASONS, container_reason, create_error
from launcher.core.timestamps import age, format_rfc3339


def explain_waiting(view: TaskView) -> Problem:
    """A pod with a container that waits for something else than its start."""
    container = waiting_container(view.status) or {}
    waiting = as_object(as_object(container.get("state")).get("waiting"))
    reason, message = text(waiting.get("reason")), text(waiting.get("message"))
    last = _last_termination(container)
    if last.code and not _is_unstarted(reason, message):
        return _explain_restarting(view, container, last)
    return explain_container(view, container, reason, message)


def _is_unstarted(reason: str, message: str) -> bool:
    """Whether the container waits for its image, a volume or an object, whatever it did before."""
    return reason in IMAGE_REASONS or reason in CREATING_REASONS or not reason or is_reference_error(message)


def explain_container(view: TaskView, container: Json, reason: str, message: str) -> Problem:
    """A container that cannot start, with the *reason* and *message* of the kubelet."""
    name = text(container.get("name"))
    if reason in IMAGE_REASONS:
        return images.explain_image(view, container, reason, message)
    field = f"status.containerStatuses[{name}].state.waiting"
    if _is_unstarted(reason, message):
        return volumes.explain_volume(view, message, f"{field}.message")
    evidence = (view.evidence(field, f"{reason}: {message}".removesuffix(": ")),)
    if is_disk_full(message):
        return explain_full_disk(view, evidence)
    if reason in START_REASONS and (problem := explain_command(view, name, message, evidence)) is not None:
        return problem
    spec = {"name": name, **view.container(name)}
    found = container_reason(reason, message, spec) or create_error(reason, message, spec)
    is_config = found.cause is causes.CONTAINER_CONFIG
    describe = view.context.kubectl("describe pod", view.pod_name)
    step = f"correct {view.field}.containers[{name}]" if is_config else describe
    return Problem(found.cause, found.text, step, evidence)


def waiting_container(status: Json) -> Json | None:
    """The first container that waits, init containers first; None if there is none."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in as_list(status.get(field)):
            if "waiting" in as_object(container.get("state")):
                found: Json = container
                return found
    return None


def explain_restarted(view: TaskView) -> Problem:
    """A pod with a running container that failed before."""
    containers = [
        *as_list(view.status.get("initContainerStatuses")),
        *as_list(view.status.get("containerStatuses")),
    ]
    container = next(each for each in containers if each.get("restartCount"))
    return _explain_restarting(view, container, _last_termination(container))


def explain_creating(view: TaskView) -> Problem | None:
    """A pod whose containers are being created for a long time; None if no event says why."""
    container = waiting_container(view.status) or {}
    event = last_event(view.events, *volumes.EVENT_REASONS, "FailedCreatePodSandBox", "Pulling", "Pulled")
    if event is None:
        return None
    reason, message = text(event.get("reason")), text(event.get("message"))
    field = f"events[{reason}]"
    if reason == "Pulling":
        return images.explain_pulling(view, container, event)
    if reason == "FailedCreatePodSandBox":
        return Problem(
            causes.SANDBOX,
            f"the network of the pod cannot be set up: {message.partition(': ')[2] or message}",
            f"check the network plugin of node {view.pod_spec.get('nodeName')}",
            (view.evidence(field, message),),
        )
    return volumes.explain_volume(view, message, field) if reason in volumes.EVENT_REASONS else None


def is_sidecar(pod: Json, name: object) -> bool:
    """Whether the init container of that name is restarted always, and so never finishes."""
    spec = as_object(pod.get("spec"))
    return any(
        as_object(each).get("name") == name and as_object(each).get("restartPolicy") == "Always"
        for each in as_list(spec.get("initContainers"))
    )


def explain_init(view: TaskView) -> Problem:
    """A pod with an init container that runs."""
    container = next(
        each
        for each in as_list(view.status.get("initContainerStatuses"))
        if "running" in as_object(each.get("state"))
    )
    name = text(container.get("name"))
    if name == DISCOVERY or "get_ips" in " ".join(map(str, as_list(view.container(name).get("command")))):
        return start_order.explain_peers(view, name)
    started = parsed_time(as_object(as_object(container.get("state")).get("running")).get("startedAt"))
    return Problem(
        causes.INIT_RUNNING,
        f"init container {name} has not finished",
        f"{view.logs_command} -c {name}",
        (
            view.evidence(
                f"status.initContainerStatuses[{name}].state.running",
                f"for {view.context.now - started}s" if started is not None else "running",
            ),
        ),
    )


def explain_unready(view: TaskView) -> Problem:
    """A running pod that does not pass its readiness or startup probe."""
    container = next(each for each in as_list(view.status.get("containerStatuses")) if not each.get("ready"))
    name = text(container.get("name"))
    event = last_event(view.events, "Unhealthy")
    message = text(event.get("message")).rstrip(": ") if event is not None else ""
    probe = "its readiness probe" if "readinessProbe" in view.container(name) else "its startup probe"
    return Problem(
        causes.NOT_READY,
        f"container {name} runs but does not pass {probe}{': ' + message if message else ''}",
        view.logs_command,
        (view.evidence(f"status.containerStatuses[{name}].ready", "false"),),
    )


def explain_silent(view: TaskView) -> Problem:
    """A running pod that has written nothing for a long time."""
    since = view.context.source.last_output[view.pod_name]
    return Problem(
        causes.NO_OUTPUT,
        f"runs, and has written nothing for {age(view.context.now - since)}",
        f"{view.logs_command} --tail 20; a program that hangs does not end by itself",
        (view.evidence("log", f"last written at {format_rfc3339(since)}"),),
    )


def _explain_restarting(view: TaskView, container: Json, last: ContainerTermination) -> Problem:
    name, restarts = text(container.get("name")), container.get("restartCount") or 0
    is_init = view.is_init_container(name)
    evidence = termination_evidence(view, last, f"status.containerStatuses[{name}].lastState.terminated")
    last = with_output(view, last)
    if (problem := explain_exit(view, last, evidence)) is not None:
        return problem
    cause = causes.INIT_FAILING if is_init else causes.CRASH_LOOP
    kind = "init container" if is_init else "container"
    times = f" {restarts} times" if restarts > 1 else ""
    return Problem(
        cause,
        f"{kind} {name} failed{times} and is restarted: {exit_text(last)}{output_text(last)}",
        f"{view.logs_command} -p" if not is_init else f"{view.logs_command} -c {name}",
        evidence,
    )


def _last_termination(container: Json) -> ContainerTermination:
    last = as_object(as_object(container.get("lastState")).get("terminated"))
    return ContainerTermination(
        name=text(container.get("name")),
        code=last.get("exitCode") or 0,
        reason=text(last.get("reason")),
        message=text(last.get("message")),
    )
