"""Lists in pages, all pages of one list at one version."""

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

#: Lists whose further pages may still be asked for; the oldest makes room.
_MOST_LISTS = 16
#: A list that nobody has gone on with for so many seconds may be forgotten.
_KEPT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list is of."""

    resource: str
    namespace: str | None
    where: Selector


@dataclass(frozen=True, slots=True)
class ListPage:
    """The rows of one page."""

    rows: list[Row]
    version: Version
    token: str | None
    remaining: int


@dataclass(frozen=True, slots=True)
class _Kept:
    rows: list[Row]
    at: float


class ListPager:
    """
    Answers questions page by page.

    The rows of a list that goes on are kept. Rows never change, so that costs a list of references, and old rows
    only as far as they have been replaced since. A list is found again by its question and version, and so are two
    equal lists the same. One that is not kept any more is made anew, as long as its version is known.
    """

    def __init__(
        self, select: Callable[[ListQuery, Version], list[Row] | None], clock: Callable[[], float]
    ) -> None:
        """*select* gives all rows that answer a question, as they were at a version; None when that is not known."""
        self._select = select
        self._clock = clock
        self._kept: dict[tuple[ListQuery, Version], _Kept] = {}

    def part(self, question: ListQuery, now: Version, limit: int | None, token: str | None) -> ListPage:
        """The page that *token* asks for; without one the first, as of *now*. Raises Expired, BadRequest."""
        version, after = (now, None) if token is None else _read(token)
        if version is None:
            version = now
        rows = self._rows(question, version, after)
        first = 0 if after is None else bisect_right(rows, after, key=attrgetter("key"))
        if limit is None or limit <= 0 or first + limit >= len(rows):
            return ListPage(rows[first:], version, None, 0)
        page = rows[first : first + limit]
        self._keep(question, version, rows)
        return ListPage(page, version, _written(version, page[-1].key), len(rows) - first - limit)

    def _rows(self, question: ListQuery, version: Version, after: Key | None) -> list[Row]:
        kept = self._kept.get((question, version))
        if kept is not None:
            return kept.rows
        rows = self._select(question, version)
        if rows is not None:
            return rows
        if after is None:
            raise Expired(f"version {version} is too old: what was there then is no longer known")
        raise Expired(
            f"the list at version {version} is no longer known: begin anew, or go on with the token that comes along,"
            " then what has changed since may be missing or double",
            token=_written(None, after),
        )

    def _keep(self, question: ListQuery, version: Version, rows: list[Row]) -> None:
        now = self._clock()
        self._kept.pop((question, version), None)
        self._kept[question, version] = _Kept(rows, now)
        for key in [key for key, kept in self._kept.items() if kept.at < now - _KEPT_SECONDS]:
            del self._kept[key]
        if len(self._kept) > _MOST_LISTS:
            del self._kept[next(iter(self._kept))]


def _written(version: Version | None, after: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([version, *after])).decode()


def _read(token: str) -> tuple[Version | None, Key]:
    """The version, None for whichever there is, and the last key before the page."""
    try:
        match orjson.loads(base64.b64decode(token, altchars=b"-_", validate=True)):
            case [int() | None as version, str(namespace), str(name)] if not isinstance(version, bool):
                return version, (namespace, name)
            case _:
                raise BadRequest(_NOT_OURS)
    except (binascii.Error, ValueError):
        raise BadRequest(_NOT_OURS) from None


_NOT_OURS = "the token to go on with a list is none that this store has given"
