"""simpletfjob: assigns tasks to nodes, and renders the template for each task."""

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
#: Values of ``-N`` for all nodes.
_ALL = (-1, 0)
_SEPARATOR = "\n---\n"
_SUFFIX, _ADDED = ".yaml", "_tfjob.yaml"
#: Minimum indentation of TF_CONFIG.
_INDENT = 16
#: A line with a key of a YAML block scalar: the indentation of the key, and the indentation indicator.
_BLOCK_KEY = re.compile(
    r"(?P<before>[ ]*(?:-[ ]+)*)[^\s#-].*:[ ]+[>|][-+]?(?P<indent>[1-9]?)[-+]?[ ]*(?:#.*)?"
)
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True, slots=True)
class TemplateTask:
    """One task and its node."""

    type: str
    index: int
    host: str


def output_path(template: PurePath) -> PurePath:
    """``x/mnist_tfjob.yaml`` for ``x/mnist.yaml``; other extensions are kept in the name."""
    return template.with_name(template.name.removesuffix(_SUFFIX) + _ADDED)


def unusable_reason(node: Json) -> str | None:
    """Why the node is not used; None if it is."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    if spec.get("unschedulable"):
        return "cordoned"
    conditions = {entry["type"]: entry["status"] for entry in status.get("conditions") or ()}
    if conditions.get("Ready") != "True":
        return "not ready"
    if any(entry.get("key") in _CONTROL_PLANE for entry in spec.get("taints") or ()):
        return "reserved for the control plane"
    return None


def hosts_in(text: str) -> tuple[str, ...]:
    """The host names in a file, one per line; empty lines and comments are skipped."""
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def choose_hosts(hosts: Sequence[str], excluded: Collection[str], number: int) -> tuple[str, ...]:
    """The first *number* hosts that are not *excluded*, in order. Raises BadRequest."""
    available = [host for host in hosts if host not in excluded]
    if number in _ALL:
        return tuple(available)
    if number < 0:
        raise BadRequest(f"-N {number}: must be the number of nodes, or -1 for all")
    if number > len(available):
        raise BadRequest(
            f"-N {number}: only {len(available)} nodes are available ({_join_names(available)}); "
            "use a lower number, or omit -N to use all of them"
        )
    return tuple(available[:number])


def tasks_on(hosts: Sequence[str], psn: int) -> tuple[TemplateTask, ...]:
    """The first *psn* hosts as parameter servers, then the others as workers. Raises BadRequest."""
    if psn < 1:
        raise BadRequest(f"--psn {psn}: must be at least 1")
    if psn >= len(hosts):
        raise BadRequest(
            f"--psn {psn}: no node is left for workers, since there are {len(hosts)} nodes "
            f"({_join_names(hosts)}); use fewer parameter servers, or more nodes with -N"
        )
    servers = [TemplateTask(PS, index, host) for index, host in enumerate(hosts[:psn])]
    return (*servers, *(TemplateTask(WORKER, index, host) for index, host in enumerate(hosts[psn:])))


def _join_names(hosts: Iterable[str]) -> str:
    return ", ".join(hosts) or "none"


def render_tasks(template: str, tasks: Sequence[TemplateTask], port: int) -> tuple[str, ...]:
    """The template rendered for each task. Raises BadRequest with the line of an error."""
    start = len(template) - len(template.lstrip())
    nodes = parse(template.strip(), first_line=template.count("\n", 0, start) + 1)
    return tuple(_render_task(nodes, task, tasks, port) for task in tasks)


def join_documents(documents: Iterable[str]) -> str:
    """The documents as one YAML text."""
    return _SEPARATOR.join(documents)


def _render_task(
    nodes: tuple[Node, ...], task: TemplateTask, tasks: Sequence[TemplateTask], port: int
) -> str:
    config = tf_config(task, tasks, port)
    values = {"type": task.type, "index": str(task.index), "host": task.host, "TF_CONFIG": config}
    return render(
        nodes, values, lambda output, value: _indent_block(output, value) if value == config else value
    )


def tf_config(task: TemplateTask, tasks: Sequence[TemplateTask], port: int) -> str:
    """TF_CONFIG of one task, as a block of ten lines."""
    servers, workers = (
        ",".join(f'"{peer.host}:{port}"' for peer in tasks if peer.type == type_) for type_ in (PS, WORKER)
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


def _indent_block(output: str, block: str) -> str:
    """
    The block with the indentation that YAML requires at the end of *output*.

    At the start of a line the block belongs to the key above and is indented further than that. After white space all
    its lines start in the column of the first.
    """
    *previous_lines, line = output.split("\n")
    if line.strip(" "):
        return block
    block_key = _BLOCK_KEY.fullmatch(previous_lines[-1].rstrip("\r")) if previous_lines else None
    indent = len(line) or _INDENT
    if block_key and indent < len(block_key["before"]) + int(block_key["indent"] or 1):
        indent = len(block_key["before"]) + int(block_key["indent"] or 2)
    lines = (f"{' ' * indent}{block_line[_INDENT:]}" for block_line in block.splitlines(keepends=True))
    return "".join(lines)[len(line) :]
