"""``arena top``: the GPUs of nodes and jobs."""

import argparse
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from launcher.cli.arena.get import summary
from launcher.cli.arena.jobs import NONE, TRAINER, ArenaJobSummary, all_jobs, check_type, job_named
from launcher.cli.arena.output import table
from launcher.cli.client.api_client import api_client
from launcher.cli.client.api_path import NODES, PODS
from launcher.cli.errors import CommandError
from launcher.cli.output.formats import print_object
from launcher.converters.arena.flag_parsers import GPU
from launcher.core.pods.observed_pod import has_terminated, node_name
from launcher.core.quantity import quantity

Json = dict[str, Any]

_ROLE = "node-role.kubernetes.io/"
_READY = {"True": "Ready", "False": "NotReady"}


@dataclass(frozen=True, slots=True)
class _Node:
    """A node and its GPUs."""

    name: str
    address: str
    role: str
    status: str
    total: int
    allocated: int


def top_node(args: argparse.Namespace) -> int:
    """Print the nodes and their GPUs."""
    with api_client(args) as api:
        items = api.list(NODES, all_namespaces=True)
        used = _used_gpus(api.list(PODS, all_namespaces=True))
    nodes = [_node(item, used) for item in sorted(items, key=lambda item: str(item["metadata"]["name"]))]
    if missing := set(args.names) - {node.name for node in nodes}:
        raise CommandError(f"unknown node {', '.join(sorted(missing))}")
    selected = [node for node in nodes if not args.names or node.name in args.names]
    if args.output in ("json", "yaml"):
        print_object(_nodes_json(selected), args.output, indent=4)
    else:
        print("\n".join(_node_lines(selected)))
    return 0


def _node(item: Json, used: Counter[str]) -> _Node:
    name, status = item["metadata"]["name"], item.get("status") or {}
    gpus = int(quantity((status.get("capacity") or {}).get(GPU, 0)))
    return _Node(name, _address(status), _roles(item), _state(item), gpus, used[name])


def _node_lines(nodes: list[_Node]) -> list[str]:
    header = ("NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)")
    lines = list(table(header, map(astuple, nodes)))
    total, allocated = sum(node.total for node in nodes), sum(node.allocated for node in nodes)
    share = allocated * 100 // total if total else 0
    rule = "-" * max(map(len, lines))
    return [*lines, rule, "Allocated/Total GPUs In Cluster:", f"{allocated}/{total} ({share}%)"]


def _nodes_json(nodes: list[_Node]) -> Json:
    return {
        "nodes": [
            {
                "name": node.name,
                "ip": node.address,
                "role": node.role,
                "status": node.status,
                "totalGPUs": node.total,
                "allocatedGPUs": node.allocated,
            }
            for node in nodes
        ],
        "totalGPUs": sum(node.total for node in nodes),
        "allocatedGPUs": sum(node.allocated for node in nodes),
    }


def _used_gpus(pods: Iterable[Json]) -> Counter[str]:
    """The number of GPUs of pods, by node."""
    used: Counter[str] = Counter()
    for pod in pods:
        if not has_terminated(pod):
            for container in pod["spec"].get("containers") or ():
                limits = (container.get("resources") or {}).get("limits") or {}
                used[node_name(pod) or ""] += int(quantity(limits.get(GPU, 0)))
    return used


def _address(status: Json) -> str:
    addresses = status.get("addresses") or ()
    return next((each["address"] for each in addresses if each["type"] == "InternalIP"), NONE)


def _roles(node: Json) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = sorted(label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE))
    return ",".join(roles) or "<none>"


def _state(node: Json) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((each["status"] for each in conditions if each["type"] == "Ready"), "Unknown")
    cordoned = ",SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else ""
    return _READY.get(ready, "Unknown") + cordoned


def top_job(args: argparse.Namespace) -> int:
    """Print the jobs by their GPUs, or the instances of one."""
    check_type(args.type)

    with api_client(args) as api:
        if args.name is not None:
            jobs = [job_named(api, args.name, time.time())]
        else:
            jobs = all_jobs(api, time.time(), all_namespaces=args.all_namespaces)
    if args.output in ("json", "yaml"):
        print_object([summary(job) for job in _by_gpus(jobs)], args.output, indent=4)
    elif args.name is not None:
        print("\n".join(_instance_lines(jobs[0], args.instance)))
    else:
        print("\n".join(_job_lines(_by_gpus(jobs))))
    return 0


def _by_gpus(jobs: list[ArenaJobSummary]) -> list[ArenaJobSummary]:
    return sorted(jobs, key=lambda job: -job.gpus)


def _job_lines(jobs: list[ArenaJobSummary]) -> list[str]:
    header = ("NAME", "STATUS", "TRAINER", "AGE", "GPU(Requested)", "GPU(Allocated)", "NODE")
    rows = []
    for job in jobs:
        allocated, chief = job.allocated_gpus, job.chief
        has = NONE if allocated is None else allocated
        node = chief.node_ip if chief else NONE
        rows.append((job.name, job.status, TRAINER, job.age, job.gpus, has, node))
    total = sum(job.allocated_gpus or 0 for job in jobs if job.status == "RUNNING")
    return [*table(header, rows), "", "Total Allocated GPUs of Training Jobs:", str(total)]


def _instance_lines(job: ArenaJobSummary, instance: str | None) -> list[str]:
    chosen = [each for each in job.shown if instance in (None, each.name)]
    if not chosen:
        raise CommandError(f"{job.name} has no instance {instance}")
    rows = [(each.name, each.status, each.gpus, each.node_ip) for each in chosen]
    return list(table(("INSTANCE", "STATUS", "GPU(Requested)", "NODE"), rows))
