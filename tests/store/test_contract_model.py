"""Any sequence of calls leaves every store in the state of a simple model."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from launcher.core.errors import AlreadyExists, Conflict, NotFound
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, ChangeType, MergePatch, Object, Store
from launcher.store.selectors import parse
from tests.hypothesis_examples import examples
from tests.store.builders import NOW, a_framework, uids, version_of, with_, with_metadata

a_name = st.sampled_from(["a", "b", "c"])
a_namespace = st.sampled_from(["one", "two"])
some_labels = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]))
SELECTORS = ["", "x", "!x", "x=1", "x!=1", "x=1,y=2", "x in (1,2)", "y notin (1)", "x>1"]


class StoreMachine(RuleBasedStateMachine):
    """Objects with labels, a number as spec and a number as status."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model: dict[tuple[str, str], Object] = {}
        self.history: list[tuple[int, dict[tuple[str, str], Object]]] = []
        self.stale: dict[tuple[str, str], Object] = {}

    @initialize()
    def initialize_store(self) -> None:
        self.store = self.make_store()
        self.record_state()

    def make_store(self) -> Store:
        return MemoryStore(lambda: NOW, uids())

    def run(self, call: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(call, 20))

    def teardown(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def record_state(self) -> None:
        self.history.append((self.run(self.store.list(FRAMEWORKS)).version, dict(self.model)))

    def record_write(self, key: tuple[str, str], result: Object) -> None:
        before = self.model.get(key)
        if before is not None:
            self.stale[key] = before
            assert version_of(result) >= version_of(before)
        if before is None or with_metadata(before, resourceVersion="") != with_metadata(
            result, resourceVersion=""
        ):
            assert before is None or version_of(result) > version_of(before)
        else:
            assert result == before
        self.model[key] = result
        self.record_state()

    @rule(namespace=a_namespace, name=a_name, labels=some_labels, spec=st.integers(0, 2))
    def create(self, namespace: str, name: str, labels: dict[str, str], spec: int) -> None:
        new = with_(a_framework(name, namespace, labels=labels), spec=spec)
        if (namespace, name) in self.model:
            assert self.raises(AlreadyExists, self.store.create(FRAMEWORKS, new))
        else:
            self.record_write((namespace, name), self.run(self.store.create(FRAMEWORKS, new)))

    @rule(namespace=a_namespace, name=a_name, labels=some_labels, spec=st.integers(0, 2), stale=st.booleans())
    def update(self, namespace: str, name: str, labels: dict[str, str], spec: int, stale: bool) -> None:
        key = (namespace, name)
        current = (self.stale if stale else self.model).get(key)
        if current is None:
            return
        call = self.store.update(FRAMEWORKS, with_metadata(with_(current, spec=spec), labels=labels))
        if key not in self.model:
            assert self.raises(NotFound, call)
        elif current["metadata"]["resourceVersion"] != self.model[key]["metadata"]["resourceVersion"]:
            assert self.raises(Conflict, call)
        else:
            result = self.run(call)
            increase = 0 if spec == current["spec"] else 1
            assert result["metadata"]["generation"] == current["metadata"]["generation"] + increase
            assert result["spec"] == spec
            assert result["metadata"].get("labels", {}) == labels
            assert result.get("status") == current.get("status")
            self.record_write(key, result)

    @rule(namespace=a_namespace, name=a_name, status=st.none() | st.integers(0, 2))
    def update_status(self, namespace: str, name: str, status: int | None) -> None:
        if current := self.model.get((namespace, name)):
            result = self.run(
                self.store.update_status(FRAMEWORKS, with_(current, status=status, spec="ignored"))
            )
            assert result.get("status") == status
            assert result["spec"] == current["spec"]
            self.record_write((namespace, name), result)

    @rule(namespace=a_namespace, name=a_name, value=st.sampled_from([None, "1", "2"]))
    def patch(self, namespace: str, name: str, value: str | None) -> None:
        call = self.store.patch(
            FRAMEWORKS, namespace, name, MergePatch({"metadata": {"labels": {"x": value}}})
        )
        if (namespace, name) in self.model:
            result = self.run(call)
            assert result["metadata"].get("labels", {}).get("x") == value
            self.record_write((namespace, name), result)
        else:
            assert self.raises(NotFound, call)

    @rule(namespace=a_namespace, name=a_name)
    def delete(self, namespace: str, name: str) -> None:
        call = self.store.delete(FRAMEWORKS, namespace, name)
        if (namespace, name) in self.model:
            self.run(call)
            self.stale[namespace, name] = self.model.pop((namespace, name))
            self.record_state()
        else:
            assert self.raises(NotFound, call)

    def raises(self, error: type[Exception], call: Any) -> bool:
        try:
            self.run(call)
        except error:
            return True
        return False

    @invariant()
    def every_list_equals_the_model(self) -> None:
        for text in SELECTORS:
            selector = parse(text)
            for namespace in (None, "one"):
                expected = [
                    obj
                    for (namespace_of_object, _), obj in sorted(self.model.items())
                    if namespace in (None, namespace_of_object) and selector.matches(obj)
                ]
                assert self.run(self.store.list(FRAMEWORKS, namespace, selector)).items == expected

    @rule(data=st.data(), text=st.sampled_from(SELECTORS))
    def a_watch_from_any_version_results_in_the_current_state(self, data: st.DataObject, text: str) -> None:
        since, state = data.draw(st.sampled_from(self.history))
        selector = parse(text)
        initial = {key: obj for key, obj in state.items() if selector.matches(obj)}
        expected = {key: obj for key, obj in self.model.items() if selector.matches(obj)}
        self.run(self.replay(selector, since, initial, expected))

    async def replay(
        self, selector: Any, since: int, state: dict[Any, Object], expected: dict[Any, Object]
    ) -> None:
        now = (await self.store.list(FRAMEWORKS)).version
        watch = self.store.watch(FRAMEWORKS, selector=selector, since=since)
        while True:
            waiting = asyncio.ensure_future(anext(watch))
            # All changes are delivered without waiting: an empty queue after some turns of the loop stays empty.
            await asyncio.wait({waiting}, timeout=0)
            if not waiting.done():
                waiting.cancel()
                break
            change = waiting.result()
            assert since < change.version <= now
            since = change.version
            metadata = change.object["metadata"]
            key = (metadata["namespace"], metadata["name"])
            if change.type is ChangeType.DELETED:
                assert selector.matches(change.object)
                del state[key]
            else:
                assert (key in state) is (change.type is ChangeType.MODIFIED)
                state[key] = change.object
        assert state == expected


class SqliteMachine(StoreMachine):
    """The same with a SQLite file that is closed and reopened at any time."""

    def make_store(self) -> Store:
        self.directory = tempfile.TemporaryDirectory()
        self.new_uid = uids()
        return self.open_store()

    def open_store(self) -> SqliteStore:
        path = Path(self.directory.name) / "store.db"
        store: SqliteStore = self.run(SqliteStore.open(path, clock=lambda: NOW, new_uid=self.new_uid))
        return store

    @rule()
    def reopen(self) -> None:
        before = self.run(self.store.list(FRAMEWORKS)).version
        assert isinstance(self.store, SqliteStore)
        self.run(self.store.close())
        self.store = self.open_store()
        assert self.run(self.store.list(FRAMEWORKS)).version == before
        self.history.clear()  # the watch cache is empty again
        self.record_state()

    def teardown(self) -> None:
        assert isinstance(self.store, SqliteStore)
        self.run(self.store.close())
        super().teardown()
        self.directory.cleanup()


machine_settings = examples(30, stateful_step_count=30)
TestMemory = StoreMachine.TestCase
TestMemory.settings = machine_settings
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = machine_settings
