"""Paginated lists; all pages of a list show the same version."""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import orjson

from launcher.core.errors import BadRequest, Expired
from launcher.store.embedded.rows import Row
from launcher.store.interface import Key, Version
from launcher.store.selectors import Selector

#: Lists whose next pages can be requested; the oldest is evicted.
_MAX_CACHED_LISTS = 16
#: An unfinished list may be evicted after this time.
_CACHE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list selects."""

    resource: str
    namespace: str | None
    selector: Selector


@dataclass(frozen=True, slots=True)
class ListPage:
    """The rows of one page."""

    rows: list[Row]
    version: Version
    continue_token: str | None
    remaining: int


@dataclass(frozen=True, slots=True)
class _CachedList:
    rows: list[Row]
    created: float


class ListPager:
    """
    Returns lists page by page.

    The rows of an unfinished list are cached. Rows are immutable, so this costs a list of references and the old rows
    that were replaced since. A list is found by query and version, so equal lists share an entry. An evicted list is
    computed again if its version is still available.
    """

    def __init__(
        self, select: Callable[[ListQuery, Version], list[Row] | None], clock: Callable[[], float]
    ) -> None:
        """*select* returns all rows of a query at a version, or None if that is no longer available."""
        self._select = select
        self._clock = clock
        self._cached: dict[tuple[ListQuery, Version], _CachedList] = {}

    def page(self, query: ListQuery, now: Version, limit: int | None, continue_token: str | None) -> ListPage:
        """Returns the page for *continue_token*, or the first page at version *now*. Raises Expired, BadRequest."""
        version, after = (now, None) if continue_token is None else _decode_token(continue_token)
        if version is None:
            version = now
        rows = self._rows(query, version, after)
        first = 0 if after is None else bisect_right(rows, after, key=attrgetter("key"))
        if limit is None or limit <= 0 or first + limit >= len(rows):
            return ListPage(rows[first:], version, None, 0)
        page = rows[first : first + limit]
        self._cache(query, version, rows)
        return ListPage(page, version, _encode_token(version, page[-1].key), len(rows) - first - limit)

    def _rows(self, query: ListQuery, version: Version, after: Key | None) -> list[Row]:
        cached = self._cached.get((query, version))
        if cached is not None:
            return cached.rows
        rows = self._select(query, version)
        if rows is not None:
            return rows
        if after is None:
            raise Expired(f"version {version} is too old: its objects are no longer available")
        raise Expired(
            f"the list at version {version} has expired: start again, or continue with the returned token,"
            " in which case objects changed since may be missing or repeated",
            token=_encode_token(None, after),
        )

    def _cache(self, query: ListQuery, version: Version, rows: list[Row]) -> None:
        now = self._clock()
        self._cached.pop((query, version), None)
        self._cached[query, version] = _CachedList(rows, now)
        for key in [key for key, cached in self._cached.items() if cached.created < now - _CACHE_SECONDS]:
            del self._cached[key]
        if len(self._cached) > _MAX_CACHED_LISTS:
            del self._cached[next(iter(self._cached))]


def _encode_token(version: Version | None, after: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([version, *after])).decode()


def _decode_token(continue_token: str) -> tuple[Version | None, Key]:
    """Returns the version (None: any) and the last key before the page."""
    try:
        match orjson.loads(base64.b64decode(continue_token, altchars=b"-_", validate=True)):
            case [int() | None as version, str(namespace), str(name)] if not isinstance(version, bool):
                return version, (namespace, name)
            case _:
                raise BadRequest(_INVALID_CONTINUE)
    except (binascii.Error, ValueError):
        raise BadRequest(_INVALID_CONTINUE) from None


_INVALID_CONTINUE = "invalid continue token"
