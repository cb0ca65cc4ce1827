"""Who is where: for every selection of pods that some pod asks about, how many of them each node has."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from launcher.scheduling.affinity import PodTerm, Selection
from launcher.store.interface import Key

Counts = Mapping[str, int]
Label = tuple[str, str]


class Crowd:
    """The pods of one selection, and those that want to be apart from them."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        #: How many pods ask about it.
        self.asked = 0
        #: Node -> how many of the selected pods are there.
        self.here: dict[str, int] = {}
        #: Topology -> node -> how many pods are there that must not be in one place with a selected one.
        self.shunned: dict[str, dict[str, int]] = {}


class AffinityCounts:
    """
    Every selection asked about, counted.

    A pod that comes or goes is compared only with the selections that its labels lead to, and a new selection only
    with the pods that its label leads to.
    """

    def __init__(self) -> None:
        self._crowds: dict[Selection, Crowd] = {}
        self._by_label: dict[Label, dict[Selection, Crowd]] = {}
        self._unlabelled: dict[Selection, Crowd] = {}
        #: Every pod on a node; and by label, for the label keys that selections use.
        self._pods: dict[Key, tuple[Mapping[str, str], str]] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {}

    def __bool__(self) -> bool:
        """Whether anybody asks about anybody."""
        return bool(self._crowds)

    def ask(self, terms: Iterable[PodTerm]) -> None:
        """Count the pods of these terms until ``forget``."""
        for term in terms:
            crowd = self._crowds.get(term.selection)
            if crowd is None:
                crowd = self._begin(term.selection)
            crowd.asked += 1

    def forget(self, terms: Iterable[PodTerm]) -> None:
        for term in terms:
            crowd = self._crowds[term.selection]
            crowd.asked -= 1
            if not crowd.asked:
                self._end(term.selection)

    def here(self, selection: Selection) -> Counts:
        """Node -> how many pods of a selection that was asked about; nodes without any are left out."""
        return self._crowds[selection].here

    def shunning(self, namespace: str, labels: Mapping[str, str]) -> Iterator[tuple[str, Counts]]:
        """Topologies, and the nodes with pods that must not be in one place with a pod of these labels."""
        for crowd in self._of(namespace, labels):
            yield from crowd.shunned.items()

    def join(self, key: Key, labels: Mapping[str, str], node: str, apart: Sequence[PodTerm]) -> None:
        """The pod is on that node, and wants to be *apart*."""
        self.ask(apart)
        self._pods[key] = labels, node
        for label, index in self._indexes.items():
            if label in labels:
                index.setdefault(labels[label], {})[key] = None
        for crowd in self._of(key[0], labels):
            crowd.here[node] = crowd.here.get(node, 0) + 1
        for term in apart:
            shunned = self._crowds[term.selection].shunned.setdefault(term.topology, {})
            shunned[node] = shunned.get(node, 0) + 1

    def leave(self, key: Key, labels: Mapping[str, str], node: str, apart: Sequence[PodTerm]) -> None:
        """The opposite of ``join``, with the same arguments."""
        del self._pods[key]
        for label, index in self._indexes.items():
            if label in labels:
                del index[labels[label]][key]
                if not index[labels[label]]:
                    del index[labels[label]]
        for crowd in self._of(key[0], labels):
            _less(crowd.here, node)
        for term in apart:
            _less(self._crowds[term.selection].shunned[term.topology], node)
        self.forget(apart)

    def _of(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Crowd]:
        """The crowds that a pod with these labels belongs to."""
        if not self._crowds:
            return
        for label in labels.items():
            for selection, crowd in self._by_label.get(label, {}).items():
                if selection.holds(namespace, labels):
                    yield crowd
        for selection, crowd in self._unlabelled.items():
            if selection.holds(namespace, labels):
                yield crowd

    def _begin(self, selection: Selection) -> Crowd:
        crowd = self._crowds[selection] = Crowd(selection)
        label = selection.label()
        if label is None:
            self._unlabelled[selection] = crowd
            candidates: Iterable[Key] = self._pods
        else:
            self._by_label.setdefault(label, {})[selection] = crowd
            candidates = self._index(label[0]).get(label[1], ())
        for key in candidates:
            labels, node = self._pods[key]
            if selection.holds(key[0], labels):
                crowd.here[node] = crowd.here.get(node, 0) + 1
        return crowd

    def _end(self, selection: Selection) -> None:
        del self._crowds[selection]
        if not self._crowds:
            self._indexes.clear()
        label = selection.label()
        if label is None:
            del self._unlabelled[selection]
            return
        del self._by_label[label][selection]
        if not self._by_label[label]:
            del self._by_label[label]

    def _index(self, key: str) -> Mapping[str, Mapping[Key, None]]:
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = {}
            for pod, (labels, _) in self._pods.items():
                if key in labels:
                    index.setdefault(labels[key], {})[pod] = None
        return index


def _less(counts: dict[str, int], node: str) -> None:
    counts[node] -= 1
    if not counts[node]:
        del counts[node]
