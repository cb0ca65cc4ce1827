"""
Where the tasks of one Framework wait for each other's addresses.

However many wait, the pods are followed once, and what is told is made once. The Framework itself is read when the room
opens, and again when its pods are no longer those that one would expect: it is large, and changes with every task.
"""

import asyncio
import logging
from dataclasses import dataclass

from launcher.core.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    LauncherError,
    NotFound,
    Unavailable,
)
from launcher.core.names import PodIdentityKey, pod_name
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.spec import FrameworkName
from launcher.rendezvous.peer_files import Files, TaskId, framework_file
from launcher.rendezvous.peer_tracker import (
    PORT,
    DependentRoles,
    PeerPod,
    PeerTracker,
    RendezvousTarget,
    later_than,
    seen_from_json,
    wanted_from_json,
)
from launcher.store.backoff import ExponentialBackoff
from launcher.store.informer import Informer
from launcher.store.interface import FRAMEWORKS, PODS, Key, MergePatch, Object, Store
from launcher.store.object_errors import object_errors
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)

#: How errors call the rendezvous.
COMPONENT = "rendezvous"
#: Seconds between two looks at the Framework, at least.
_PACE = 1.0
#: Seconds after which somebody who comes has it looked at again.
_OLD = 30.0
#: Seconds that a room may take to open.
_OPENING = 15.0
#: Who may wait at one time for each task of a Framework.
_WAITERS_PER_TASK = 8
#: Of those who are missing, so many are named.
_NAMED = 20


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """What somebody wants to know, and who he is: his token has been checked."""

    uid: str
    attempt: int
    asker: TaskId | None = None
    #: Only what is newer than this generation.
    after: int = 0
    #: The port that he has taken.
    port: int | None = None


@dataclass(frozen=True, slots=True)
class MissingPeers:
    """Those who were still waited for when the time was up; only the first of them are named."""

    names: tuple[str, ...]
    count: int


