"""Validates node selectors, affinity, topology spread constraints and tolerations, as Kubernetes does."""

from collections.abc import Iterator
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.json_access import as_list, as_object, text
from launcher.core.parsing.field_path import format_path
from launcher.core.validation.field_errors import forbidden, invalid, required
from launcher.core.validation.names import label_key_error, label_value_error
from launcher.core.validation.placeholders import Fill

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def label_errors(labels: Any, field: tuple[str, str], fill: Fill) -> Iterator[FieldError]:
    """Errors of labels, or of a selector of the same form."""
    for key, value in as_object(labels).items():
        if error := label_key_error(fill(key)):
            yield invalid(".".join((field[0], format_path((field[1], key)))), key, error)
        elif isinstance(value, str) and (error := label_value_error(fill(value))):
            yield invalid(".".join((field[0], format_path((field[1], key)))), value, error)


def placement_errors(spec: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of the scheduling fields of the pod spec at *field*."""
    yield from label_errors(spec.get("nodeSelector"), (field, "nodeSelector"), fill)
    if affinity := as_object(spec.get("affinity")):
        yield from _node_errors(
            as_object(affinity.get("nodeAffinity")), f"{field}.affinity.nodeAffinity", fill
        )
        for name in ("podAffinity", "podAntiAffinity"):
            yield from _pod_errors(as_object(affinity.get(name)), f"{field}.affinity.{name}", fill)
    for index, spread in enumerate(as_list(spec.get("topologySpreadConstraints"))):
        yield from _term_errors(as_object(spread), f"{field}.topologySpreadConstraints[{index}]", fill)
    for index, toleration in enumerate(as_list(spec.get("tolerations"))):
        yield from _toleration_errors(as_object(toleration), f"{field}.tolerations[{index}]", fill)


def _node_errors(affinity: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    needed = affinity.get(_REQUIRED)
    if needed is not None:
        terms, path = (
            as_list(as_object(needed).get("nodeSelectorTerms")),
            f"{field}.{_REQUIRED}.nodeSelectorTerms",
        )
        if not terms:
            yield required(path, "must have at least one term")
        for index, term in enumerate(terms):
            yield from _node_term_errors(as_object(term), f"{path}[{index}]", fill)
    for index, preferred in enumerate(as_list(affinity.get(_PREFERRED))):
        path = f"{field}.{_PREFERRED}[{index}].preference"
        yield from _node_term_errors(as_object(as_object(preferred).get("preference")), path, fill)


def _node_term_errors(term: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    for kind in ("matchExpressions", "matchFields"):
        for index, requirement in enumerate(as_list(term.get(kind))):
            yield from _requirement_errors(as_object(requirement), f"{field}.{kind}[{index}]", fill)


def _pod_errors(affinity: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    for index, term in enumerate(as_list(affinity.get(_REQUIRED))):
        yield from _term_errors(as_object(term), f"{field}.{_REQUIRED}[{index}]", fill)
    for index, preferred in enumerate(as_list(affinity.get(_PREFERRED))):
        path = f"{field}.{_PREFERRED}[{index}].podAffinityTerm"
        yield from _term_errors(as_object(as_object(preferred).get("podAffinityTerm")), path, fill)


def _term_errors(term: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    """Errors of a term with a topology key and a label selector."""
    key = term.get("topologyKey")
    if key == "":
        yield required(f"{field}.topologyKey")
    elif isinstance(key, str) and (error := label_key_error(fill(key))):
        yield invalid(f"{field}.topologyKey", key, error)
    for name in ("labelSelector", "namespaceSelector"):
        selector, path = as_object(term.get(name)), f"{field}.{name}"
        yield from label_errors(selector.get("matchLabels"), (path, "matchLabels"), fill)
        for index, requirement in enumerate(as_list(selector.get("matchExpressions"))):
            yield from _requirement_errors(as_object(requirement), f"{path}.matchExpressions[{index}]", fill)


def _requirement_errors(requirement: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    key, values = requirement.get("key"), [text(value) for value in as_list(requirement.get("values"))]
    if isinstance(key, str) and (error := label_key_error(fill(key))):
        yield invalid(f"{field}.key", key, error)
    match requirement.get("operator"):
        case "In" | "NotIn" if not values:
            yield required(f"{field}.values", "must be specified when operator is In or NotIn")
        case "Exists" | "DoesNotExist" if values:
            yield forbidden(f"{field}.values", "may not be specified when operator is Exists or DoesNotExist")
        case "Gt" | "Lt" if len(values) != 1 or not _is_number(fill(values[0])):
            yield invalid(
                f"{field}.values", requirement.get("values"), 'must be one number in quotes, such as ["8"]'
            )
        case _:
            pass


def _is_number(value: str) -> bool:
    return value.removeprefix("-").isascii() and value.removeprefix("-").isdigit()


def _toleration_errors(toleration: dict[str, Any], field: str, fill: Fill) -> Iterator[FieldError]:
    key, operator = text(toleration.get("key")), toleration.get("operator") or "Equal"
    if key and (error := label_key_error(fill(key))):
        yield invalid(f"{field}.key", key, error)
    if not key and operator != "Exists":
        yield invalid(
            f"{field}.operator", operator, "must be Exists when key is empty, which tolerates every taint"
        )
    if operator == "Exists" and toleration.get("value"):
        yield forbidden(f"{field}.value", "may not be specified when operator is Exists")
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield invalid(
            f"{field}.effect", toleration.get("effect"), "must be NoExecute when tolerationSeconds is set"
        )
