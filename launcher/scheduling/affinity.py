"""Affinity: which nodes, and the company of which pods, a pod asks for or would like."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from launcher.store.selectors import LabelRequirement, Operator

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.ABSENT,
    "Gt": Operator.GREATER,
    "Lt": Operator.LESS,
}
_NAME_FIELD = "metadata.name"
#: The label that every namespace has. Namespaces need not be stored, so no other label of theirs is known.
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Conditions that all hold on a node; none at all hold nowhere."""

    labels: tuple[LabelRequirement, ...]
    fields: tuple[LabelRequirement, ...]

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.labels and not self.fields:
            return False
        return all(one.holds(labels) for one in self.labels) and all(
            one.holds({_NAME_FIELD: name}) for one in self.fields
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """Pods by their namespace and labels."""

    #: None is all.
    namespaces: frozenset[str] | None
    #: None selects nothing.
    labels: tuple[LabelRequirement, ...] | None

    def holds(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (
            self.labels is not None
            and (self.namespaces is None or namespace in self.namespaces)
            and all(one.holds(labels) for one in self.labels)
        )

    def label(self) -> tuple[str, str] | None:
        """A label that every match carries, if there is one: quicker to find by."""
        for one in self.labels or ():
            if one.operator is Operator.IN and len(one.values) == 1:
                return one.key, next(iter(one.values))
        return None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """The pods in question, and the node label whose value says what "in the same place" means."""

    selection: Selection
    topology: str


T = TypeVar("T", NodeTerm, PodTerm)


@dataclass(frozen=True, slots=True)
class Weighed(Generic[T]):
    """What a pod would like, and how much."""

    weight: int
    term: T


def node_terms(affinity: Mapping[str, Any]) -> tuple[NodeTerm, ...] | None:
    """The terms of which one must hold; None when there are none to hold."""
    required = affinity.get(_REQUIRED)
    if required is None:
        return None
    return tuple(_node_term(one) for one in required.get("nodeSelectorTerms") or ())


def preferred_nodes(affinity: Mapping[str, Any]) -> tuple[Weighed[NodeTerm], ...]:
    return tuple(
        Weighed(_weight(one), _node_term(one.get("preference") or {}))
        for one in affinity.get(_PREFERRED) or ()
    )


def pod_terms(affinity: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> tuple[PodTerm, ...]:
    """The terms that all must hold, for a pod of that namespace with these labels."""
    return tuple(_pod_term(one, namespace, labels) for one in affinity.get(_REQUIRED) or ())


def preferred_pods(
    near: Mapping[str, Any], apart: Mapping[str, Any], namespace: str, labels: Mapping[str, str]
) -> tuple[Weighed[PodTerm], ...]:
    """The wishes of both kinds; weights of those to keep apart from are below zero."""
    return tuple(
        Weighed(sign * _weight(one), _pod_term(one.get("podAffinityTerm") or {}, namespace, labels))
        for sign, affinity in ((1, near), (-1, apart))
        for one in affinity.get(_PREFERRED) or ()
    )


def _weight(wish: Mapping[str, Any]) -> int:
    weight = wish.get("weight") or 0
    if not isinstance(weight, int):
        raise ValueError(f"spec.affinity: weight {weight!r} is no whole number")
    return weight


def _node_term(term: Mapping[str, Any]) -> NodeTerm:
    where = "spec.affinity.nodeAffinity"
    fields = tuple(_requirements(term.get("matchFields") or (), where))
    for one in fields:
        if one.key != _NAME_FIELD or one.operator not in (Operator.IN, Operator.NOT_IN):
            raise ValueError(f"{where}: matchFields knows {_NAME_FIELD} with In and NotIn, not {one.key!r}")
    return NodeTerm(tuple(_requirements(term.get("matchExpressions") or (), where)), fields)


def _pod_term(term: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> PodTerm:
    if not isinstance(term.get("topologyKey"), str) or not term["topologyKey"]:
        raise ValueError("spec.affinity: topologyKey is missing: write kubernetes.io/hostname for one node")
    return PodTerm(Selection(_namespaces(term, namespace), _pod_labels(term, labels)), term["topologyKey"])


def _pod_labels(term: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[LabelRequirement, ...] | None:
    if term.get("labelSelector") is None:
        return None
    own = [
        LabelRequirement(key, operator, frozenset({labels[key]}))
        for field, operator in (("matchLabelKeys", Operator.IN), ("mismatchLabelKeys", Operator.NOT_IN))
        for key in term.get(field) or ()
        if key in labels
    ]
    return (*_selector(term["labelSelector"], "labelSelector"), *own)


def _namespaces(term: Mapping[str, Any], own: str) -> frozenset[str] | None:
    named = frozenset(term.get("namespaces") or ())
    selector = term.get("namespaceSelector")
    if selector is None:
        return named or frozenset({own})
    requirements = _selector(selector, "namespaceSelector")
    if not requirements:
        return None
    for one in requirements:
        if one.key != _NAMESPACE_LABEL or one.operator is not Operator.IN:
            raise ValueError(
                f"spec.affinity: namespaceSelector can only ask for {_NAMESPACE_LABEL} with In here: "
                "name the namespaces in namespaces"
            )
    return named | frozenset.intersection(*(one.values for one in requirements))


def _selector(selector: Mapping[str, Any], field: str) -> tuple[LabelRequirement, ...]:
    exact = (
        LabelRequirement(key, Operator.IN, frozenset({value}))
        for key, value in sorted((selector.get("matchLabels") or {}).items())
    )
    return (*exact, *_requirements(selector.get("matchExpressions") or (), f"spec.affinity.{field}"))


def _requirements(expressions: Iterable[Mapping[str, Any]], where: str) -> Iterable[LabelRequirement]:
    for one in expressions:
        operator = _OPERATORS.get(one.get("operator", ""))
        if operator is None:
            raise ValueError(
                f"{where}: operator {one.get('operator')!r} must be one of {', '.join(_OPERATORS)}"
            )
        values = frozenset(one.get("values") or ())
        if operator in (Operator.GREATER, Operator.LESS) and not _is_one_number(values):
            raise ValueError(f"{where}: {one['operator']} takes one whole number in values")
        if not isinstance(one["key"], str):
            raise ValueError(f"{where}: key {one['key']!r} is no string")
        yield LabelRequirement(one["key"], operator, values)


def _is_one_number(values: frozenset[str]) -> bool:
    try:
        (value,) = values
        int(value)
    except ValueError:
        return False
    return True
