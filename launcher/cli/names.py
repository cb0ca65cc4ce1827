"""Names in arguments. Each is checked before it becomes part of a path, because an empty one selects every object."""

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

from launcher.cli.errors import UsageError
from launcher.core.validation.names import name_error, namespace_error

#: Kind, plural and group of every kind that may precede a name. A test compares them with the served job kinds, whose
#: import takes longer than most commands run.
KINDS = (
    ("Framework", "frameworks", "launcher.microsoft.com"),
    ("TFJob", "tfjobs", "kubeflow.org"),
    ("PyTorchJob", "pytorchjobs", "kubeflow.org"),
    ("MPIJob", "mpijobs", "kubeflow.org"),
    ("XGBoostJob", "xgboostjobs", "kubeflow.org"),
    ("JAXJob", "jaxjobs", "kubeflow.org"),
)

_MAX_SHOWN_CHARACTERS = 60


class ObjectReference(NamedTuple):
    """An object in an argument: ``mnist``, ``framework/mnist`` or ``tfjobs.kubeflow.org/mnist``."""

    name: str
    #: The kind before the name, as in ``TFJob``; None for a bare name.
    kind: str | None = None


def framework_name(text: str) -> str:
    """
    The name of a Framework, for argparse: alone, or after its kind, as ``-o name`` prints it. Raises UsageError.

    The kind may also be that of a job, whose Framework has the same name.
    """
    return reference(text).name


def reference(text: str) -> ObjectReference:
    """The kind and the name, for argparse. Raises UsageError."""
    prefix, slash, name = text.rpartition("/")
    kind = _kind(prefix, text) if slash else None
    return ObjectReference(_checked("NAME", name, name_error), kind)


def namespace_name(text: str) -> str:
    """The name of a namespace, for argparse. Raises UsageError."""
    return _checked("--namespace", text, namespace_error)


def container_name(text: str) -> str:
    """The name of a container, for argparse. Raises UsageError."""
    return _checked("--container", text, namespace_error)


def path_segment(name: str) -> str:
    """The name of an object, quoted for the path of a request. Raises UsageError."""
    return quote(_checked("name", name, name_error), safe="")


def namespace_segment(name: str) -> str:
    """The name of a namespace, quoted for the path of a request. Raises UsageError."""
    return quote(_checked("namespace", name, namespace_error), safe="")


def _checked(field: str, name: str, error_of: Callable[[str], str | None]) -> str:
    if not name:
        raise UsageError(f"{field}: must not be empty")
    if problem := error_of(name):
        raise UsageError(f"{field}: {_shortened(name)}: {problem}")
    return name


def _kind(prefix: str, text: str) -> str:
    """The kind that *prefix* names. Raises UsageError."""
    for kind, plural, group in KINDS:
        for word in (kind.lower(), plural):
            if prefix in (word, f"{word}.{group}"):
                return kind
    known = ", ".join(f"{kind.lower()}/NAME" for kind, _, _ in KINDS)
    raise UsageError(f"NAME: {_shortened(text)}: unknown kind {_shortened(prefix)}; use NAME or {known}")


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…")
