"""What pods get beside their template: from those who see to names, to discovery and to gangs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodOverlay:
    """
    What every pod of one role in one attempt gets beside its template.

    Texts may have the placeholders that templates may have, such as ``{{FC_TASK_INDEX}}``; for a number that grows
    with the task's index there is ``materialize.counted_from``.
    """

    labels: Mapping[str, Any] = field(default_factory=dict)
    #: Labels of the pod of task 0 alone.
    first_labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    #: Fields of the pod's spec, over those of the user; of lists, both are there, the user's last.
    spec: Mapping[str, Any] = field(default_factory=dict)
    #: Fields of the pod's spec where the user has none.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    #: Variables of every container of the user; one of the same name that the user wrote counts instead.
    variables: Sequence[Mapping[str, Any]] = ()
    #: ``volumeMounts`` of every container of the user.
    mounts: Sequence[Mapping[str, Any]] = ()


EMPTY_OVERLAY = PodOverlay()


def merge_overlays(all_extras: Iterable[PodOverlay]) -> PodOverlay:
    """All of these at once; where two speak of one field, the later counts, and lists are put together."""
    whole = EMPTY_OVERLAY
    for extras in all_extras:
        whole = PodOverlay(
            {**whole.labels, **extras.labels},
            {**whole.first_labels, **extras.first_labels},
            {**whole.annotations, **extras.annotations},
            joined(whole.spec, extras.spec),
            joined(whole.defaults, extras.defaults),
            (*whole.variables, *extras.variables),
            (*whole.mounts, *extras.mounts),
        )
    return whole


def joined(fields: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    """*fields* with those *over* them; lists are put together."""
    return {**fields, **{name: _with(fields.get(name), value) for name, value in over.items()}}


def _with(before: Any, value: Any) -> Any:
    return [*before, *value] if isinstance(before, list) and isinstance(value, list) else value
