"""All objects as they are now, found by name, by namespace and by label."""

from collections.abc import Iterable, Iterator

from launcher.store.embedded.rows import Row
from launcher.store.interface import Key
from launcher.store.selectors import Selector

#: Label keys that have an index at one time, for each kind; the one asked for longest ago makes room.
_MOST_INDEXES = 16


class Table:
    """The rows of all kinds."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}

    def get(self, resource: str, key: Key) -> Row | None:
        shelf = self._shelves.get(resource)
        return shelf.get(key) if shelf is not None else None

    def put(self, row: Row) -> None:
        """The row in the place of the one with its key, if there is one."""
        shelf = self._shelves.get(row.resource)
        if shelf is None:
            shelf = self._shelves[row.resource] = _Shelf()
        shelf.put(row)

    def remove(self, row: Row) -> None:
        self._shelves[row.resource].remove(row.key)

    def namespaces(self) -> set[str]:
        """Those that hold anything."""
        return {space for shelf in self._shelves.values() for space in shelf.spaces() if space}

    def select(self, resource: str, namespace: str | None, where: Selector) -> list[Row]:
        """Everything that matches, by namespace and name."""
        shelf = self._shelves.get(resource)
        return shelf.select(namespace, where) if shelf is not None else []


class _Shelf:
    """The rows of one kind."""

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, Row]] = {}
        # Label key -> value -> the keys of the rows. Made when first asked for: nobody selects by most labels.
        self._indexes: dict[str, dict[str, set[Key]]] = {}

    def spaces(self) -> Iterable[str]:
        return self._spaces

    def get(self, key: Key) -> Row | None:
        space = self._spaces.get(key[0])
        return space.get(key[1]) if space is not None else None

    def put(self, row: Row) -> None:
        namespace, name = row.key
        space = self._spaces.setdefault(namespace, {})
        before = space.get(name)
        space[name] = row
        if before is None:
            self._note(row)
        elif before.labels is not row.labels:
            self._forget(before)
            self._note(row)

    def remove(self, key: Key) -> None:
        namespace, name = key
        self._forget(self._spaces[namespace].pop(name))
        if not self._spaces[namespace]:
            del self._spaces[namespace]

    def _note(self, row: Row) -> None:
        for label, index in self._indexes.items():
            if label in row.labels:
                index.setdefault(row.labels[label], set()).add(row.key)

    def _forget(self, row: Row) -> None:
        for label, index in self._indexes.items():
            if label in row.labels:
                keys = index[row.labels[label]]
                keys.discard(row.key)
                if not keys:
                    del index[row.labels[label]]

    def select(self, namespace: str | None, where: Selector) -> list[Row]:
        rows = [row for row in self._candidates(namespace, where) if where.matches_labels(row.labels)]
        if where.fields:
            return [row for row in rows if where.matches_fields(row.object())]
        return rows

    def _candidates(self, namespace: str | None, where: Selector) -> Iterable[Row]:
        """In order, all rows that may match, and as few others as can be."""
        keys = self._labelled(where)
        if (name := where.name()) is not None:
            named = {(space, name) for space in self._spaces if name in self._spaces[space]}
            keys = named if keys is None else keys & named
        if keys is None:
            return self._all(namespace)
        return [self._spaces[space][name] for space, name in sorted(keys) if namespace in (None, space)]

    def _all(self, namespace: str | None) -> Iterator[Row]:
        for space in sorted(self._spaces) if namespace is None else (namespace,):
            rows = self._spaces.get(space, {})
            yield from (rows[name] for name in sorted(rows))

    def _labelled(self, where: Selector) -> set[Key] | None:
        """The keys of those that carry the rarest of the labels asked for; None when none is."""
        found = [self._index(label).get(value, set()) for label, value in where.label_values()]
        return min(found, key=len, default=None)

    def _index(self, label: str) -> dict[str, set[Key]]:
        index = self._indexes.pop(label, None)
        if index is None:
            index = {}
            for rows in self._spaces.values():
                for row in rows.values():
                    if label in row.labels:
                        index.setdefault(row.labels[label], set()).add(row.key)
        self._indexes[label] = index  # now the last in order
        if len(self._indexes) > _MOST_INDEXES:
            del self._indexes[next(iter(self._indexes))]
        return index
