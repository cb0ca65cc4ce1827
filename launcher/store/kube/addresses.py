"""Where objects stand in the API of a cluster, and selectors as a cluster reads them."""

from functools import lru_cache
from urllib.parse import quote

from launcher.core.checking.syntax import name_fault, namespace_fault
from launcher.core.errors import NotFound
from launcher.store.port import Kind
from launcher.store.selectors import FieldRequirement, LabelRequirement, Operator, Where


@lru_cache(maxsize=4096)
def collection(kind: Kind, namespace: str | None) -> str:
    """The path of all objects of a kind, or of those in one namespace."""
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if not kind.namespaced or namespace is None:
        return f"{base}/{kind.plural}"
    return f"{base}/namespaces/{quote(namespace, safe='')}/{kind.plural}"


def item(kind: Kind, namespace: str, name: str, subresource: str | None = None) -> str:
    """The path of one object. Raises NotFound when there can be none of that name."""
    # Also keeps out names that would lead elsewhere, such as "..".
    if name_fault(name) or (kind.namespaced and namespace_fault(namespace)):
        raise NotFound(f'{kind.resource} "{name}" not found')
    path = f"{collection(kind, namespace)}/{name}"
    return f"{path}/{subresource}" if subresource else path


def selectors(where: Where) -> dict[str, str]:
    """The query that selects what *where* says."""
    query = {}
    if where.labels:
        query["labelSelector"] = ",".join(map(_label, where.labels))
    if where.fields:
        query["fieldSelector"] = ",".join(map(_field, where.fields))
    return query


def _label(requirement: LabelRequirement) -> str:
    key, values = requirement.key, ",".join(sorted(requirement.values))
    match requirement.operator:
        case Operator.EXISTS:
            return key
        case Operator.ABSENT:
            return f"!{key}"
        case Operator.GREATER | Operator.LESS:
            return f"{key}{requirement.operator}{values}"
        case Operator.IN | Operator.NOT_IN:
            return f"{key} {requirement.operator} ({values})"


def _field(requirement: FieldRequirement) -> str:
    value = requirement.value.replace("\\", r"\\").replace(",", r"\,").replace("=", r"\=")
    return f"{requirement.path}{'=' if requirement.equal else '!='}{value}"
