"""``/metrics``: what the server does and holds, for Prometheus. Every label has few values, whatever clients send."""

import asyncio
import os
import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from launcher.api.api_resources import SERVED
from launcher.api.middleware.request_info import RequestInfo, call_of
from launcher.core.status import State
from launcher.core.validation.pod_template import as_object
from launcher.store.informer import Informer
from launcher.store.interface import FRAMEWORKS, PODS, Key, Object, ResourceKind, Store
from launcher.store.object_errors import ObjectErrors

#: Upper bounds in seconds.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: What is counted when the client went before it had an answer.
_GONE = 499
_UNKNOWN = "Unknown"
_STATES = (*(state.value for state in State), _UNKNOWN)
_PHASES = ("Pending", "Running", "Succeeded", "Failed", _UNKNOWN)
#: Kinds that are counted by something: the name of that, and what it can be.
_BY = {FRAMEWORKS: ("state", _STATES), PODS: ("phase", _PHASES)}

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Gauge:
    """What somebody else knows, read whenever metrics are asked for."""

    name: str
    text: str
    #: A value for each set of labels; few, and always the same.
    samples: Callable[[], Iterable[tuple[Labels, float]]]


def counted(kind: ResourceKind, counts: Callable[[], Mapping[str, int] | None]) -> Gauge:
    """How many Frameworks, or pods, are in each state that they can be in; nothing while *counts* does not know."""
    label, values = _BY[kind]

    def samples() -> list[tuple[Labels, float]]:
        found = counts()
        return [] if found is None else [(((label, value),), found.get(value, 0)) for value in values]

    return Gauge(f"launcher_{kind.plural}", f"{kind.kind}s, by {label}.", samples)


def object_error_gauge(errors: ObjectErrors) -> Gauge:
    """The number of objects that cannot be handled at present."""

    def samples() -> Iterator[tuple[Labels, float]]:
        for (component, kind), count in errors.counts().items():
            yield (("component", component), ("kind", kind)), count

    return Gauge(
        "launcher_object_errors",
        "Objects that cannot be handled and are skipped, by component and kind.",
        samples,
    )


class Metrics:
    """Counts requests as they pass, and objects as they come and go while ``run`` runs."""

    def __init__(
        self,
        store: Store | None = None,
        clock: Callable[[], float] = time.monotonic,
        gauges: Sequence[Gauge] = (),
    ) -> None:
        """*clock* only measures how long requests take. Without a *store* no objects are counted."""
        self._clock, self._gauges = clock, gauges
        self._requests: Counter[tuple[str, str, str, int]] = Counter()
        self._times: dict[tuple[str, str], _Histogram] = {}
        self._under_way: Counter[str] = Counter()
        self._watchers: Counter[str] = Counter()
        kinds = [served.kind for served in SERVED] if store is not None else []
        self._censuses = {kind: _Census(_state_of(kind)) for kind in kinds}
        self._informers = (
            [Informer(store, kind, census, component="metrics") for kind, census in self._censuses.items()]
            if store is not None
            else []
        )

    async def run(self) -> None:
        """Keep count of the store's objects until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Stands outside of what turns errors into answers, so that it sees every answer's code."""
        call, began, code = call_of(request), self._clock(), _GONE
        running = self._watchers if call.verb == "watch" else self._under_way
        kind = call.resource if call.verb == "watch" else "write" if call.writes else "read"
        running[kind] += 1
        try:
            response = await handler(request)
            code = response.status
            return response
        finally:
            running[kind] -= 1
            self._count(call, code, self._clock() - began)

    def _count(self, call: RequestInfo, code: int, seconds: float) -> None:
        self._requests[call.verb, call.resource, call.subresource, code] += 1
        if not call.long_running:
            times = self._times.setdefault((call.verb, call.resource), _Histogram())
            times.add(seconds)

    async def expose(self, _: web.Request) -> web.Response:
        """``GET /metrics``."""
        text = "".join(f"{line}\n" for line in self._lines())
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=text.encode(), headers=headers)

    def _lines(self) -> Iterator[str]:
        yield from _family(
            "launcher_http_requests_total",
            "counter",
            "Requests answered, by verb, resource and code; 499 is a client that left before the end.",
            (
                ((("verb", verb), ("resource", what), ("subresource", sub), ("code", str(code))), count)
                for (verb, what, sub, code), count in self._requests.items()
            ),
        )
        yield from self._time_lines()
        yield from _family(
            "launcher_http_requests_in_flight",
            "gauge",
            "Requests under way, watches left out.",
            (((("kind", kind),), self._under_way[kind]) for kind in ("read", "write")),
        )
        yield from _family(
            "launcher_watchers",
            "gauge",
            "Watches under way.",
            (((("resource", s.kind.plural),), self._watchers[s.kind.plural]) for s in SERVED),
        )
        if self._censuses:
            yield from self._object_lines()
        for gauge in self._gauges:
            yield from _gauge_lines(gauge)
        yield from _process_lines()

    def _time_lines(self) -> Iterator[str]:
        name = "launcher_http_request_duration_seconds"
        yield from _head(name, "histogram", "How long requests took, watches and logs left out.")
        for (verb, what), times in self._times.items():
            yield from times.lines(name, (("verb", verb), ("resource", what)))

    def _object_lines(self) -> Iterator[str]:
        yield from _family(
            "launcher_store_objects",
            "gauge",
            "Objects in the store.",
            (((("resource", kind.plural),), len(census)) for kind, census in self._censuses.items()),
        )
        for kind in _BY:
            yield from _gauge_lines(counted(kind, self._censuses[kind].counts))


