"""``arena top``: the GPUs of nodes and jobs, and who has them."""

import argparse
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from launcher.cli.arena.get import summary
from launcher.cli.arena.jobs import NONE, TRAINER, ArenaJobSummary, all_jobs, check_type, job_named
from launcher.cli.arena.output import table
from launcher.cli.client.api_client import NODES, PODS, ApiClient, run_with_client
from launcher.cli.errors import CommandError
from launcher.cli.output.serializers import print_form
from launcher.converters.arena.flag_parsers import GPU
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


def top_node(given: argparse.Namespace) -> int:
    """Print the nodes and their GPUs."""

    async def work(api: ApiClient) -> int:
        items, _ = await api.list(NODES, everywhere=True)
        pods, _ = await api.list(PODS, everywhere=True)
        used = _used(pods)
        nodes = [_node(item, used) for item in sorted(items, key=lambda item: str(item["metadata"]["name"]))]
        if missing := set(given.names) - {node.name for node in nodes}:
            raise CommandError(f"there is no node {', '.join(sorted(missing))}")
        chosen = [node for node in nodes if not given.names or node.name in given.names]
        if given.output in ("json", "yaml"):
            print_form(_node_form(chosen), given.output)
        else:
            print("\n".join(_node_lines(chosen)))
        return 0

    return run_with_client(given, work)


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


def _node_form(nodes: list[_Node]) -> Json:
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


def _used(pods: Iterable[Json]) -> Counter[str]:
    """GPUs that pods have, by node."""
    used: Counter[str] = Counter()
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            for container in pod["spec"].get("containers") or ():
                limits = (container.get("resources") or {}).get("limits") or {}
                used[pod["spec"].get("nodeName") or ""] += int(quantity(limits.get(GPU, 0)))
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


def top_job(given: argparse.Namespace) -> int:
    """Print the jobs by their GPUs, or the instances of one."""
    check_type(given.type)

    async def work(api: ApiClient) -> int:
        if given.name is not None:
            jobs = [await job_named(api, given.name, time.time())]
        else:
            jobs = await all_jobs(api, time.time(), everywhere=given.all_namespaces)
        if given.output in ("json", "yaml"):
            print_form([summary(job) for job in _greatest_first(jobs)], given.output)
        elif given.name is not None:
            print("\n".join(_instance_lines(jobs[0], given.instance)))
        else:
            print("\n".join(_job_lines(_greatest_first(jobs))))
        return 0

    return run_with_client(given, work)


def _greatest_first(jobs: list[ArenaJobSummary]) -> list[ArenaJobSummary]:
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
