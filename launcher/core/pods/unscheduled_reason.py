"""Why a pod has no node, from the scheduler's message and the pod's spec: the cause and a clause."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from launcher.core import causes
from launcher.core.causes import Cause, Reason
from launcher.core.json_access import as_list, as_object, text
from launcher.core.pods.resource_requests import Amounts, pod_requests

Json = Mapping[str, Any]

#: The reason of the condition PodScheduled=False of a pod with scheduling gates.
SCHEDULING_GATED: Final = "SchedulingGated"

#: ``3 Insufficient cpu`` and ``1 node(s) had untolerated taint {key: value}`` in the scheduler's message.
_NODE_REASON: Final = re.compile(
    r"(\d+) (Insufficient [^\s,]+(?<!\.)|Too many pods|node\(s\) (?:\{[^}]*\}|[^,.{])+)"
)
_INSUFFICIENT: Final = "Insufficient "
_NO_NODES: Final = "no nodes available"
_MEMORY: Final = frozenset({"memory", "ephemeral-storage"})
#: Taints of nodes that do not respond or start.
_NODE_CONDITION_TAINT: Final = re.compile(r"node\.kubernetes\.io/(not-ready|unreachable|network-unavailable)")
#: Taints of nodes that are not for tasks.
_CONTROL_PLANE_TAINT: Final = re.compile(r"node-role\.kubernetes\.io/(control-plane|master)")


def unscheduled_reason(reason: str, message: str, spec: Json) -> Reason:
    """The reason of a pod with the condition PodScheduled=False and that *reason* and *message*."""
    if reason == SCHEDULING_GATED:
        return Reason(
            causes.SCHEDULING_GATE, f"held by {', '.join(scheduling_gates(spec)) or 'a scheduling gate'}"
        )
    if _NO_NODES in message:
        return Reason(causes.NO_NODES, "the cluster has no nodes")
    if (found := reason_of_free_nodes(message, spec)) is not None:
        return found
    if (found := _reason_of_nodes(node_reasons(message), spec)) is not None:
        return found
    sentence = message.partition(". ")[0].removesuffix(".") or "it gave no reason"
    return Reason(causes.UNSCHEDULABLE, f"the scheduler found no node: {sentence}")


def scheduling_gates(spec: Json) -> Sequence[str]:
    """The names of the pod's scheduling gates."""
    return [text(as_object(gate).get("name")) for gate in as_list(spec.get("schedulingGates"))]


def node_reasons(message: str) -> Mapping[str, int]:
    """The reasons in the scheduler's message, each with its number of nodes."""
    return {reason: int(count) for count, reason in _NODE_REASON.findall(message.partition("preemption:")[0])}


def insufficient_resources(message: str) -> Sequence[str]:
    """The resources of which some nodes have too little."""
    return [
        reason.removeprefix(_INSUFFICIENT)
        for reason in node_reasons(message)
        if reason.startswith(_INSUFFICIENT)
    ]


def requested(spec: Json) -> Amounts:
    """The requests of the pod; empty if they are invalid."""
    try:
        return pod_requests(spec)
    except (ValueError, TypeError, AttributeError):
        return {}


def reason_of_free_nodes(message: str, spec: Json) -> Reason | None:
    """
    The reason of nodes that accept such pods; None if the message has none.

    A pod needs one node only, so of several reasons the one that ends soonest decides.
    """
    reasons = node_reasons(message)
    for pattern, explain in _FREE_NODES:
        for reason in reasons:
            if pattern.search(reason):
                return explain(reason, spec)
    for pattern, cause, what in _VOLUMES:
        if (found := pattern.search(message)) is not None:
            name = found.groupdict().get("name") or ""
            return Reason(cause, what.format(name=name), name)
    return None


def _reason_of_nodes(reasons: Mapping[str, int], spec: Json) -> Reason | None:
    """The reason of nodes that do not accept such pods: the scheduler checks taints before labels."""
    tainted = [reason for reason in reasons if "untolerated taint" in reason]
    unready = [reason for reason in reasons if "not ready" in reason or _NODE_CONDITION_TAINT.search(reason)]
    named = [_taint(each) for each in tainted if "{" in each and each not in unready]
    own = [each for each in named if not _CONTROL_PLANE_TAINT.search(each)]
    mismatch = next((reason for reason in reasons if "affinity/selector" in reason), None)
    if mismatch is not None and not own:
        return selector_reason(spec, others=sum(reasons.values()) - reasons[mismatch])
    if any("were unschedulable" in reason for reason in reasons):
        return cordoned_reason()
    if unready:
        return unready_reason()
    if tainted:
        return taint_reason((own or named or [""])[0])
    return None


