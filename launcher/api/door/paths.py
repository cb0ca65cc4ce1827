"""What the path of a request leads to, read as kube-apiserver reads it."""

from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from launcher.core.errors import BadRequest
from launcher.store.port import FRAMEWORKS

_HEAD = ["apis", FRAMEWORKS.group, FRAMEWORKS.version, "namespaces"]


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace, and a Framework in it; no name for all of them together."""

    namespace: str
    name: str | None = None


def place_of(path: str) -> Place | None:
    """The place of Frameworks at that *path*, as it was sent; None where something else stands, or a part of one."""
    # Unquoted before it is taken apart, as kube-apiserver does: what is the same to it has to be the same here.
    match unquote(path).strip("/").split("/"):
        case [*head, namespace, FRAMEWORKS.plural] if head == _HEAD:
            return Place(namespace)
        case [*head, namespace, FRAMEWORKS.plural, name] if head == _HEAD:
            return Place(namespace, name)
        case _:
            return None


def check_path(request: web.BaseRequest) -> None:
    """Raise BadRequest for a path that climbs: where the API server has one of its own, it could lead out of it."""
    if not {".", ".."}.isdisjoint(unquote(request.rel_url.raw_path).split("/")):
        raise BadRequest("the path holds '.' or '..'; write it without")
