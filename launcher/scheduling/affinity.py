"""Node affinity and inter-pod affinity terms."""

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
#: The label of every namespace. Namespaces need not be stored, so other labels of theirs are not available.
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A node selector term: all requirements must match. An empty term matches no node."""

    labels: tuple[LabelRequirement, ...]
    fields: tuple[LabelRequirement, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.labels and not self.fields:
            return False
        return all(requirement.matches(labels) for requirement in self.labels) and all(
            requirement.matches({_NAME_FIELD: name}) for requirement in self.fields
        )


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Selects pods by namespace and labels."""

    #: None selects all namespaces.
    namespaces: frozenset[str] | None
    #: None selects no pods.
    labels: tuple[LabelRequirement, ...] | None

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return (
            self.labels is not None
            and (self.namespaces is None or namespace in self.namespaces)
            and all(requirement.matches(labels) for requirement in self.labels)
        )

    def exact_label(self) -> tuple[str, str] | None:
        """Returns a label that every selected pod has, or None. Used as an index key."""
        for requirement in self.labels or ():
            if requirement.operator is Operator.IN and len(requirement.values) == 1:
                return requirement.key, next(iter(requirement.values))
        return None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A pod affinity term: the selected pods and the node label that defines the topology domain."""

    selector: PodSelector
    topology_key: str


T = TypeVar("T", NodeTerm, PodTerm)


@dataclass(frozen=True, slots=True)
class WeightedTerm(Generic[T]):
    """A preferred term and its weight."""

    weight: int
    term: T


def node_terms(affinity: Mapping[str, Any]) -> tuple[NodeTerm, ...] | None:
    """Returns the required terms, of which one must match; None if there is no requirement."""
    required = affinity.get(_REQUIRED)
    if required is None:
        return None
    return tuple(_node_term(term) for term in required.get("nodeSelectorTerms") or ())


def preferred_nodes(affinity: Mapping[str, Any]) -> tuple[WeightedTerm[NodeTerm], ...]:
    return tuple(
        WeightedTerm(_weight(preference), _node_term(preference.get("preference") or {}))
        for preference in affinity.get(_PREFERRED) or ()
    )


def pod_terms(affinity: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> tuple[PodTerm, ...]:
    """Returns the required terms, all of which must hold for a pod with this namespace and these labels."""
    return tuple(_pod_term(term, namespace, labels) for term in affinity.get(_REQUIRED) or ())


def preferred_pods(
    affinity: Mapping[str, Any], anti_affinity: Mapping[str, Any], namespace: str, labels: Mapping[str, str]
) -> tuple[WeightedTerm[PodTerm], ...]:
    """Returns the preferred terms of both kinds; anti-affinity has negative weights."""
    return tuple(
        WeightedTerm(
            sign * _weight(preference), _pod_term(preference.get("podAffinityTerm") or {}, namespace, labels)
        )
        for sign, terms in ((1, affinity), (-1, anti_affinity))
        for preference in terms.get(_PREFERRED) or ()
    )


def _weight(preference: Mapping[str, Any]) -> int:
    weight = preference.get("weight") or 0
    if not isinstance(weight, int):
        raise ValueError(f"spec.affinity: weight {weight!r} must be an integer")
    return weight


def _node_term(term: Mapping[str, Any]) -> NodeTerm:
    field_path = "spec.affinity.nodeAffinity"
    fields = tuple(_requirements(term.get("matchFields") or (), field_path))
    for requirement in fields:
        if requirement.key != _NAME_FIELD or requirement.operator not in (Operator.IN, Operator.NOT_IN):
            raise ValueError(
                f"{field_path}: matchFields supports only {_NAME_FIELD} with In and NotIn, not {requirement.key!r}"
            )
    return NodeTerm(tuple(_requirements(term.get("matchExpressions") or (), field_path)), fields)


def _pod_term(term: Mapping[str, Any], namespace: str, labels: Mapping[str, str]) -> PodTerm:
    if not isinstance(term.get("topologyKey"), str) or not term["topologyKey"]:
        raise ValueError(
            "spec.affinity: topologyKey: Required value (kubernetes.io/hostname means the same node)"
        )
    return PodTerm(PodSelector(_namespaces(term, namespace), _pod_labels(term, labels)), term["topologyKey"])


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
    for requirement in requirements:
        if requirement.key != _NAMESPACE_LABEL or requirement.operator is not Operator.IN:
            raise ValueError(
                f"spec.affinity: namespaceSelector supports only {_NAMESPACE_LABEL} with In: "
                "list the namespaces in namespaces"
            )
    return named | frozenset.intersection(*(requirement.values for requirement in requirements))


def _selector(selector: Mapping[str, Any], field: str) -> tuple[LabelRequirement, ...]:
    exact = (
        LabelRequirement(key, Operator.IN, frozenset({value}))
        for key, value in sorted((selector.get("matchLabels") or {}).items())
    )
    return (*exact, *_requirements(selector.get("matchExpressions") or (), f"spec.affinity.{field}"))


def _requirements(expressions: Iterable[Mapping[str, Any]], field_path: str) -> Iterable[LabelRequirement]:
    for expression in expressions:
        operator = _OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise ValueError(
                f"{field_path}: operator {expression.get('operator')!r} must be one of {', '.join(_OPERATORS)}"
            )
        values = frozenset(expression.get("values") or ())
        if operator in (Operator.GREATER, Operator.LESS) and not _is_one_number(values):
            raise ValueError(f"{field_path}: {expression['operator']} requires one integer in values")
        if not isinstance(expression["key"], str):
            raise ValueError(f"{field_path}: key {expression['key']!r} is not a string")
        yield LabelRequirement(expression["key"], operator, values)


def _is_one_number(values: frozenset[str]) -> bool:
    try:
        (value,) = values
        int(value)
    except ValueError:
        return False
    return True
