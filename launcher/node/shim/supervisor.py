"""Starts and supervises the runs of one data directory. It is independent of the socket protocol."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial

from launcher.node.shim import exec as shim_exec
from launcher.node.shim import linux, run_records, stream_relay
from launcher.node.shim.bubblewrap import BubblewrapIsolation
from launcher.node.shim.cgroups import Cgroups, oom_kills
from launcher.node.shim.event_loop import Loop
from launcher.node.shim.isolation import PlainIsolation, UnshareIsolation
from launcher.node.shim.log_limits import LogLimits
from launcher.node.shim.log_writer import LogWriter
from launcher.node.shim.run import ShimRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from launcher.node.shim.isolation import Isolation
    from launcher.node.shim.run import Respond
    from launcher.node.shim.run_records import Json

#: Exit code of a run whose end was not observed.
_ESTIMATED_EXIT_CODE = 137
_NOT_RUNNING = "the container is not running"
#: The shortest time for which a run's output is not read once its log has used up its rate.
_MIN_PAUSE_SECONDS = 0.02
#: Runs whose memory events are read in one tick, so that the event loop is not delayed.
_OOM_CHECKS_PER_TICK = 500


class Supervisor:
    """The parent process of the runs of one data directory."""

    def __init__(
        self, data: str, loop: Loop, cgroups: Cgroups, users: tuple[int, int] | None, options: Json
    ) -> None:
        """*users*, the shim's user and group, are mapped to themselves in user namespaces; None without those."""
        self._loop, self._cgroups = loop, cgroups
        self._log_limits = LogLimits(options, time.monotonic())
        modes: tuple[Isolation, ...] = (UnshareIsolation(users), BubblewrapIsolation(), PlainIsolation())
        self._isolations = {isolation.name: isolation for isolation in modes}
        #: Runs whose output is not read until that time, because their logs have used up their rate.
        self._paused: dict[ShimRun, float] = {}
        self._folder, self._lock = f"{data}/runs", f"{data}/{run_records.LOCK}"
        #: Two empty directories on which runs mount, each in its own namespace.
        self._stage, self._scratch = f"{data}/stage", f"{data}/scratch"
        for path in (self._folder, self._stage, self._scratch):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self.runs: dict[str, ShimRun] = {}
        #: Those that have not ended.
        self._live: set[ShimRun] = set()
        self._children: dict[int, ShimRun] = {}
        #: By the pids of their stream relays.
        self._relayed: dict[int, ShimRun] = {}
        self._commands = shim_exec.Commands(loop)
        #: Runs whose first process has closed its socket and whose program may not run yet.
        self._starting: set[ShimRun] = set()
        #: Ended runs whose end could not be recorded because the disk was full.
        self._unrecorded: set[ShimRun] = set()
        #: Called with each run that has ended.
        self.report_ended: Callable[[ShimRun], None] = lambda _: None
        #: Called with each run of which a process was killed for memory while others continue.
        self.report_changed: Callable[[ShimRun], None] = lambda _: None
        #: Runs whose killed processes remain to be counted in this round.
        self._uncounted: list[ShimRun] = []

    def running(self) -> int:
        """The number of runs that have not ended."""
        return len(self._live)

    def _isolation(self, run: ShimRun) -> Isolation:
        return self._isolations[run.mode]

    def start(self, config: Json, respond: Respond) -> None:
        """Starts the run, unless it exists, and responds with it; possibly after this call has returned."""
        run = self.runs.get(config["id"])
        if run is None:
            self._start(config, respond)
        elif run.waiting is not None:
            run.waiting.append(respond)
        else:
            respond({"run": run.to_json()})

    def _start(self, config: Json, respond: Respond) -> None:
        if "/" in config["id"] or "\0" in config["id"] or config["id"] in ("", ".", ".."):
            message = f"invalid id {config['id']!r}"
            respond({"cannot": {"reason": "CreateContainerConfigError", "message": message}})
            return
        run = ShimRun(config["id"], f"{self._folder}/{config['id']}", config["way"])
        run.waiting, run.config = [respond], config
        try:
            run_records.remove(run.directory)
            os.mkdir(run.directory, 0o700)
            run.log = LogWriter(config["log"], self._log_limits, config["log_group"])
            run.cgroups = self._cgroups.create(run.id, config["memory"], config["cpu"], config["pids"])
            # Without a pids cgroup the limit of the user is set, which is not enforced for root.
            config["processes"] = config["pids"] if "pids" in self._cgroups.unsupported else None
            config["cgroups"] = [f"{path}/cgroup.procs" for path in run.cgroups]
            self._fork(run)
            self.runs[run.id] = self._children[run.pid] = run
            if run.relay:
                self._relayed[run.relay] = run
            self._live.add(run)
            if not self._isolation(run).reports_main_process:
                self._release(run)
        except OSError as error:
            self._drop(run, {"unavailable": str(error)})

    def _fork(self, run: ShimRun) -> None:
        config = run.config
        run.create_outputs(config["user"])
        run.open_outputs()
        shim_socket, init_socket = socket.socketpair()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        end = os.open(f"{run.directory}/{run_records.END}", flags, 0o600)
        # Opened for reading too: writing does not fail while no shim reads.
        outputs = [
            os.open(f"{run.directory}/{name}", os.O_RDWR | os.O_CLOEXEC) for name in run_records.OUTPUTS
        ]
        lock = os.open(self._lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        streams = [self._null, *outputs]
        try:
            if config.get("stdin") or config.get("tty"):
                run.relay, file = stream_relay.start(run.directory, config, end, lock)
                outputs.append(file)
                streams = [file] * 3 if config.get("tty") else [file, *streams[1:]]
            descriptors = [*streams, init_socket.fileno(), end, lock]
            run.started = time.time()
            run.pid = self._isolation(run).fork(config)
            if not run.pid:
                self._isolation(run).run_first_process(config, descriptors, self._stage, self._scratch)
        finally:
            for file in (*outputs, end, lock):
                os.close(file)
            init_socket.close()
            run.socket = shim_socket.detach()
        run.group = run.kill = run.pid
        os.set_blocking(run.socket, False)
        self._loop.watch(run.socket, lambda _: self._read_socket(run))

    def _release(self, run: ShimRun) -> None:
        """Records the run and lets its program start."""
        run.record()
        try:
            os.write(run.socket, b"g")
        except BrokenPipeError:
            return  # it has failed already, and has sent the reason

    def _read_socket(self, run: ShimRun) -> None:
        """Handles the init's messages; it closes the socket when the program starts."""
        try:
            data = os.read(run.socket, 65536)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        for line in data.splitlines():
            message = json.loads(line)
            if "reason" in message:
                self._drop(run, {"cannot": message})
                return
            run.group, run.kill = message["main"], -message["main"]
            try:
                self._release(run)
            except OSError as error:
                self._drop(run, {"unavailable": str(error)})
                return
        if not data:
            self._close_socket(run)
            self._starting.add(run)

    def poll_starting(self) -> bool:
        """Responds for the runs whose programs have started. Returns whether to poll again soon."""
        for run in list(self._starting):
            if self._isolation(run).has_started(run):
                self._respond_started(run)
        return bool(self._starting)

    def _respond_started(self, run: ShimRun) -> None:
        self._starting.discard(run)
        if run.config.get("tty"):
            run.direct_signals_to_main()
            with suppress(OSError):  # the disk is full: the earlier record stays
                run.record()
        run.config = {}
        self._watch_outputs(run)
        self._respond(run, {"run": run.to_json()})

    def _watch_outputs(self, run: ShimRun) -> None:
        for file in run.outputs:
            self._loop.watch(file, partial(self._read_output, run, file))

    def _close_socket(self, run: ShimRun) -> None:
        if run.socket >= 0:
            self._loop.unwatch(run.socket)
            os.close(run.socket)
            run.socket = -1

    def _respond(self, run: ShimRun, response: Json) -> None:
        waiting, run.waiting = run.waiting or [], None
        for respond in waiting:
            respond(response)

    def _drop(self, run: ShimRun, response: Json) -> None:
        """Removes all traces of a run that could not be started."""
        for file in run.outputs:
            self._loop.unwatch(file)
        self._starting.discard(run)
        self._paused.pop(run, None)
        self._close_socket(run)
        run.close()
        self._live.discard(run)
        self.runs.pop(run.id, None)
        if run.log is not None:
            run.log.abandon()
        self._cgroups.remove(run.cgroups)
        run_records.remove(run.directory)
        self._respond(run, response)

    def _read_output(self, run: ShimRun, file: int, _: int) -> None:
        before = run.log_bytes()
        if run.read(file) == 0:
            # All its processes have closed this stream, which epoll would report again and again.
            self._loop.unwatch(file)
        if run.log is None or run.log_bytes() == before:
            return
        now = time.monotonic()
        wait = self._log_limits.record_write(run.log_bytes() - before, run.log.bucket, now)
        if wait:
            self._paused[run] = now + max(wait, _MIN_PAUSE_SECONDS)
            for output in run.outputs:
                self._loop.unwatch(output)

    def resume_reading(self) -> float:
        """Resumes reading the runs whose pause has ended. Returns the seconds until the next one, at most 1."""
        now = time.monotonic()
        for run in [run for run, until in self._paused.items() if until <= now]:
            del self._paused[run]
            self._watch_outputs(run)
        return min((until - now for until in self._paused.values()), default=1.0)

    def configure(self, options: Json) -> None:
        """Replaces the options."""
        self._log_limits.configure(options, time.monotonic())

    def reap(self) -> None:
        """Reaps all children that have ended, and ends their runs and commands."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            code = linux.exit_code(status)
            if (run := self._children.pop(pid, None)) is not None:
                self._child_exited(run, code)
            elif (run := self._relayed.pop(pid, None)) is not None:
                self._relay_exited(run)
            else:
                self._commands.child_exited(pid, code)

    def _child_exited(self, run: ShimRun, code: int) -> None:
        for _ in ("messages", "end of the stream"):
            if run.socket >= 0:
                self._read_socket(run)
        if self.runs.get(run.id) is not run:
            return
        if run.exit_code is None:
            run.exit_code = code
        if (remaining := self._isolation(run).kill_remaining(run)) is not None:
            run.pid = remaining
            self._children[run.pid] = run
        elif run.relay:
            # It has the last output of a terminal.
            os.kill(run.relay, signal.SIGTERM)
        else:
            self._processes_exited(run)

    def _relay_exited(self, run: ShimRun) -> None:
        run.relay = 0
        if self.runs.get(run.id) is run and run.exit_code is not None and run.pid not in self._children:
            self._processes_exited(run)

    def _processes_exited(self, run: ShimRun) -> None:
        if run in self._starting:
            failure = self._isolation(run).start_failure(run)
            if failure is not None:
                self._drop(run, {"cannot": failure})
                return
            self._respond_started(run)
        assert run.exit_code is not None
        self._end(run, run.exit_code, is_estimated=False)

    def _end(self, run: ShimRun, code: int, *, is_estimated: bool) -> None:
        self._close_socket(run)
        self._paused.pop(run, None)
        run.read_all()
        run.read_recorded_output()
        run.oom_kills = oom_kills(run.cgroups)
        out_of_memory = code != 0 and run.oom_kills > 0
        run.ended = {
            "exit_code": code,
            "at": time.time(),
            "out_of_memory": out_of_memory,
            "unseen": is_estimated,
        }
        for file in run.outputs:
            self._loop.unwatch(file)
        if run.pidfd >= 0:
            self._loop.unwatch(run.pidfd)
        run.close()
        if run.log is not None:
            run.log.close(time.time_ns())
            run.log = None
        self._cgroups.remove(run.cgroups)
        run.cgroups = []
        self._live.discard(run)
        self._record_end(run)
        self._respond(run, {"run": run.to_json()})
        self.report_ended(run)

    def _record_end(self, run: ShimRun) -> None:
        self._unrecorded.discard(run)
        try:
            run_records.write(run.directory, run_records.ENDED, run.ended or {})
        except OSError:
            self._unrecorded.add(run)

    def tick(self) -> None:
        """Retries what failed before, and polls what cannot be watched."""
        for run in list(self._unrecorded):
            self._record_end(run)
        self._cgroups.remove(())
        self._count_oom_kills()
        for run in [run for run in self._live if run.is_unwatched() and run.pid not in self._children]:
            if not run_records.is_alive(run_records.read(run.directory, run_records.RECORD) or {}):
                self._recovered_run_ended(run)

    def _count_oom_kills(self) -> None:
        """Counts killed processes of some runs; later ticks count those of the others."""
        if not self._uncounted:
            self._uncounted = [run for run in self._live if run.cgroups]
        for _ in range(min(len(self._uncounted), _OOM_CHECKS_PER_TICK)):
            run = self._uncounted.pop()
            if run in self._live and (kills := oom_kills(run.cgroups)) > run.oom_kills:
                run.oom_kills = kills
                self.report_changed(run)

    def signal(self, run_id: str, number: int) -> None:
        """Sends the signal to the run; does nothing if it has ended or does not exist."""
        run = self.runs.get(run_id)
        if run is not None and run.ended is None:
            run.signal(number)

    def remove(self, run_id: str) -> bool:
        """Removes an ended run. Returns False while it is running."""
        run = self.runs.get(run_id)
        if run is None:
            return True
        if run.ended is None:
            return False
        self._unrecorded.discard(run)
        run_records.remove(run.directory)
        del self.runs[run_id]
        return True

    def execute(self, run_id: str, argv: list[str], timeout: float, respond: Respond) -> None:
        """Executes a command in a run, and responds with its exit code and output."""
        run, record = self._live_run(run_id)
        if run is None or record is None:
            respond({"code": shim_exec.NOT_EXECUTABLE, "output": _NOT_RUNNING})
            return
        try:
            self._commands.start(self._isolation(run), record["order"], run.kill, argv, timeout, respond)
        except OSError as error:
            respond({"code": shim_exec.NOT_EXECUTABLE, "output": str(error)})

    def open_session(self, request: Json, descriptors: list[int]) -> str | None:
        """
        Executes a command in a run with *descriptors* as its streams; the last one is the client's connection.

        Returns the error if the command cannot be started; otherwise its exit code is sent to the client.
        """
        run, record = self._live_run(request["run"])
        if run is None or record is None:
            return _NOT_RUNNING
        try:
            self._commands.start_session(
                self._isolation(run), record["order"], run.kill, request, descriptors
            )
        except OSError as error:
            return str(error)
        return None

    def _live_run(self, run_id: str) -> tuple[ShimRun | None, Json | None]:
        """The run and its record, if it has not ended."""
        run = self.runs.get(run_id)
        if run is None or run.ended is not None:
            return None, None
        return run, run_records.read(run.directory, run_records.RECORD)

    def kill_all(self) -> None:
        for run in self._live:
            run.signal(signal.SIGKILL)

    def recover_runs(self) -> None:
        """Recovers every run of an earlier shim, whether it has ended or not."""
        for entry in list(os.scandir(self._folder)):
            record = run_records.read(entry.path, run_records.RECORD)
            ended = run_records.read(entry.path, run_records.ENDED)
            if record is None or (ended is None and not run_records.has_started(entry.path, record)):
                # The shim was killed before the program could run.
                run_records.remove(entry.path)
                continue
            run = ShimRun(entry.name, entry.path, record["way"])
            self.runs[run.id] = run
            run.started, run.ended = record["started"], ended
            if ended is None:
                self._live.add(run)
                self._recover_live_run(run, record)
        self._cgroups.remove_all_but({path for run in self.runs.values() for path in run.cgroups})

    def _recover_live_run(self, run: ShimRun, record: Json) -> None:
        run.pid, run.group, run.kill = record["pid"], record["group"], record["kill"]
        run.cgroups = record["cgroups"]
        self._isolation(run).recover(run)
        if record["order"].get("tty"):
            run.direct_signals_to_main()
        try:
            config = record["order"]
            run.log = LogWriter(config["log"], self._log_limits, config.get("log_group", ""))
            run.open_outputs()
        except OSError as error:
            # The run continues without its output; an exception here would lose the other runs.
            sys.stderr.write(f"{run.id}: {error}\n")
        if not run_records.is_alive(record):
            self._recovered_run_ended(run)
            return
        self._watch_outputs(run)
        try:
            pidfd = os.pidfd_open(run.pid)
        except OSError:
            return  # Linux before 5.3, or it has just ended: the next tick polls it
        self._watch_recovered(run, pidfd)

    def _recovered_run_ended(self, run: ShimRun) -> None:
        """Ends a run that was not a child of this shim: its exit code is the one that its init has recorded."""
        self._isolation(run).kill_orphans(run)
        relay = stream_relay.end_relay(run_records.read(run.directory, run_records.RECORD) or {})
        if relay is not None:
            self._watch_recovered(run, relay)
            return
        line = run_records.read_end(run.directory, "exit-code")
        if line is not None:
            self._end(run, line["exit-code"], is_estimated=False)
        else:
            self._end(run, _ESTIMATED_EXIT_CODE, is_estimated=not run.killed)

    def _watch_recovered(self, run: ShimRun, pidfd: int) -> None:
        """Watches the process whose end may be the end of a recovered run, in place of an earlier one."""
        if run.pidfd >= 0:
            self._loop.unwatch(run.pidfd)
            os.close(run.pidfd)
        run.pidfd = pidfd
        self._loop.watch(pidfd, lambda _: self._recovered_run_ended(run))
