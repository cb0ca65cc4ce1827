"""Current objects, indexed by name, namespace and label."""

from collections.abc import Iterable, Iterator

from launcher.store.embedded.rows import Row
from launcher.store.interface import Key
from launcher.store.selectors import Selector

#: Label indexes per kind; the least recently used one is evicted.
_MAX_INDEXES = 16


class Table:
    """The rows of all kinds."""

    def __init__(self) -> None:
        self._kinds: dict[str, _KindTable] = {}

    def get(self, resource: str, key: Key) -> Row | None:
        kind_table = self._kinds.get(resource)
        return kind_table.get(key) if kind_table is not None else None

    def put(self, row: Row) -> None:
        """Adds the row, or replaces the one with its key."""
        kind_table = self._kinds.get(row.resource)
        if kind_table is None:
            kind_table = self._kinds[row.resource] = _KindTable()
        kind_table.put(row)

    def remove(self, row: Row) -> None:
        self._kinds[row.resource].remove(row.key)

    def namespaces(self) -> set[str]:
        """Returns the namespaces that contain rows."""
        return {
            namespace
            for kind_table in self._kinds.values()
            for namespace in kind_table.namespaces()
            if namespace
        }

    def select(self, resource: str, namespace: str | None, selector: Selector) -> list[Row]:
        """Returns all matching rows, by namespace and name."""
        kind_table = self._kinds.get(resource)
        return kind_table.select(namespace, selector) if kind_table is not None else []


class _KindTable:
    """The rows of one kind."""

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, Row]] = {}
        # Label key -> value -> keys of rows. Built on first use, because most labels are never selected.
        self._indexes: dict[str, dict[str, set[Key]]] = {}

    def namespaces(self) -> Iterable[str]:
        return self._namespaces

    def get(self, key: Key) -> Row | None:
        namespace_rows = self._namespaces.get(key[0])
        return namespace_rows.get(key[1]) if namespace_rows is not None else None

    def put(self, row: Row) -> None:
        namespace, name = row.key
        namespace_rows = self._namespaces.setdefault(namespace, {})
        before = namespace_rows.get(name)
        namespace_rows[name] = row
        if before is None:
            self._index_row(row)
        elif before.labels is not row.labels:
            self._unindex_row(before)
            self._index_row(row)

    def remove(self, key: Key) -> None:
        namespace, name = key
        self._unindex_row(self._namespaces[namespace].pop(name))
        if not self._namespaces[namespace]:
            del self._namespaces[namespace]

    def _index_row(self, row: Row) -> None:
        for label, index in self._indexes.items():
            if label in row.labels:
                index.setdefault(row.labels[label], set()).add(row.key)

    def _unindex_row(self, row: Row) -> None:
        for label, index in self._indexes.items():
            if label in row.labels:
                keys = index[row.labels[label]]
                keys.discard(row.key)
                if not keys:
                    del index[row.labels[label]]

    def select(self, namespace: str | None, selector: Selector) -> list[Row]:
        rows = [row for row in self._candidates(namespace, selector) if selector.matches_labels(row.labels)]
        if selector.names is not None:
            rows = [row for row in rows if selector.names.matches(row.key)]
        if selector.fields:
            return [row for row in rows if selector.matches_fields(row.object())]
        return rows

    def _candidates(self, namespace: str | None, selector: Selector) -> Iterable[Row]:
        """Returns in order all rows that may match, and few others."""
        keys = self._keys_by_label(selector)
        if (name := selector.name()) is not None:
            named = {
                (candidate, name) for candidate in self._namespaces if name in self._namespaces[candidate]
            }
            keys = named if keys is None else keys & named
        if keys is None:
            return self._all(namespace)
        return [
            self._namespaces[candidate][name]
            for candidate, name in sorted(keys)
            if namespace in (None, candidate)
        ]

    def _all(self, namespace: str | None) -> Iterator[Row]:
        for candidate in sorted(self._namespaces) if namespace is None else (namespace,):
            rows = self._namespaces.get(candidate, {})
            yield from (rows[name] for name in sorted(rows))

    def _keys_by_label(self, selector: Selector) -> set[Key] | None:
        """Returns the keys with the rarest of the selected labels; None if no label is selected."""
        key_sets = [self._index(label).get(value, set()) for label, value in selector.label_values()]
        return min(key_sets, key=len, default=None)

    def _index(self, label: str) -> dict[str, set[Key]]:
        index = self._indexes.pop(label, None)
        if index is None:
            index = {}
            for rows in self._namespaces.values():
                for row in rows.values():
                    if label in row.labels:
                        index.setdefault(row.labels[label], set()).add(row.key)
        self._indexes[label] = index  # most recently used
        if len(self._indexes) > _MAX_INDEXES:
            del self._indexes[next(iter(self._indexes))]
        return index
