"""What the path of a request leads to, read as kube-apiserver reads it."""

from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from launcher.core.errors import BadRequest
from launcher.jobs.foreign import FOREIGN
from launcher.store.port import FRAMEWORKS, Kind

#: What is looked at on its way, by where it stands.
_LOOKED_AT = {
    (kind.group, kind.version, kind.plural): kind
    for kind in (FRAMEWORKS, *(kind for foreign in FOREIGN for kind in foreign.kinds))
}


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace, and an object in it; no name for all of its kind together."""

    namespace: str
    name: str | None = None
    kind: Kind = FRAMEWORKS


def place_of(path: str) -> Place | None:
    """The place of Frameworks or jobs at that *path*, as it was sent; None where something else stands, or a part."""
    # Unquoted before it is taken apart, as kube-apiserver does: what is the same to it has to be the same here.
    match unquote(path).strip("/").split("/"):
        case ["apis", group, version, "namespaces", namespace, plural, *name] if len(name) <= 1:
            kind = _LOOKED_AT.get((group, version, plural))
            return None if kind is None else Place(namespace, name[0] if name else None, kind)
        case _:
            return None


def check_path(request: web.BaseRequest) -> None:
    """Raise BadRequest for a path that climbs: where the API server has one of its own, it could lead out of it."""
    if not {".", ".."}.isdisjoint(unquote(request.rel_url.raw_path).split("/")):
        raise BadRequest("the path holds '.' or '..'; write it without")
