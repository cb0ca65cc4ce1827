"""Names that users write: each is checked before any request is made of it, because an empty one means every object."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from launcher.cli.errors import UsageError
from launcher.core.names import API_VERSION, KIND
from launcher.core.validation.names import name_fault, namespace_fault

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Reference:
    """An object as users write it: ``mnist``, ``framework/mnist`` or ``tfjobs.kubeflow.org/mnist``."""

    name: str
    #: The kind that stands before the name, as in ``TFJob``; None for a bare name.
    kind: str | None = None


def framework_name(text: str) -> str:
    """
    The name of a Framework, for argparse: alone, or after its kind, as ``-o name`` prints it. Raises UsageError.

    The kind may also be that of a job, whose Framework has the same name.
    """
    return reference(text).name


def reference(text: str) -> Reference:
    """The kind and the name, for argparse. Raises UsageError."""
    prefix, slash, name = text.rpartition("/")
    kind = _kind(prefix, text) if slash else None
    return Reference(_checked("NAME", name, name_fault), kind)


def namespace_name(text: str) -> str:
    """The name of a namespace, for argparse. Raises UsageError."""
    return _checked("--namespace", text, namespace_fault)


def container_name(text: str) -> str:
    """The name of a container, for argparse. Raises UsageError."""
    return _checked("--container", text, namespace_fault)


def path_segment(name: str) -> str:
    """The name of an object as it stands in the path of a request. Raises UsageError."""
    return quote(_checked("name", name, name_fault), safe="")


def namespace_segment(name: str) -> str:
    """The name of a namespace as it stands in the path of a request. Raises UsageError."""
    return quote(_checked("namespace", name, namespace_fault), safe="")


def _checked(field: str, name: str, fault: Callable[[str], str | None]) -> str:
    if not name:
        raise UsageError(f"{field}: is empty; write a name")
    if problem := fault(name):
        raise UsageError(f"{field}: {_shown(name)}: {problem}")
    return name


def _kind(prefix: str, text: str) -> str:
    """The kind that *prefix* names. Raises UsageError."""
    # Slow to import, and most names are written without a kind.
    from launcher.job_kinds.job_kind import FOREIGN

    resources = [(KIND, f"{KIND.lower()}s", API_VERSION.partition("/")[0])]
    resources += [(each.kind.kind, each.plural, each.kind.group) for each in FOREIGN]
    for kind, plural, group in resources:
        for word in (kind.lower(), plural):
            if prefix in (word, f"{word}.{group}"):
                return kind
    known = ", ".join(f"{kind.lower()}/NAME" for kind, _, _ in resources)
    raise UsageError(
        f"NAME: {_shown(text)}: {_shown(prefix)} is no kind of the launcher; write NAME, or {known}"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
