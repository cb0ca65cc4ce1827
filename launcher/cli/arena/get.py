"""``arena list`` and ``arena get``."""

import argparse
import time
from collections.abc import Iterator
from typing import Any

from launcher.cli.arena.jobs import NONE, TRAINER, ArenaJobSummary, Instance, all_jobs, check_type, job_named
from launcher.cli.arena.output import table, table_with_rule
from launcher.cli.client.api_client import ApiClient, api_client
from launcher.cli.client.api_path import PODS, SERVICES
from launcher.cli.output.event_table import events_of, last_seen
from launcher.cli.output.formats import print_object
from launcher.cli.output.framework_summary import state_of
from launcher.cli.output.terminal import one_line
from launcher.core.errors import NotFound
from launcher.core.names import PodIdentityKey
from launcher.core.pods.pod_status_column import pod_status_column
from launcher.core.timestamps import format_rfc3339, format_short, parse_rfc3339

Json = dict[str, Any]

_LIST_HEADER = ("NAME", "STATUS", "TRAINER", "DURATION", "GPU(Requested)", "GPU(Allocated)", "NODE")


def list_jobs(args: argparse.Namespace) -> int:
    """Print every job."""
    check_type(args.type)

    namespaces = args.all_namespaces
    with api_client(args) as api:
        jobs = all_jobs(api, time.time(), all_namespaces=namespaces)
    if args.output in ("json", "yaml"):
        print_object([summary(job) for job in jobs], args.output, indent=4)
        return 0
    rows = [((job.namespace,) if namespaces else ()) + _row(job) for job in jobs]
    for line in table((("NAMESPACE",) if namespaces else ()) + _LIST_HEADER, rows):
        print(line)
    return 0


def _row(job: ArenaJobSummary) -> tuple[object, ...]:
    chief, allocated = job.chief, job.allocated_gpus
    has = NONE if allocated is None else allocated
    return (job.name, job.status, TRAINER, job.age, job.gpus, has, chief.node_ip if chief else NONE)


def get(args: argparse.Namespace) -> int:
    """Print one job: its instances, or its details."""
    check_type(args.type)

    with api_client(args) as api:
        job = job_named(api, args.name, time.time())
        if args.output == "name":
            print(job.name)
        elif args.output in ("json", "yaml"):
            print_object(_detail(job, _pods(api, job), _tensorboard(api, job)), args.output, indent=4)
        else:
            for line in _wide(api, job) if args.output == "wide" else _flat(job):
                print(line)
            if args.gpus:
                print("\n".join(("", "GPUs:", *_gpu_lines(job))))
            if args.events:
                print("\n".join(("", "Events:", *_events(api, job))))
    return 0


def _flat(job: ArenaJobSummary) -> Iterator[str]:
    rows = [(job.name, each.status, TRAINER, job.age, each.name, each.node_ip) for each in job.shown]
    return table(("NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE"), rows)


def _wide(api: ApiClient, job: ArenaJobSummary) -> list[str]:
    pods = _pods(api, job)
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
    lines += [
        "",
        "Instances:",
        *table_with_rule(("NAME", "STATUS", "AGE", "IS_CHIEF", "GPU(Requested)", "NODE"), rows),
    ]
    if url := _tensorboard(api, job):
        lines += ["", "Tensorboard:", f"  {url}"]
    return lines


def _words(instance: Instance, pods: dict[str, Json]) -> str:
    pod = pods.get(instance.name)
    return instance.status.capitalize() if pod is None else pod_status_column(pod)


def _gpu_lines(job: ArenaJobSummary) -> Iterator[str]:
    has = NONE if job.allocated_gpus is None else str(job.allocated_gpus)
    yield f"  Requested: {job.gpus}"
    yield f"  Allocated: {has}"


def _events(api: ApiClient, job: ArenaJobSummary) -> Iterator[str]:
    rows = []
    for event in events_of(api, job.name):
        about = event["involvedObject"]
        message = one_line(f"[{event.get('reason', '')}] {event.get('message', '')}")
        seen = last_seen(event)
        age = format_short(job.now - parse_rfc3339(seen)) if seen else NONE
        rows.append(
            (f"{about.get('kind', '').lower()}/{about.get('name', '')}", event.get("type"), age, message)
        )
    return table_with_rule(("SOURCE", "TYPE", "AGE", "MESSAGE"), rows)


def _pods(api: ApiClient, job: ArenaJobSummary) -> dict[str, Json]:
    labels = f"{PodIdentityKey.FRAMEWORK_NAME}={job.name}"
    found = api.in_namespace(job.namespace).list(PODS, labels=labels)
    return {pod["metadata"]["name"]: pod for pod in found}


def _tensorboard(api: ApiClient, job: ArenaJobSummary) -> str:
    """The URL of the TensorBoard; empty without one."""
    if not job.has_tensorboard:
        return ""
    pods = _pods(api, job)
    host = (pods.get(f"{job.name}-tensorboard-0", {}).get("status") or {}).get("hostIP")
    try:
        service = api.in_namespace(job.namespace).get(SERVICES, f"{job.name}-tensorboard")
    except NotFound:
        return ""
    port = service["spec"]["ports"][0]
    # Local mode has no node ports: TensorBoard listens on its own port.
    return f"http://{host}:{port.get('nodePort') or port['port']}" if host else ""


def _priority(job: ArenaJobSummary) -> str:
    first = (job.framework["spec"].get("taskRoles") or [{}])[0]
    return str(first["task"]["pod"]["spec"].get("priorityClassName") or NONE) if first else NONE


def summary(job: ArenaJobSummary) -> Json:
    """The job as JSON."""
    return {
        "uuid": job.framework["metadata"]["uid"],
        "name": job.name,
        "namespace": job.namespace,
        "duration": f"{job.seconds}s",
        "status": job.status,
        "state": state_of(job.framework, job.now),
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