def selector_reason(spec: Json, *, others: int = 0) -> Reason:
    """No node matches nodeSelector and nodeAffinity; *others* do not accept the pod for another reason."""
    suffix = f"; {others} other node{'' if others == 1 else 's'} cannot be used" if others else ""
    labels = selector_text(spec)
    what = f"nodeSelector {labels}" if labels else "nodeAffinity"
    return Reason(causes.NODE_SELECTOR, f"no node matches {what}{suffix}", labels)


def selector_text(spec: Json) -> str:
    """``disk=ssd, zone=a``: the pod's nodeSelector."""
    return ", ".join(f"{key}={value}" for key, value in as_object(spec.get("nodeSelector")).items())


def cordoned_reason(nodes: Collection[str] = ()) -> Reason:
    return Reason(causes.CORDONED, f"every suitable node is cordoned{_named(nodes)}")


def unready_reason(nodes: Collection[str] = ()) -> Reason:
    return Reason(causes.NODES_NOT_READY, f"nodes are not ready{_named(nodes)}")


def taint_reason(taint: str, nodes: Collection[str] = ()) -> Reason:
    """*taint* is its key and value; empty if the scheduler does not name it."""
    what = f"the taint {taint}, which" if taint else "taints that"
    return Reason(causes.TAINT, f"nodes have {what} the pod does not tolerate{_named(nodes)}", taint)


def _named(nodes: Collection[str]) -> str:
    return f": {', '.join(sorted(nodes)[:5])}" if nodes else ""


def _taint(reason: str) -> str:
    """``gpu=only`` of ``node(s) had untolerated taint {gpu: only}``."""
    key, _, value = reason.partition("{")[2].rstrip("} ").partition(": ")
    return f"{key}={value}" if value else key.rstrip(":")


def _insufficient(reason: str, spec: Json) -> Reason:
    resource = reason.removeprefix(_INSUFFICIENT)
    needed = format_amount(resource, requested(spec).get(resource, 0))
    return Reason(causes.INSUFFICIENT_NOW, f"no node has {needed} {resource} free", resource)


def _ports(_: str, spec: Json) -> Reason:
    ports = sorted(
        {
            port.get("hostPort") or port.get("containerPort") or 0
            for container in as_list(spec.get("containers"))
            for port in as_list(as_object(container).get("ports"))
        }
    )
    return Reason(
        causes.HOST_PORT, f"host port {', '.join(map(str, ports))} is in use on every suitable node"
    )


def _fixed(cause: Cause, what: str) -> "_Explain":
    def explain(reason: str, _: Json) -> Reason:
        return Reason(cause, what.format(reason=reason))

    return explain


_Explain = Callable[[str, Json], Reason]
#: Reasons of nodes that accept such pods.
_FREE_NODES: Sequence[tuple[re.Pattern[str], _Explain]] = (
    (re.compile(r"^Insufficient"), _insufficient),
    (
        re.compile(r"reserved for a pod"),
        _fixed(causes.RESERVED, "free capacity is reserved for pods that have waited longer"),
    ),
    (re.compile(r"free ports"), _ports),
    (
        re.compile(r"^Too many pods"),
        _fixed(causes.TOO_MANY_PODS, "every suitable node runs its maximum number of pods"),
    ),
    (re.compile(r"pod (anti-)?affinity|pods anti-affinity"), _fixed(causes.POD_AFFINITY, "{reason}")),
    (re.compile(r"topology spread"), _fixed(causes.TOPOLOGY_SPREAD, "{reason}")),
)

_VOLUMES: Sequence[tuple[re.Pattern[str], Cause, str]] = (
    (
        re.compile(r'persistentvolumeclaim "(?P<name>[^"]+)" not found'),
        causes.CLAIM_MISSING,
        "PersistentVolumeClaim {name} does not exist",
    ),
    (
        re.compile(
            r"unbound immediate PersistentVolumeClaims|(?i:persistentvolumeclaim .*not (found|bound))"
        ),
        causes.CLAIM_MISSING,
        "a PersistentVolumeClaim of the pod is missing or not bound",
    ),
    (
        # The wording until and since Kubernetes 1.35.
        re.compile(r"volume node affinity conflict|PersistentVolume's node affinity|exceed max volume count"),
        causes.VOLUME_ATTACH,
        "a volume of the pod cannot be attached to any suitable node",
    ),
)


def format_amount(resource: str, amount: int) -> str:
    """An amount in thousandths as users write it: ``8``, ``500m``, ``16Gi``."""
    if resource in _MEMORY or resource.startswith("hugepages-"):
        size = amount / 1000
        for unit in ("", "Ki", "Mi", "Gi", "Ti"):
            if size < 1024 or unit == "Ti":
                return f"{size:.4g}{unit}"
            size /= 1024
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
