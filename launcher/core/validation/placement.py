"""Where a pod may run: node selectors, affinity and tolerations, as Kubernetes requires them."""

from collections.abc import Iterator
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.parsing.field_path import written
from launcher.core.validation.field_errors import forbidden, invalid, required
from launcher.core.validation.names import label_key_fault, label_value_fault
from launcher.core.validation.placeholders import Fill
from launcher.core.validation.pod_template import as_list, as_object, text

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def label_problems(labels: Any, field: tuple[str, str], fill: Fill) -> Iterator[FieldError]:
    """Each rule that labels, or a selector of the same form, break."""
    for key, value in as_object(labels).items():
        if fault := label_key_fault(fill(key)):
            yield invalid(".".join((field[0], written((field[1], key)))), key, fault)
        elif isinstance(value, str) and (fault := label_value_fault(fill(value))):
            yield invalid(".".join((field[0], written((field[1], key)))), value, fault)


def placement_problems(spec: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    """Each rule that the pod spec at *field* breaks by what it requires of nodes."""
    yield from label_problems(spec.get("nodeSelector"), (field, "nodeSelector"), fill)
    if affinity := as_object(spec.get("affinity")):
        yield from _node_problems(
            as_object(affinity.get("nodeAffinity")), f"{field}.affinity.nodeAffinity", fill
        )
        for name in ("podAffinity", "podAntiAffinity"):
            yield from _pod_problems(as_object(affinity.get(name)), f"{field}.affinity.{name}", fill)
    for index, spread in enumerate(as_list(spec.get("topologySpreadConstraints"))):
        yield from _term_problems(as_object(spread), f"{field}.topologySpreadConstraints[{index}]", fill)
    for index, toleration in enumerate(as_list(spec.get("tolerations"))):
        yield from _toleration_problems(as_object(toleration), f"{field}.tolerations[{index}]", fill)


def _node_problems(affinity: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    needed = affinity.get(_REQUIRED)
    if needed is not None:
        terms, where = (
            as_list(as_object(needed).get("nodeSelectorTerms")),
            f"{field}.{_REQUIRED}.nodeSelectorTerms",
        )
        if not terms:
            yield required(where, "at least one term")
        for index, term in enumerate(terms):
            yield from _node_term_problems(as_object(term), f"{where}[{index}]", fill)
    for index, wish in enumerate(as_list(affinity.get(_PREFERRED))):
        where = f"{field}.{_PREFERRED}[{index}].preference"
        yield from _node_term_problems(as_object(as_object(wish).get("preference")), where, fill)


def _node_term_problems(term: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    for kind in ("matchExpressions", "matchFields"):
        for index, requirement in enumerate(as_list(term.get(kind))):
            yield from _requirement_problems(as_object(requirement), f"{field}.{kind}[{index}]", fill)


def _pod_problems(affinity: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    for index, term in enumerate(as_list(affinity.get(_REQUIRED))):
        yield from _term_problems(as_object(term), f"{field}.{_REQUIRED}[{index}]", fill)
    for index, wish in enumerate(as_list(affinity.get(_PREFERRED))):
        where = f"{field}.{_PREFERRED}[{index}].podAffinityTerm"
        yield from _term_problems(as_object(as_object(wish).get("podAffinityTerm")), where, fill)


def _term_problems(term: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    """Of a term with a topology key and a label selector."""
    key = term.get("topologyKey")
    if key == "":
        yield required(f"{field}.topologyKey")
    elif isinstance(key, str) and (fault := label_key_fault(fill(key))):
        yield invalid(f"{field}.topologyKey", key, fault)
    for name in ("labelSelector", "namespaceSelector"):
        selector, where = as_object(term.get(name)), f"{field}.{name}"
        yield from label_problems(selector.get("matchLabels"), (where, "matchLabels"), fill)
        for index, requirement in enumerate(as_list(selector.get("matchExpressions"))):
            yield from _requirement_problems(
                as_object(requirement), f"{where}.matchExpressions[{index}]", fill
            )


def _requirement_problems(requirement: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    key, values = requirement.get("key"), [text(value) for value in as_list(requirement.get("values"))]
    if isinstance(key, str) and (fault := label_key_fault(fill(key))):
        yield invalid(f"{field}.key", key, fault)
    match requirement.get("operator"):
        case "In" | "NotIn" if not values:
            yield required(f"{field}.values", "In and NotIn compare with at least one value")
        case "Exists" | "DoesNotExist" if values:
            yield forbidden(f"{field}.values", "Exists and DoesNotExist have no values")
        case "Gt" | "Lt" if len(values) != 1 or not _is_number(fill(values[0])):
            yield invalid(
                f"{field}.values", requirement.get("values"), 'must be one number in quotes, such as ["8"]'
            )
        case _:
            pass


def _is_number(value: str) -> bool:
    return value.removeprefix("-").isascii() and value.removeprefix("-").isdigit()


def _toleration_problems(toleration: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    key, operator = text(toleration.get("key")), toleration.get("operator") or "Equal"
    if key and (fault := label_key_fault(fill(key))):
        yield invalid(f"{field}.key", key, fault)
    if not key and operator != "Exists":
        yield invalid(
            f"{field}.operator", operator, "must be Exists where key is left out, which tolerates every taint"
        )
    if operator == "Exists" and toleration.get("value"):
        yield forbidden(f"{field}.value", "with operator Exists there is no value")
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield invalid(
            f"{field}.effect", toleration.get("effect"), "must be NoExecute where tolerationSeconds is set"
        )
