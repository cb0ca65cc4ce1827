"""Warnings: reported to a client whose request was accepted."""

from collections.abc import Iterable, Iterator

from launcher.core.json_access import as_list
from launcher.store.interface import Object

#: The limit of all texts together; if it is exceeded, each text is truncated.
MAX_WARNING_CHARACTERS = 4096
_TRUNCATED_CHARACTERS = 256


def warning_headers(texts: Iterable[str]) -> list[str]:
    """Returns the values of the Warning headers, without duplicates and within the limit."""
    return [f'299 - "{_quoted(text)}"' for text in truncate_warnings(texts)]


def truncate_warnings(texts: Iterable[str]) -> list[str]:
    """Returns the texts without duplicates, together within the limit."""
    clean = list(dict.fromkeys(_printable(text) for text in texts))
    if sum(map(len, clean)) > MAX_WARNING_CHARACTERS:
        clean = [text[:_TRUNCATED_CHARACTERS] for text in clean]
    remaining = MAX_WARNING_CHARACTERS
    result = []
    for text in clean:
        remaining -= len(text)
        if remaining < 0:
            break
        result.append(text)
    return result


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text).encode("utf-8", "replace").decode()


def metadata_warnings(obj: Object) -> Iterator[str]:
    """Yields a warning for each valid but unusual value in the metadata of *obj*, which may have any shape."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return
    for finalizer in as_list(metadata.get("finalizers")):
        if isinstance(finalizer, str) and "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            yield (
                f'metadata.finalizers: "{finalizer}": prefer a domain-qualified finalizer name, such as '
                f"example.com/{finalizer}, including a path, to avoid confusion with others"
            )
    owners = as_list(metadata.get("ownerReferences"))
    if any(owner in owners[:index] for index, owner in enumerate(owners)):
        yield "metadata.ownerReferences: duplicate owner reference ignored"


_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion")