class RendezvousSession:
    """
    One Framework's room; ``run`` keeps it open.

    Everything that waits in it is woken when there is something new to tell, and by nothing else.
    """

    def __init__(self, store: Store, key: Key) -> None:
        self._store, self._key = store, key
        self._attendance = PeerTracker()
        self._informer = Informer(
            store,
            PODS,
            self,
            Selector.labelled({PodIdentityKey.FRAMEWORK_NAME: key[1]}),
            namespace=key[0],
            component=COMPONENT,
        )
        self._files: dict[DependentRoles, Files] = {}
        #: Nothing has happened since these were made.
        self._fresh = False
        self._texts: dict[int, bytes] = {}
        #: Why nobody is told anything any more.
        self._trouble: Unavailable | None = None
        self._gone = False
        #: When the Framework was last read, on the loop's clock.
        self._read_at = float("-inf")
        self._must_read = True
        self._dirty, self._opened, self._was_read = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._dirty.set()
        #: Who waits for something to be told, by whom he is not told of.
        self._waiting: dict[DependentRoles, asyncio.Event] = {}
        #: Who waits for the pod of that name to be in sight.
        self._expected: dict[str, asyncio.Event] = {}
        #: Ports of nodes that are being written down, by whom.
        self._taken: dict[tuple[str, int], str] = {}
        #: How many wait.
        self.waiters = 0

    async def run(self) -> None:
        """Follow the Framework until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            await self._work()

    @property
    def most_waiters(self) -> int:
        """How many may wait at one time: some for each task, since its containers may ask too."""
        wanted = self._attendance.wanted
        tasks = INDEXES_END if wanted is None else sum(role.tasks for role in wanted.spec.roles)
        return _WAITERS_PER_TASK * tasks + _WAITERS_PER_TASK

    def close(self, why: Unavailable) -> None:
        """From now on everybody hears just that."""
        self._trouble = why
        self._opened.set()
        self._wake_all()

    async def answer(self, ask: PeerRequest, seconds: float) -> Files | MissingPeers:
        """
        The files about all whom the asker waits for, or who is missing of them after so many *seconds*.

        Raises NotFound when the Framework is gone, Forbidden when the attempt is over, Unavailable, and Conflict when
        another task of the node has taken the port.
        """
        self.waiters += 1
        try:
            await self._open(ask)
            async with asyncio.timeout(seconds):
                while (files := self._files_for(ask)) is None:
                    await self._waiting.setdefault(self._later(ask), asyncio.Event()).wait()
                return files
        except TimeoutError:
            return self._missing(ask)
        finally:
            self.waiters -= 1

    async def framework(self, files: Files) -> bytes:
        """The Framework as a file, with the addresses that *files* tell of; read once for all. Raises LauncherError."""
        generation = files.roster.generation
        if generation not in self._texts:
            obj = await self._store.get(FRAMEWORKS, *self._key)
            self._texts = {generation: framework_file(obj, files.roster)}
        return self._texts[generation]

    # What the informer tells.

    def on_upsert(self, key: Key, obj: Object) -> None:
        """A pod has come or changed."""
        pod = seen_from_json(obj)
        if pod is None:
            self._attendance.lose(key[1])
            self._change()
            return
        if not self._attendance.see(pod):
            return
        if self._attendance.doubts(pod):
            self._must_read = True
        if (expected := self._expected.pop(pod.pod, None)) is not None:
            expected.set()
        self._change()

    def on_delete(self, key: Key) -> None:
        """A pod is no longer there."""
        self._attendance.lose(key[1])
        self._must_read = True
        self._change()

    # Inside.

    def _change(self) -> None:
        self._fresh = False
        self._dirty.set()

    async def _work(self) -> None:
        """Find out what there is to tell, again and again."""
        loop, pauses = asyncio.get_running_loop(), ExponentialBackoff(first=0.2, most=10.0)
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            if self._must_read:
                await asyncio.sleep(self._read_at + _PACE - loop.time())
                try:
                    await self._read()
                except LauncherError as error:
                    log.warning("framework not read", extra={"framework": self._key, "why": str(error)})
                    self._look_again()
                    await asyncio.sleep(pauses.next_delay())
                    continue
                pauses.reset()
            await self._informer.synced.wait()
            with object_errors.handling(COMPONENT, FRAMEWORKS.plural, self._key):
                self._publish()
            self._opened.set()

    async def _read(self) -> None:
        self._must_read = False
        try:
            obj = await self._store.get(FRAMEWORKS, *self._key)
            self._attendance.expect(wanted_from_json(obj))
            self._gone = False
        except NotFound:
            self._gone = True
        except ValueError as error:
            # It is known as it was when it could last be read, if it ever could.
            log.warning("framework not understood", extra={"framework": self._key, "why": str(error)})
            self._gone = self._attendance.wanted is None
        self._read_at = asyncio.get_running_loop().time()
        self._wake_all()

    def _publish(self) -> None:
        """Have everything ready that can be told now, and wake those who wait for it."""
        wanted = self._attendance.wanted
        if wanted is not None:
            spec = wanted.spec
            found: dict[DependentRoles, Files] = {}
            for later in {later_than(spec, role) for role in (None, *(each.name for each in spec.roles))}:
                roster, known = self._attendance.roster(later), self._files.get(later)
                if roster is not None:
                    found[later] = (
                        known if known is not None and known.roster == roster else Files(roster, spec)
                    )
            self._files, self._fresh = found, True
            # Only those who can be told something: all the others still wait for somebody.
            for later in found.keys() & self._waiting.keys():
                self._waiting.pop(later).set()

    def _wake_all(self) -> None:
        """Let everybody look for himself what there is."""
        for waiting in (*self._waiting.values(), *self._expected.values(), self._was_read):
            waiting.set()
        self._waiting.clear()
        self._expected.clear()
        self._was_read = asyncio.Event()

    async def _open(self, ask: PeerRequest) -> None:
        """Return when the Framework is known as well as the asker knows it, and what he told. Raises LauncherError."""
        came = asyncio.get_running_loop().time()
        if came > self._read_at + _OLD:
            self._look_again()
        try:
            async with asyncio.timeout(_OPENING):
                await self._opened.wait()
                if not self._is_known(ask) and self._read_at < came:
                    self._look_again()
                while not self._is_known(ask) and self._read_at < came and self._trouble is None:
                    await self._was_read.wait()
                if ask.port is not None:
                    await self._take(ask, ask.port)
        except TimeoutError as error:
            raise Unavailable("the Framework cannot be looked at just now; ask again") from error

    def _is_known(self, ask: PeerRequest) -> bool:
        wanted = self._attendance.wanted
        if self._gone or wanted is None:
            return False
        return wanted.uid == ask.uid and wanted.attempt >= ask.attempt

    def _look_again(self) -> None:
        self._must_read = True
        self._dirty.set()

    def _files_for(self, ask: PeerRequest) -> Files | None:
        """What there is for the asker; None if he has to wait. Raises LauncherError when he need not."""
        later = self._later(ask)
        files = self._files.get(later) if self._fresh else None
        return files if files is not None and files.roster.generation > ask.after else None

    def _allowed(self, ask: PeerRequest) -> RendezvousTarget:
        """The Framework, of whose current attempt the asker is. Raises LauncherError when he is not."""
        if self._trouble is not None:
            raise Unavailable(str(self._trouble))
        wanted = self._attendance.wanted
        if self._gone or wanted is None or wanted.uid != ask.uid:
            raise NotFound(f'{FRAMEWORKS.resource} "{self._key[1]}" not found')
        if wanted.attempt > ask.attempt or (wanted.attempt == ask.attempt and wanted.over):
            raise Forbidden(f"attempt {ask.attempt} of this Framework is over")
        if wanted.attempt < ask.attempt:
            raise Unavailable(f"attempt {ask.attempt} has not begun yet; ask again")
        return wanted

    def _later(self, ask: PeerRequest) -> DependentRoles:
        """The roles that the asker is not told of. Raises LauncherError when he is told nothing at all."""
        wanted = self._allowed(ask)
        role = None if ask.asker is None else ask.asker.role
        if role is not None and all(each.name != role for each in wanted.spec.roles):
            raise BadRequest(f"task: there is no role {role} in this Framework")
        return later_than(wanted.spec, role)

    def _missing(self, ask: PeerRequest) -> MissingPeers:
        names = [f"{role}/{index}" for role, index in self._attendance.missing(self._later(ask))]
        return MissingPeers(tuple(names[:_NAMED]), len(names))

    async def _take(self, ask: PeerRequest, port: int) -> None:
        """Write down on the asker's pod which *port* he has taken, so that every launcher knows it."""
        self._allowed(ask)
        if ask.asker is None or not self._attendance.is_auto(ask.asker.role):
            raise BadRequest(
                "port: only a task of a role with `auto` in spec.discovery.ports takes one; name it as task=ROLE/INDEX"
            )
        pod = await self._in_sight(ask, ask.asker)
        if pod.told is not None:
            return  # what it said first holds, as long as it is there
        place = (pod.node, port)
        others = {(other.node, other.told): other.uid for other in self._attendance.pods_with_port()}
        if (others | self._taken).get(place, pod.uid) != pod.uid:
            raise Conflict(f"port {port} of node {pod.node} is another task's: take another one")
        self._taken[place] = pod.uid
        try:
            note = {"metadata": {"uid": pod.uid, "annotations": {PORT: str(port)}}}
            self._informer.upsert(await self._store.patch(PODS, self._key[0], pod.pod, MergePatch(note)))
        finally:
            del self._taken[place]

    async def _in_sight(self, ask: PeerRequest, asker: TaskId) -> PeerPod:
        """The asker's pod, which is there, since it asks: the watch may be a moment behind."""
        name = pod_name(FrameworkName(self._key[1]), asker.role, asker.index)
        while (pod := self._attendance.pod(name)) is None:
            await self._expected.setdefault(name, asyncio.Event()).wait()
            self._allowed(ask)
        return pod
