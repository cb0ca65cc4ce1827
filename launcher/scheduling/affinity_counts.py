"""Number of pods per node for each pod selector in use."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from launcher.scheduling.affinity import PodSelector, PodTerm
from launcher.store.interface import Key

NodeCounts = Mapping[str, int]
Label = tuple[str, str]


class SelectorCounts:
    """Pods that match one selector, and pods with anti-affinity to them."""

    def __init__(self, selector: PodSelector) -> None:
        self.selector = selector
        #: Number of terms that use this selector.
        self.references = 0
        #: Node -> number of matching pods.
        self.matching: dict[str, int] = {}
        #: Topology key -> node -> number of pods whose anti-affinity excludes matching pods.
        self.anti_affinity_nodes: dict[str, dict[str, int]] = {}


class AffinityCounts:
    """
    Counts for every tracked selector.

    Indexes by label keep updates cheap: a pod is compared only with selectors that its labels lead to, and a new
    selector only with pods that have its label.
    """

    def __init__(self) -> None:
        self._counts: dict[PodSelector, SelectorCounts] = {}
        self._by_label: dict[Label, dict[PodSelector, SelectorCounts]] = {}
        self._unlabelled: dict[PodSelector, SelectorCounts] = {}
        #: All pods with a node; and an index of them by label, for label keys that selectors use.
        self._pods: dict[Key, tuple[Mapping[str, str], str]] = {}
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {}

    def __bool__(self) -> bool:
        """Whether any selector is tracked."""
        return bool(self._counts)

    def track(self, terms: Iterable[PodTerm]) -> None:
        """Counts the pods of these terms until ``untrack``."""
        for term in terms:
            counts = self._counts.get(term.selector)
            if counts is None:
                counts = self._start_counting(term.selector)
            counts.references += 1

    def untrack(self, terms: Iterable[PodTerm]) -> None:
        for term in terms:
            counts = self._counts[term.selector]
            counts.references -= 1
            if not counts.references:
                self._stop_counting(term.selector)

    def matching(self, selector: PodSelector) -> NodeCounts:
        """Returns node -> number of matching pods, for a tracked selector. Nodes without matching pods are omitted."""
        return self._counts[selector].matching

    def existing_anti_affinity(
        self, namespace: str, labels: Mapping[str, str]
    ) -> Iterator[tuple[str, NodeCounts]]:
        """Yields topology keys, and nodes with pods whose anti-affinity excludes a pod with these labels."""
        for counts in self._counts_matching(namespace, labels):
            yield from counts.anti_affinity_nodes.items()

    def add_pod(
        self, key: Key, labels: Mapping[str, str], node: str, anti_affinity: Sequence[PodTerm]
    ) -> None:
        """Adds a pod that runs on *node* and has these anti-affinity terms."""
        self.track(anti_affinity)
        self._pods[key] = labels, node
        for label, index in self._indexes.items():
            if label in labels:
                index.setdefault(labels[label], {})[key] = None
        for counts in self._counts_matching(key[0], labels):
            counts.matching[node] = counts.matching.get(node, 0) + 1
        for term in anti_affinity:
            anti_affinity_nodes = self._counts[term.selector].anti_affinity_nodes.setdefault(
                term.topology_key, {}
            )
            anti_affinity_nodes[node] = anti_affinity_nodes.get(node, 0) + 1

    def remove_pod(
        self, key: Key, labels: Mapping[str, str], node: str, anti_affinity: Sequence[PodTerm]
    ) -> None:
        """Reverts ``add_pod``; takes the same arguments."""
        del self._pods[key]
        for label, index in self._indexes.items():
            if label in labels:
                del index[labels[label]][key]
                if not index[labels[label]]:
                    del index[labels[label]]
        for counts in self._counts_matching(key[0], labels):
            _decrement(counts.matching, node)
        for term in anti_affinity:
            _decrement(self._counts[term.selector].anti_affinity_nodes[term.topology_key], node)
        self.untrack(anti_affinity)

    def _counts_matching(self, namespace: str, labels: Mapping[str, str]) -> Iterator[SelectorCounts]:
        """Yields the counts of all selectors that match such a pod."""
        if not self._counts:
            return
        for label in labels.items():
            for selector, counts in self._by_label.get(label, {}).items():
                if selector.matches(namespace, labels):
                    yield counts
        for selector, counts in self._unlabelled.items():
            if selector.matches(namespace, labels):
                yield counts

    def _start_counting(self, selector: PodSelector) -> SelectorCounts:
        counts = self._counts[selector] = SelectorCounts(selector)
        label = selector.exact_label()
        if label is None:
            self._unlabelled[selector] = counts
            candidates: Iterable[Key] = self._pods
        else:
            self._by_label.setdefault(label, {})[selector] = counts
            candidates = self._index(label[0]).get(label[1], ())
        for key in candidates:
            labels, node = self._pods[key]
            if selector.matches(key[0], labels):
                counts.matching[node] = counts.matching.get(node, 0) + 1
        return counts

    def _stop_counting(self, selector: PodSelector) -> None:
        del self._counts[selector]
        if not self._counts:
            self._indexes.clear()
        label = selector.exact_label()
        if label is None:
            del self._unlabelled[selector]
            return
        del self._by_label[label][selector]
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


def _decrement(counts: dict[str, int], node: str) -> None:
    counts[node] -= 1
    if not counts[node]:
        del counts[node]
