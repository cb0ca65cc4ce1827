"""Warnings: what was accepted and yet should be known."""

from collections.abc import Iterable, Iterator

from launcher.core.validation.pod_template import as_list
from launcher.store.interface import Object

#: Of all texts together; beyond that each is cut.
MOST_TEXT = 4096
_CUT = 256


def warning_headers(texts: Iterable[str]) -> list[str]:
    """The value of each Warning header, no text twice, all of them together within the limit."""
    return [f'299 - "{_quoted(text)}"' for text in shortened(texts)]


def shortened(texts: Iterable[str]) -> list[str]:
    """The texts as they may be told, none twice, all of them together within the limit."""
    clean = list(dict.fromkeys(_printable(text) for text in texts))
    if sum(map(len, clean)) > MOST_TEXT:
        clean = [text[:_CUT] for text in clean]
    room = MOST_TEXT
    fitting = []
    for text in clean:
        room -= len(text)
        if room < 0:
            break
        fitting.append(text)
    return fitting


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text).encode("utf-8", "replace").decode()


def metadata_warnings(obj: Object) -> Iterator[str]:
    """What is legal in the metadata of *obj*, which may have any shape, but hardly meant."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return
    for finalizer in as_list(metadata.get("finalizers")):
        if isinstance(finalizer, str) and "/" not in finalizer and finalizer not in _COLLECTORS:
            yield (
                f'metadata.finalizers: "{finalizer}": prefer a domain-qualified finalizer name, such as '
                f"example.com/{finalizer}, including a path, to avoid confusion with others"
            )
    owners = as_list(metadata.get("ownerReferences"))
    if any(owner in owners[:index] for index, owner in enumerate(owners)):
        yield "metadata.ownerReferences: the same owner stands there twice; it is kept once"


_COLLECTORS = ("orphan", "foregroundDeletion")
