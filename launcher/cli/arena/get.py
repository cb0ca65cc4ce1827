"""``arena list`` and ``arena get``."""

import argparse
import time
from collections.abc import Iterator
from typing import Any

from launcher.cli.arena.jobs import NONE, TRAINER, ArenaJobSummary, Instance, all_jobs, check_type, job_named
from launcher.cli.arena.output import ruled, table
from launcher.cli.arena.pod_status import pod_words
from launcher.cli.client.api_client import PODS, SERVICES, ApiClient, run_with_client
from launcher.cli.output.event_table import events_of, last_seen
from launcher.cli.output.framework_summary import state_of
from launcher.cli.output.serializers import print_form
from launcher.cli.output.terminal import one_line
from launcher.core.errors import NotFound
from launcher.core.names import PodIdentityKey
from launcher.core.timestamps import format_rfc3339, parse_rfc3339, short

Json = dict[str, Any]

_LIST = ("NAME", "STATUS", "TRAINER", "DURATION", "GPU(Requested)", "GPU(Allocated)", "NODE")


def list_jobs(given: argparse.Namespace) -> int:
    """Print every job."""
    check_type(given.type)

    async def work(api: ApiClient) -> int:
        jobs = await all_jobs(api, time.time(), everywhere=given.all_namespaces)
        if given.output in ("json", "yaml"):
            print_form([summary(job) for job in jobs], given.output)
            return 0
        spaces = given.all_namespaces
        rows = [((job.namespace,) if spaces else ()) + _row(job) for job in jobs]
        for line in table((("NAMESPACE",) if spaces else ()) + _LIST, rows):
            print(line)
        return 0

    return run_with_client(given, work)


def _row(job: ArenaJobSummary) -> tuple[object, ...]:
    chief, allocated = job.chief, job.allocated_gpus
    has = NONE if allocated is None else allocated
    return (job.name, job.status, TRAINER, job.age, job.gpus, has, chief.node_ip if chief else NONE)


def get(given: argparse.Namespace) -> int:
    """Print one job: its instances, or more of it."""
    check_type(given.type)

    async def work(api: ApiClient) -> int:
        job = await job_named(api, given.name, time.time())
        if given.output == "name":
            print(job.name)
        elif given.output in ("json", "yaml"):
            print_form(_detail(job, await _pods(api, job), await _tensorboard(api, job)), given.output)
        else:
            lines = await _wide(api, job) if given.output == "wide" else list(_flat(job))
            for line in lines:
                print(line)
            if given.gpus:
                print("\n".join(("", "GPUs:", *_gpu_lines(job))))
            if given.events:
                print("\n".join(("", "Events:", *await _events(api, job))))
        return 0

    return run_with_client(given, work)


def _flat(job: ArenaJobSummary) -> Iterator[str]:
    rows = [(job.name, each.status, TRAINER, job.age, each.name, each.node_ip) for each in job.shown]
    return table(("NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE"), rows)


async def _wide(api: ApiClient, job: ArenaJobSummary) -> list[str]:
    pods = await _pods(api, job)
    ended = "" if job.ended is None else format_rfc3339(int(job.ended))
    facts = {
        "Name": job.name,
        "Status": job.status,
        "Namespace": job.namespace,
        "Priority": _priority(job),
        "Trainer": TRAINER,
        "Duration": job.age,
        "CreateTime": format_rfc3339(int(job.started)),
        "EndTime": ended,
    }
    lines = [f"{title + ':':<12}{fact}".rstrip() for title, fact in facts.items()]
    rows = [
        (each.name, _words(each, pods), job.age, str(each.is_chief).lower(), each.gpus, each.node_ip)
        for each in job.shown
    ]
    lines += ["", "Instances:", *ruled(("NAME", "STATUS", "AGE", "IS_CHIEF", "GPU(Requested)", "NODE"), rows)]
    if url := await _tensorboard(api, job):
        lines += ["", "Tensorboard:", f"  {url}"]
    return lines


def _words(instance: Instance, pods: dict[str, Json]) -> str:
    pod = pods.get(instance.name)
    return instance.status.capitalize() if pod is None else pod_words(pod)


def _gpu_lines(job: ArenaJobSummary) -> Iterator[str]:
    has = NONE if job.allocated_gpus is None else str(job.allocated_gpus)
    yield f"  Requested: {job.gpus}"
    yield f"  Allocated: {has}"


async def _events(api: ApiClient, job: ArenaJobSummary) -> Iterator[str]:
    rows = []
    for event in await events_of(api, job.name):
        about = event["involvedObject"]
        message = one_line(f"[{event.get('reason', '')}] {event.get('message', '')}")
        seen = last_seen(event)
        age = short(job.now - parse_rfc3339(seen)) if seen else NONE
        rows.append(
            (f"{about.get('kind', '').lower()}/{about.get('name', '')}", event.get("type"), age, message)
        )
    return ruled(("SOURCE", "TYPE", "AGE", "MESSAGE"), rows)


async def _pods(api: ApiClient, job: ArenaJobSummary) -> dict[str, Json]:
    found, _ = await api.within(job.namespace).list(
        PODS, labels=f"{PodIdentityKey.FRAMEWORK_NAME}={job.name}"
    )
    return {pod["metadata"]["name"]: pod for pod in found}


async def _tensorboard(api: ApiClient, job: ArenaJobSummary) -> str:
    """Where a browser finds the TensorBoard; empty where there is none."""
    if not job.has_tensorboard:
        return ""
    pods = await _pods(api, job)
    host = (pods.get(f"{job.name}-tensorboard-0", {}).get("status") or {}).get("hostIP")
    try:
        service = await api.within(job.namespace).get(SERVICES, f"{job.name}-tensorboard")
    except NotFound:
        return ""
    port = service["spec"]["ports"][0]
    # Without a cluster nobody maps ports: there it listens on its own.
    return f"http://{host}:{port.get('nodePort') or port['port']}" if host else ""


def _priority(job: ArenaJobSummary) -> str:
    first = (job.framework["spec"].get("taskRoles") or [{}])[0]
    return str(first["task"]["pod"]["spec"].get("priorityClassName") or NONE) if first else NONE


def summary(job: ArenaJobSummary) -> Json:
    """What programs read about the job."""
    return {
        "uuid": job.framework["metadata"]["uid"],
        "name": job.name,
        "namespace": job.namespace,
        "duration": f"{job.seconds}s",
        "status": job.status,
        "state": state_of(job.framework),
        "trainer": TRAINER.lower(),
        "priority": _priority(job),
        "requestGPUs": job.gpus,
        "allocatedGPUs": job.allocated_gpus or 0,
        "creationTimestamp": int(job.started),
    }


def _detail(job: ArenaJobSummary, pods: dict[str, Json], tensorboard: str) -> Json:
    chief = job.chief
    return {
        **summary(job),
        "tensorboard": tensorboard,
        "chiefName": chief.name if chief else "",
        "instances": [
            {
                "ip": each.ip,
                "status": _words(each, pods),
                "name": each.name,
                "age": f"{job.seconds}s",
                "node": each.node,
                "nodeIP": each.node_ip,
                "chief": each.is_chief,
                "requestGPUs": each.gpus,
                "gpuMetrics": {},
                "creationTimestamp": _created(pods.get(each.name)),
            }
            for each in job.shown
        ],
        "modelName": "",
        "modelVersion": "",
        "modelSource": "",
    }


def _created(pod: Json | None) -> int:
    return parse_rfc3339(pod["metadata"]["creationTimestamp"]) if pod else 0
