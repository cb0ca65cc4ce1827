"""Any sequence of calls leaves every store in the state of the simplest model there is."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from launcher.core.errors import AlreadyExists, Conflict, NotFound
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import FRAMEWORKS, ChangeType, MergePatch, Object, Store
from launcher.store.selectors import parse
from tests.store.builders import NOW, a_framework, uids, version_of, with_, with_metadata

a_name = st.sampled_from(["a", "b", "c"])
a_namespace = st.sampled_from(["one", "two"])
some_labels = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]))
SELECTORS = ["", "x", "!x", "x=1", "x!=1", "x=1,y=2", "x in (1,2)", "y notin (1)", "x>1"]


class StoreMachine(RuleBasedStateMachine):
    """One object per name, with labels, a number for a spec and one for a status."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model: dict[tuple[str, str], Object] = {}
        self.past: list[tuple[int, dict[tuple[str, str], Object]]] = []
        self.stale: dict[tuple[str, str], Object] = {}

    @initialize()
    def begin(self) -> None:
        self.store = self.made()
        self.remember()

    def made(self) -> Store:
        return MemoryStore(lambda: NOW, uids())

    def run(self, call: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(call, 20))

    def teardown(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def remember(self) -> None:
        self.past.append((self.run(self.store.list(FRAMEWORKS)).version, dict(self.model)))

    def took(self, key: tuple[str, str], answer: Object) -> None:
        before = self.model.get(key)
        if before is not None:
            self.stale[key] = before
            assert version_of(answer) >= version_of(before)
        if before is None or with_metadata(before, resourceVersion="") != with_metadata(
            answer, resourceVersion=""
        ):
            assert before is None or version_of(answer) > version_of(before)
        else:
            assert answer == before
        self.model[key] = answer
        self.remember()

    @rule(namespace=a_namespace, name=a_name, labels=some_labels, spec=st.integers(0, 2))
    def create(self, namespace: str, name: str, labels: dict[str, str], spec: int) -> None:
        new = with_(a_framework(name, namespace, labels=labels), spec=spec)
        if (namespace, name) in self.model:
            assert self.raises(AlreadyExists, self.store.create(FRAMEWORKS, new))
        else:
            self.took((namespace, name), self.run(self.store.create(FRAMEWORKS, new)))

    @rule(namespace=a_namespace, name=a_name, labels=some_labels, spec=st.integers(0, 2), stale=st.booleans())
    def update(self, namespace: str, name: str, labels: dict[str, str], spec: int, stale: bool) -> None:
        key = (namespace, name)
        known = (self.stale if stale else self.model).get(key)
        if known is None:
            return
        call = self.store.update(FRAMEWORKS, with_metadata(with_(known, spec=spec), labels=labels))
        if key not in self.model:
            assert self.raises(NotFound, call)
        elif known["metadata"]["resourceVersion"] != self.model[key]["metadata"]["resourceVersion"]:
            assert self.raises(Conflict, call)
        else:
            answer = self.run(call)
            grown = 0 if spec == known["spec"] else 1
            assert answer["metadata"]["generation"] == known["metadata"]["generation"] + grown
            assert answer["spec"] == spec
            assert answer["metadata"].get("labels", {}) == labels
            assert answer.get("status") == known.get("status")
            self.took(key, answer)

    @rule(namespace=a_namespace, name=a_name, status=st.none() | st.integers(0, 2))
    def update_status(self, namespace: str, name: str, status: int | None) -> None:
        if known := self.model.get((namespace, name)):
            answer = self.run(
                self.store.update_status(FRAMEWORKS, with_(known, status=status, spec="ignored"))
            )
            assert answer.get("status") == status
            assert answer["spec"] == known["spec"]
            self.took((namespace, name), answer)

    @rule(namespace=a_namespace, name=a_name, value=st.sampled_from([None, "1", "2"]))
    def patch(self, namespace: str, name: str, value: str | None) -> None:
        call = self.store.patch(
            FRAMEWORKS, namespace, name, MergePatch({"metadata": {"labels": {"x": value}}})
        )
        if (namespace, name) in self.model:
            answer = self.run(call)
            assert answer["metadata"].get("labels", {}).get("x") == value
            self.took((namespace, name), answer)
        else:
            assert self.raises(NotFound, call)

    @rule(namespace=a_namespace, name=a_name)
    def delete(self, namespace: str, name: str) -> None:
        call = self.store.delete(FRAMEWORKS, namespace, name)
        if (namespace, name) in self.model:
            self.run(call)
            self.stale[namespace, name] = self.model.pop((namespace, name))
            self.remember()
        else:
            assert self.raises(NotFound, call)

    def raises(self, error: type[Exception], call: Any) -> bool:
        try:
            self.run(call)
        except error:
            return True
        return False

    @invariant()
    def every_list_is_the_model_selected(self) -> None:
        for selector in SELECTORS:
            where = parse(selector)
            for namespace in (None, "one"):
                expected = [
                    obj
                    for (space, _), obj in sorted(self.model.items())
                    if namespace in (None, space) and where.matches(obj)
                ]
                assert self.run(self.store.list(FRAMEWORKS, namespace, where)).items == expected

    @rule(data=st.data(), selector=st.sampled_from(SELECTORS))
    def a_watch_from_any_moment_leads_to_now(self, data: st.DataObject, selector: str) -> None:
        since, then = data.draw(st.sampled_from(self.past))
        where = parse(selector)
        seen = {key: obj for key, obj in then.items() if where.matches(obj)}
        goal = {key: obj for key, obj in self.model.items() if where.matches(obj)}
        self.run(self.replay(where, since, seen, goal))

    async def replay(self, where: Any, since: int, seen: dict[Any, Object], goal: dict[Any, Object]) -> None:
        now = (await self.store.list(FRAMEWORKS)).version
        watch = self.store.watch(FRAMEWORKS, where=where, since=since)
        while True:
            waiting = asyncio.ensure_future(anext(watch))
            # All that has happened is told without a wait: what waits after some turns of the loop is for ever.
            await asyncio.wait({waiting}, timeout=0)
            if not waiting.done():
                waiting.cancel()
                break
            change = waiting.result()
            assert since < change.version <= now
            since = change.version
            metadata = change.object["metadata"]
            key = (metadata["namespace"], metadata["name"])
            if change.happened is ChangeType.DELETED:
                assert where.matches(change.object)
                del seen[key]
            else:
                assert (key in seen) is (change.happened is ChangeType.MODIFIED)
                seen[key] = change.object
        assert seen == goal


class SqliteMachine(StoreMachine):
    """The same, over a file that is closed and opened again at any moment."""

    def made(self) -> Store:
        self.directory = tempfile.TemporaryDirectory()
        self.new_uid = uids()
        return self.opened()

    def opened(self) -> SqliteStore:
        path = Path(self.directory.name) / "store.db"
        store: SqliteStore = self.run(SqliteStore.open(path, clock=lambda: NOW, new_uid=self.new_uid))
        return store

    @rule()
    def reopen(self) -> None:
        before = self.run(self.store.list(FRAMEWORKS)).version
        assert isinstance(self.store, SqliteStore)
        self.run(self.store.close())
        self.store = self.opened()
        assert self.run(self.store.list(FRAMEWORKS)).version == before
        self.past.clear()  # the history begins anew
        self.remember()

    def teardown(self) -> None:
        assert isinstance(self.store, SqliteStore)
        self.run(self.store.close())
        super().teardown()
        self.directory.cleanup()


quick = settings(max_examples=30, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow])
TestMemory = StoreMachine.TestCase
TestMemory.settings = quick
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = quick
