"""Starts runs, keeps them, and tells how they ended. Knows processes and files, and nothing of who asks."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial

from launcher.node.shim import bubblewrap, container_init, linux, run_records
from launcher.node.shim import exec as inside
from launcher.node.shim.cgroups import Cgroups, oom_kills
from launcher.node.shim.event_loop import Loop
from launcher.node.shim.log_limits import LogLimits
from launcher.node.shim.log_writer import LogWriter
from launcher.node.shim.run import ShimRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from launcher.node.shim.run import Answer
    from launcher.node.shim.run_records import Json

#: Exit code of a run whose end nobody saw.
_UNSEEN = 137
#: Seconds for which a run is not read at least, once its log has used up its rate.
_LEAST_PAUSE = 0.02
#: Runs whose memory events are read in one tick, so that many of them delay nothing else.
_COUNTED_AT_ONCE = 500


class Supervisor:
    """The parent of every run of one data directory."""

    def __init__(
        self, data: str, loop: Loop, cgroups: Cgroups, users: tuple[int, int] | None, options: Json
    ) -> None:
        """*users*, the own user and group, are mapped to themselves in user namespaces, where those are needed."""
        self._loop, self._cgroups = loop, cgroups
        self._log_limits = LogLimits(options, time.monotonic())
        #: Runs that are not read until that time, since their logs have used up their rate.
        self._unread: dict[ShimRun, float] = {}
        self._folder, self._lock = f"{data}/runs", f"{data}/{run_records.LOCK}"
        #: Two empty directories that runs mount on, each in its own namespace.
        self._stage, self._scratch = f"{data}/stage", f"{data}/scratch"
        for path in (self._folder, self._stage, self._scratch):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self._users = users
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self.runs: dict[str, ShimRun] = {}
        #: Those of them that are not over.
        self._live: set[ShimRun] = set()
        self._children: dict[int, ShimRun] = {}
        self._commands = inside.Commands(loop)
        #: Those in bubblewrap's hands, before their programs run.
        self._entering: dict[ShimRun, Json] = {}
        #: Ends that could not be written down: the disk was full.
        self._unwritten: set[ShimRun] = set()
        #: Called with each run that has ended.
        self.tell: Callable[[ShimRun], None] = lambda _: None
        #: Called with each run that goes on after one of its processes was killed for memory.
        self.report_changed: Callable[[ShimRun], None] = lambda _: None
        #: Runs whose killed processes are to be counted before the others are again.
        self._uncounted: list[ShimRun] = []

    def running(self) -> int:
        return len(self._live)

    def start(self, order: Json, answer: Answer) -> None:
        """Start the run, or answer what is known of it; the answer may come later."""
        known = self.runs.get(order["id"])
        if known is None:
            self._start(order, answer)
        elif known.waiting is not None:
            known.waiting.append(answer)
        else:
            answer({"run": known.told()})

    def _start(self, order: Json, answer: Answer) -> None:
        if "/" in order["id"] or "\0" in order["id"] or order["id"] in ("", ".", ".."):
            answer(
                {"cannot": {"reason": "CreateContainerConfigError", "message": f"invalid id {order['id']!r}"}}
            )
            return
        run = ShimRun(order["id"], f"{self._folder}/{order['id']}")
        run.waiting, run.isolation = [answer], order["way"]
        try:
            run_records.remove(run.directory)
            os.mkdir(run.directory, 0o700)
            run.log = LogWriter(order["log"], self._log_limits, order["log_group"])
            run.cgroups = self._cgroups.make(run.id, order["memory"], order["cpu"], order["pids"])
            # The limit of a user, which does not hold for root, where there are no control groups.
            order["processes"] = order["pids"] if "pids" in self._cgroups.cannot else None
            order["cgroups"] = [f"{path}/cgroup.procs" for path in run.cgroups]
            order["users"] = self._users
            self._fork(run, order)
            self.runs[run.id] = self._children[run.pid] = run
            self._live.add(run)
            if run.isolation != "plain":
                self._release(run, order)
        except OSError as error:
            self._drop(run, {"unavailable": str(error)})

    def _fork(self, run: ShimRun, order: Json) -> None:
        for name in run_records.OUTPUTS:
            path = f"{run.directory}/{name}"
            os.mkfifo(path, 0o600)
            if order["user"] is not None and os.geteuid() == 0:
                # A program may open its output again, as /dev/stdout.
                with suppress(OSError):
                    os.chown(path, order["user"], -1)
        run.open_outputs()
        ours, theirs = socket.socketpair()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        last_word = os.open(f"{run.directory}/{run_records.LAST_WORD}", flags, 0o600)
        # Opened for reading too: then a run does not die of its output while no keeper is there to read it.
        outputs = [
            os.open(f"{run.directory}/{name}", os.O_RDWR | os.O_CLOEXEC) for name in run_records.OUTPUTS
        ]
        lock = os.open(self._lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        descriptors = [self._null, *outputs, theirs.fileno(), last_word, lock]
        try:
            run.started = time.time()
            run.pid = self._forked(order)
            if not run.pid:
                container_init.live(order, descriptors, self._stage, self._scratch)
        finally:
            for file in (*outputs, last_word, lock):
                os.close(file)
            theirs.close()
            run.socket = ours.detach()
        # bubblewrap's own first process takes its place once it is known.
        run.group = run.kill = run.pid
        os.set_blocking(run.socket, False)
        self._loop.watch(run.socket, lambda _: self._hear(run, order))

    def _forked(self, order: Json) -> int:
        if order["way"] != "unshare":
            return os.fork()
        spaces = linux.NEW_MOUNTS | linux.NEW_PIDS
        if order["hostname"]:
            spaces |= linux.NEW_UTS
        return linux.clone(spaces if self._users is None else spaces | linux.NEW_USERS)

    def _release(self, run: ShimRun, order: Json) -> None:
        """The program may run, now that the run is on record."""
        run.record(order)
        try:
            os.write(run.socket, b"g")
        except BrokenPipeError:
            return  # it has failed already, and has said why

    def _hear(self, run: ShimRun, order: Json) -> None:
        """What the init says before the program runs; the end of it is the beginning of the program."""
        try:
            said = os.read(run.socket, 65536)
        except BlockingIOError:
            return
        except ConnectionResetError:
            said = b""
        for line in said.splitlines():
            word = json.loads(line)
            if "reason" in word:
                self._drop(run, {"cannot": word})
                return
            run.group, run.kill = word["main"], -word["main"]
            try:
                self._release(run, order)
            except OSError as error:
                self._drop(run, {"unavailable": str(error)})
                return
        if not said:
            self._stop_hearing(run)
            if run.isolation == "bwrap":
                self._entering[run] = order
            else:
                self._started(run)

    def _started(self, run: ShimRun) -> None:
        self._watch_outputs(run)
        self._answer(run, {"run": run.told()})

    def _watch_outputs(self, run: ShimRun) -> None:
        for file in run.outputs:
            self._loop.watch(file, partial(self._read, run, file))

    def poll_starting(self) -> bool:
        """Whether somebody has to look again soon: bubblewrap does not tell when the program runs."""
        for run, order in list(self._entering.items()):
            first = bubblewrap.first_process(run.directory)
            if first is not None and run.kill != first:
                run.group = run.kill = first
                with suppress(OSError):  # a full disk: then what was written down before has to do
                    run.record(order)
                if run.killed:
                    run.signal(signal.SIGKILL)
            if first is not None and bubblewrap.has_entered(first, run.started):
                del self._entering[run]
                self._started(run)
        return bool(self._entering)

    def _stop_hearing(self, run: ShimRun) -> None:
        if run.socket >= 0:
            self._loop.leave(run.socket)
            os.close(run.socket)
            run.socket = -1

    def _answer(self, run: ShimRun, words: Json) -> None:
        waiting, run.waiting = run.waiting or [], None
        for answer in waiting:
            answer(words)

    def _drop(self, run: ShimRun, words: Json) -> None:
        """As if it had never been: it could not be started."""
        for file in run.outputs:
            self._loop.leave(file)
        self._unread.pop(run, None)
        self._stop_hearing(run)
        run.close()
        self._live.discard(run)
        self.runs.pop(run.id, None)
        if run.log is not None:
            run.log.abandon()
        self._cgroups.remove(run.cgroups)
        run_records.remove(run.directory)
        self._answer(run, words)

    def _read(self, run: ShimRun, file: int, _: int) -> None:
        before = run.log_bytes()
        if run.read(file) == 0:
            # Every process of it has closed this stream, which would be reported for ever.
            self._loop.leave(file)
        if run.log is None or run.log_bytes() == before:
            return
        now = time.monotonic()
        wait = self._log_limits.wrote(run.log_bytes() - before, run.log.bucket, now)
        if wait:
            self._unread[run] = now + max(wait, _LEAST_PAUSE)
            for output in run.outputs:
                self._loop.leave(output)

    def read_again(self) -> float:
        """Read those runs again whose pause is over. Seconds until the next one is; a second at most."""
        now = time.monotonic()
        for run in [run for run, until in self._unread.items() if until <= now]:
            del self._unread[run]
            self._watch_outputs(run)
        return min((until - now for until in self._unread.values()), default=1.0)

    def configure(self, options: Json) -> None:
        """These options hold from now on."""
        self._log_limits.configure(options, time.monotonic())

    def reap(self) -> None:
        """Every child that has ended is gone, and its run, if it was one, is over."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code
            if (run := self._children.pop(pid, None)) is not None:
                self._child_ended(run, code)
            else:
                self._commands.ended(pid, code)

    def _child_ended(self, run: ShimRun, code: int) -> None:
        for _ in ("what it said", "that it said no more"):
            if run.socket >= 0:
                self._hear(run, {})
        if self._entering.pop(run, None) is not None:
            if run_records.word(run.directory, "exit-code") is None:
                said = run.unwritten().decode(errors="replace").strip().removeprefix("bwrap: ")
                self._drop(run, {"cannot": bubblewrap.reason(said)})
            else:
                self._started(run)
        if self.runs.get(run.id) is run and not self._lingers(run, code):
            self._end(run, code if run.code is None else run.code, unseen=False)

    def _lingers(self, run: ShimRun, code: int) -> bool:
        """Whether its processes are still there: bubblewrap ends with the program, and leaves others alone."""
        if run.kill in (run.pid, -run.group):
            return False
        try:
            alive = os.waitpid(run.kill, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False
        if alive:
            os.kill(run.kill, signal.SIGKILL)
            run.code, run.pid = code, run.kill
            self._children[run.pid] = run
        return alive

    def _end(self, run: ShimRun, code: int, *, unseen: bool) -> None:
        self._stop_hearing(run)
        self._unread.pop(run, None)
        run.read_all()
        run.read_kept()
        run.oom_kills = oom_kills(run.cgroups)
        out_of_memory = code != 0 and run.oom_kills > 0
        run.ended = {"exit_code": code, "at": time.time(), "out_of_memory": out_of_memory, "unseen": unseen}
        for file in run.outputs:
            self._loop.leave(file)
        if run.adopted >= 0:
            self._loop.leave(run.adopted)
        run.close()
        if run.log is not None:
            run.log.close(time.time_ns())
            run.log = None
        self._cgroups.remove(run.cgroups)
        run.cgroups = []
        self._live.discard(run)
        self._write_end(run)
        self._answer(run, {"run": run.told()})
        self.tell(run)

    def _write_end(self, run: ShimRun) -> None:
        self._unwritten.discard(run)
        try:
            run_records.write(run.directory, run_records.ENDED, run.ended or {})
        except OSError:
            self._unwritten.add(run)

    def tick(self) -> None:
        """What could not be done before is tried again, and what cannot be waited for is looked at."""
        for run in list(self._unwritten):
            self._write_end(run)
        self._cgroups.remove(())
        self._count_oom_kills()
        for run in [run for run in self._live if run.pid not in self._children and run.adopted < 0]:
            if not _lives(run_records.read(run.directory, run_records.RECORD) or {}):
                self._lost(run)

    def _count_oom_kills(self) -> None:
        """Count killed processes of some runs; the others have their turn at a later tick."""
        if not self._uncounted:
            self._uncounted = [run for run in self._live if run.cgroups]
        for _ in range(min(len(self._uncounted), _COUNTED_AT_ONCE)):
            run = self._uncounted.pop()
            if run in self._live and (kills := oom_kills(run.cgroups)) > run.oom_kills:
                run.oom_kills = kills
                self.report_changed(run)

    def signal(self, run: str, number: int) -> None:
        """Nothing happens to a run that is over or not known."""
        known = self.runs.get(run)
        if known is not None and known.ended is None:
            known.signal(number)

    def forget(self, run: str) -> bool:
        """Whether nothing is known of it now; False while it runs."""
        known = self.runs.get(run)
        if known is None:
            return True
        if known.ended is None:
            return False
        self._unwritten.discard(known)
        run_records.remove(known.directory)
        del self.runs[run]
        return True

    def execute(self, run: str, argv: list[str], within: float, answer: Answer) -> None:
        """Run a command inside a run, and answer how it ended."""
        known = self.runs.get(run)
        record = (
            run_records.read(known.directory, run_records.RECORD)
            if known is not None and known.ended is None
            else None
        )
        if known is None or record is None:
            answer({"code": inside.CANNOT, "output": "the container is not running"})
            return
        try:
            self._commands.start(record, known.kill, argv, within, answer)
        except OSError as error:
            answer({"code": inside.CANNOT, "output": str(error)})

    def kill_all(self) -> None:
        for run in self._live:
            run.signal(signal.SIGKILL)

    def recover_runs(self) -> None:
        """Know again every run that an earlier keeper has left, whether it is over or not."""
        for entry in list(os.scandir(self._folder)):
            run = ShimRun(entry.name, entry.path)
            record = run_records.read(run.directory, run_records.RECORD)
            ended = run_records.read(run.directory, run_records.ENDED)
            if record is None or (ended is None and not _began(run, record)):
                # Its keeper was killed before the program could run.
                run_records.remove(run.directory)
                continue
            self.runs[run.id] = run
            run.started, run.isolation, run.ended = record["started"], record["way"], ended
            if ended is None:
                self._live.add(run)
                self._go_on(run, record)
        self._cgroups.remove_all_but({path for run in self.runs.values() for path in run.cgroups})

    def _go_on(self, run: ShimRun, record: Json) -> None:
        run.pid, run.group, run.kill = record["pid"], record["group"], record["kill"]
        run.cgroups = record["cgroups"]
        if run.isolation == "bwrap" and (first := bubblewrap.first_process(run.directory)) is not None:
            run.group = run.kill = first
        try:
            order = record["order"]
            run.log = LogWriter(order["log"], self._log_limits, order.get("log_group", ""))
            run.open_outputs()
        except OSError as error:
            # It can go on without its output, and the others cannot wait for it.
            sys.stderr.write(f"{run.id}: {error}\n")
        if not _lives(record):
            self._lost(run)
            return
        self._watch_outputs(run)
        try:
            run.adopted = os.pidfd_open(run.pid)
        except OSError:
            return  # Linux before 5.3, or over in this very moment: the next tick looks
        self._loop.watch(run.adopted, lambda _: self._lost(run))

    def _lost(self, run: ShimRun) -> None:
        """The run is over, and it was not our child: what its own init said is what is known."""
        if run.isolation == "bwrap" and bubblewrap.still_there(run.directory, run.kill):
            run.signal(signal.SIGKILL)
        said = run_records.word(run.directory, "exit-code")
        if said is not None:
            self._end(run, said["exit-code"], unseen=False)
        else:
            self._end(run, _UNSEEN, unseen=not run.killed)


def _began(run: ShimRun, record: Json) -> bool:
    """Whether the program was allowed to run; if that is just being decided, wait for it."""
    while run_records.word(run.directory, "began") is None:
        if not _lives(record):
            return run_records.word(run.directory, "began") is not None
        time.sleep(0.001)
    return True


def _lives(record: Json) -> bool:
    """Whether the process is the very one: a number alone may be anybody's by now."""
    return (
        bool(record)
        and record["boot"] == run_records.boot()
        and record["born"] is not None
        and record["born"] == run_records.born(record["pid"])
    )