class _Histogram:
    """How many took how long."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BUCKETS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_BUCKETS, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        bounds = (*(f"{bound:g}" for bound in _BUCKETS), "+Inf")
        for bound, count in zip(bounds, accumulate(self._counts), strict=True):
            yield _sample(f"{name}_bucket", (*labels, ("le", bound)), count)
        yield _sample(f"{name}_sum", labels, self._sum)
        yield _sample(f"{name}_count", labels, sum(self._counts))


class _Census:
    """The objects of one kind, each with its state: a handler of an informer."""

    def __init__(self, state_of: Callable[[Object], str]) -> None:
        self._state_of = state_of
        self._states: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self._states)

    def counts(self) -> Mapping[str, int]:
        return Counter(self._states.values())

    def on_upsert(self, key: Key, obj: Object) -> None:
        self._states[key] = self._state_of(obj)

    def on_delete(self, key: Key) -> None:
        self._states.pop(key, None)


def _state_of(kind: ResourceKind) -> Callable[[Object], str]:
    """Reads the state of an object; one of its own making, or of a kind that has none, is Unknown."""
    if kind == FRAMEWORKS:
        return lambda obj: _one_of(
            _STATES, as_object(obj.get("status")).get("state", State.CREATION_PENDING.value)
        )
    if kind == PODS:
        return lambda obj: _one_of(_PHASES, as_object(obj.get("status")).get("phase", "Pending"))
    return lambda _: _UNKNOWN


def _one_of(known: Iterable[str], value: object) -> str:
    # The very strings of the table, so that thousands of objects share them.
    return next((name for name in known if name == value), _UNKNOWN)


def _process_lines() -> Iterator[str]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    for name, kind, text, value in (
        ("process_cpu_seconds_total", "counter", "CPU time used.", usage.ru_utime + usage.ru_stime),
        ("process_resident_memory_bytes", "gauge", "Memory in use.", memory),
        ("process_open_fds", "gauge", "Open file descriptors.", len(os.listdir("/proc/self/fd"))),
        ("process_start_time_seconds", "gauge", "When the process began, since 1970.", _start_time()),
    ):
        yield from _family(name, kind, text, (((), value),))


@cache
def _start_time() -> float:
    # Field 22 of the kernel's line, in ticks since the machine came up; the second field may hold anything.
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    up = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")


def _gauge_lines(gauge: Gauge) -> Iterator[str]:
    return _family(gauge.name, "gauge", gauge.text, gauge.samples())


def _family(name: str, kind: str, text: str, samples: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield from _head(name, kind, text)
    for labels, value in samples:
        yield _sample(name, labels, value)


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels)
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"
