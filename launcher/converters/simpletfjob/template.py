"""simpletfjob: which machines take part and as what, and the text that each of them gets from a template."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from launcher.converters.gotemplate.nodes import Node
from launcher.converters.gotemplate.parser import parse
from launcher.converters.gotemplate.renderer import render
from launcher.core.errors import BadRequest

Json = dict[str, Any]

PS, WORKER = "ps", "worker"
#: ``-N`` values that mean every machine.
_ALL = (-1, 0)
_SEPARATOR = "\n---\n"
_SUFFIX, _ADDED = ".yaml", "_tfjob.yaml"
#: Where TF_CONFIG begins unless it has to begin further right.
_INDENT = 16
#: A line that opens a block of text: what stands before its key, and how far right of that the block has to begin.
_BLOCK_KEY = re.compile(
    r"(?P<before>[ ]*(?:-[ ]+)*)[^\s#-].*:[ ]+[>|][-+]?(?P<least>[1-9]?)[-+]?[ ]*(?:#.*)?"
)
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True, slots=True)
class Task:
    """One machine's part: the n-th of its type."""

    type: str
    index: int
    host: str


def output_path(template: PurePath) -> PurePath:
    """``x/mnist_tfjob.yaml`` for ``x/mnist.yaml``; any other ending stays part of the name."""
    return template.with_name(template.name.removesuffix(_SUFFIX) + _ADDED)


def why_not(node: Json) -> str | None:
    """Why nothing should be put on that machine; None if something may."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    if spec.get("unschedulable"):
        return "it is cordoned"
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return "it is not ready"
    if any(each.get("key") in _CONTROL_PLANE for each in spec.get("taints") or ()):
        return "it is kept for the control plane"
    return None


def hosts_in(text: str) -> tuple[str, ...]:
    """The machines that a file names, one on each line; empty lines and those with ``#`` in front name none."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def chosen(hosts: Sequence[str], excluded: Collection[str], number: int) -> tuple[str, ...]:
    """The first *number* of those hosts that are not *excluded*, in their order. Raises BadRequest."""
    left = [host for host in hosts if host not in excluded]
    if number in _ALL:
        return tuple(left)
    if number < 0:
        raise BadRequest(f"-N {number}: give the number of machines to use, or -1 for all of them")
    if number > len(left):
        raise BadRequest(
            f"-N {number}: the machines to use are only {len(left)} ({_listed(left)}); ask for fewer, or leave -N "
            "out to use all of them"
        )
    return tuple(left[:number])


def tasks_on(hosts: Sequence[str], psn: int) -> tuple[Task, ...]:
    """The first *psn* hosts as parameter servers, then the others as workers. Raises BadRequest."""
    if psn < 1:
        raise BadRequest(f"--psn {psn}: there has to be at least 1 parameter server")
    if psn >= len(hosts):
        raise BadRequest(
            f"--psn {psn}: no machine is left to be a worker, for the machines are {len(hosts)} in all "
            f"({_listed(hosts)}); ask for fewer parameter servers, or for more machines with -N"
        )
    servers = [Task(PS, index, host) for index, host in enumerate(hosts[:psn])]
    return (*servers, *(Task(WORKER, index, host) for index, host in enumerate(hosts[psn:])))


def _listed(hosts: Iterable[str]) -> str:
    return ", ".join(hosts) or "none"


def rendered(template: str, tasks: Sequence[Task], port: int) -> tuple[str, ...]:
    """The template filled in for each task. Raises BadRequest with the line that cannot be."""
    begins = len(template) - len(template.lstrip())
    nodes = parse(template.strip(), first_line=template.count("\n", 0, begins) + 1)
    return tuple(_filled_in(nodes, task, tasks, port) for task in tasks)


def joined(documents: Iterable[str]) -> str:
    """One text of several documents."""
    return _SEPARATOR.join(documents)


def _filled_in(nodes: tuple[Node, ...], task: Task, tasks: Sequence[Task], port: int) -> str:
    config = tf_config(task, tasks, port)
    values = {"type": task.type, "index": str(task.index), "host": task.host, "TF_CONFIG": config}
    return render(
        nodes, values, lambda written, value: _indented(written, value) if value == config else value
    )


def tf_config(task: Task, tasks: Sequence[Task], port: int) -> str:
    """What TensorFlow is told about its cluster and about this task, as a block of ten lines."""
    servers, workers = (
        ",".join(f'"{each.host}:{port}"' for each in tasks if each.type == type_) for type_ in (PS, WORKER)
    )
    lines = (
        "{",
        '  "cluster": {',
        f'    "ps": [{servers}],',
        f'    "worker": [{workers}]',
        "  },",
        '  "task": {',
        f'    "index": {task.index},',
        f'    "type": "{task.type}"',
        "  }",
        "}",
    )
    return "".join(f"{' ' * _INDENT}{line}\n" for line in lines)


def _indented(written: str, block: str) -> str:
    """
    The block as it stands in a template of batch Jobs, or further right where YAML needs it.

    Alone at the beginning of a line it belongs to the key above: it has to begin to the right of that. Behind white
    space it begins where that ends; otherwise only its first line would.
    """
    *before, line = written.split("\n")
    if line.strip(" "):
        return block
    opened = _BLOCK_KEY.fullmatch(before[-1].rstrip("\r")) if before else None
    wanted = len(line) or _INDENT
    if opened and wanted < len(opened["before"]) + int(opened["least"] or 1):
        wanted = len(opened["before"]) + int(opened["least"] or 2)
    lines = (f"{' ' * wanted}{each[_INDENT:]}" for each in block.splitlines(keepends=True))
    return "".join(lines)[len(line) :]
