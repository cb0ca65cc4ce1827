"""Additions to pod templates, made for DNS names, discovery and gang scheduling."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodOverlay:
    """
    Additions to the pods of one role in one attempt.

    Strings may contain the placeholders of templates, such as ``{{FC_TASK_INDEX}}``; ``pod_template.index_plus`` adds
    the task index to a number.
    """

    labels: Mapping[str, Any] = field(default_factory=dict)
    #: Labels of the pod of task 0 only.
    first_labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    #: Fields of the pod spec that override the template's; lists are concatenated, the template's last.
    spec: Mapping[str, Any] = field(default_factory=dict)
    #: Fields of the pod spec that the template overrides.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    #: Environment variables of every container in the template; the template's own variables take precedence.
    variables: Sequence[Mapping[str, Any]] = ()
    #: ``volumeMounts`` of every container in the template.
    mounts: Sequence[Mapping[str, Any]] = ()


EMPTY_OVERLAY = PodOverlay()


def merge_overlays(overlays: Iterable[PodOverlay]) -> PodOverlay:
    """The combination of all overlays: later ones take precedence, lists are concatenated."""
    merged = EMPTY_OVERLAY
    for overlay in overlays:
        merged = PodOverlay(
            {**merged.labels, **overlay.labels},
            {**merged.first_labels, **overlay.first_labels},
            {**merged.annotations, **overlay.annotations},
            merge_fields(merged.spec, overlay.spec),
            merge_fields(merged.defaults, overlay.defaults),
            (*merged.variables, *overlay.variables),
            (*merged.mounts, *overlay.mounts),
        )
    return merged


def merge_fields(fields: Mapping[str, Any], overrides: Mapping[str, Any]) -> Json:
    """*fields* overridden by *overrides*; lists are concatenated."""
    return {**fields, **{name: _concatenated(fields.get(name), value) for name, value in overrides.items()}}


def _concatenated(before: Any, value: Any) -> Any:
    return [*before, *value] if isinstance(before, list) and isinstance(value, list) else value
