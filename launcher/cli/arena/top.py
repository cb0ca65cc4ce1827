"""``arena top``: the GPUs of nodes and jobs, and who has them."""

import argparse
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from launcher.cli.arena.jobs import NONE, TRAINER, Job, all_jobs, check_type, job_named
from launcher.cli.arena.tables import table
from launcher.cli.client import NODES, PODS, Api, talk
from launcher.cli.complaint import Complaint
from launcher.core.quantity import quantity
from launcher.intake.arena.entries import GPU

Json = dict[str, Any]

_ROLE = "node-role.kubernetes.io/"
_READY = {"True": "Ready", "False": "NotReady"}


def top_node(given: argparse.Namespace) -> int:
    """Print the nodes and their GPUs."""

    async def work(api: Api) -> int:
        nodes, _ = await api.list(NODES, everywhere=True)
        pods, _ = await api.list(PODS, everywhere=True)
        if missing := set(given.names) - {node["metadata"]["name"] for node in nodes}:
            raise Complaint(f"there is no node {', '.join(sorted(missing))}")
        chosen = [node for node in nodes if not given.names or node["metadata"]["name"] in given.names]
        for line in _node_lines(chosen, _used(pods)):
            print(line)
        return 0

    return talk(given, work)


def _node_lines(nodes: Iterable[Json], used: Counter[str]) -> list[str]:
    rows, total, allocated = [], 0, 0
    for node in sorted(nodes, key=lambda each: str(each["metadata"]["name"])):
        name, status = node["metadata"]["name"], node.get("status") or {}
        gpus = int(quantity((status.get("capacity") or {}).get(GPU, 0)))
        total, allocated = total + gpus, allocated + used[name]
        rows.append((name, _address(status), _roles(node), _state(node), gpus, used[name]))
    lines = list(table(("NAME", "IPADDRESS", "ROLE", "STATUS", "GPU(Total)", "GPU(Allocated)"), rows))
    share = allocated * 100 // total if total else 0
    rule = "-" * max(map(len, lines))
    return [*lines, rule, "Allocated/Total GPUs In Cluster:", f"{allocated}/{total} ({share}%)"]


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

    async def work(api: Api) -> int:
        if given.name is not None:
            lines = _instance_lines(await job_named(api, given.name, time.time()), given.instance)
        else:
            lines = _job_lines(await all_jobs(api, time.time(), everywhere=given.all_namespaces))
        for line in lines:
            print(line)
        return 0

    return talk(given, work)


def _job_lines(jobs: list[Job]) -> list[str]:
    jobs = sorted(jobs, key=lambda job: -job.gpus)
    header = ("NAME", "STATUS", "TRAINER", "AGE", "GPU(Requested)", "GPU(Allocated)", "NODE")
    rows = []
    for job in jobs:
        allocated, chief = job.allocated_gpus, job.chief
        has = NONE if allocated is None else allocated
        node = chief.node_ip if chief else NONE
        rows.append((job.name, job.status, TRAINER, job.age, job.gpus, has, node))
    total = sum(job.allocated_gpus or 0 for job in jobs if job.status == "RUNNING")
    return [*table(header, rows), "", "Total Allocated GPUs of Training Jobs:", str(total)]


def _instance_lines(job: Job, instance: str | None) -> list[str]:
    chosen = [each for each in job.instances if instance in (None, each.name)]
    if not chosen:
        raise Complaint(f"{job.name} has no instance {instance}")
    rows = [(each.name, each.status, each.gpus, each.node_ip) for each in chosen]
    return list(table(("INSTANCE", "STATUS", "GPU(Requested)", "NODE"), rows))
