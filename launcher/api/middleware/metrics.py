"""``/metrics`` for Prometheus. Every label has few values, regardless of what clients send."""

import asyncio
import platform
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed_version

import prometheus_client
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from launcher.api.api_resources import STORED_API_RESOURCES
from launcher.api.middleware.request_info import RequestInfo, request_info
from launcher.core.json_access import as_object
from launcher.core.status import State
from launcher.store import instrumentation
from launcher.store.informer import SharedInformers
from launcher.store.interface import FRAMEWORKS, PODS, Key, Object, ResourceKind
from launcher.store.object_errors import ObjectErrors

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
#: The code of a request whose client disconnected before the response.
_CLIENT_CLOSED_REQUEST = 499
_UNKNOWN = "Unknown"
_STATES = (*(state.value for state in State), _UNKNOWN)
_PHASES = ("Pending", "Running", "Succeeded", "Failed", _UNKNOWN)
#: Kinds that are counted by state: the label and its values.
_STATE_LABELS = {FRAMEWORKS: ("state", _STATES), PODS: ("phase", _PHASES)}
_LAG_INTERVAL_SECONDS = 0.5
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# The time at which a series was created is no metric of the launcher.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # untyped in the library

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CallbackGauge:
    """A gauge whose values are read at each scrape."""

    name: str
    text: str
    #: Returns a value for each set of labels; the sets are few and constant.
    samples: Callable[[], Iterable[tuple[Labels, float]]]


class CallbackCounter(CallbackGauge):
    """A counter whose values are read at each scrape; its name ends with ``_total``."""


def state_gauge(kind: ResourceKind, counts: Callable[[], Mapping[str, int] | None]) -> CallbackGauge:
    """Returns the number of Frameworks or pods in each state; no series while *counts* returns None."""
    label, values = _STATE_LABELS[kind]

    def samples() -> list[tuple[Labels, float]]:
        current = counts()
        return [] if current is None else [(((label, value),), current.get(value, 0)) for value in values]

    return CallbackGauge(f"launcher_{kind.plural}", f"{kind.kind}s, by {label}.", samples)


def object_error_gauge(errors: ObjectErrors) -> CallbackGauge:
    """Returns the number of objects that cannot be handled at present."""

    def samples() -> Iterator[tuple[Labels, float]]:
        for (component, kind), count in errors.counts().items():
            yield (("component", component), ("kind", kind)), count

    return CallbackGauge(
        "launcher_object_errors",
        "Objects that cannot be handled and are skipped, by component and kind.",
        samples,
    )


class Metrics:
    """Counts requests, measures the runtime, and counts objects while ``run`` runs."""

    def __init__(
        self,
        informers: SharedInformers | None = None,
        clock: Callable[[], float] = time.monotonic,
        gauges: Sequence[CallbackGauge] = (),
    ) -> None:
        """*clock* measures requests. Without *informers*, which the caller runs, no objects are counted."""
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._http = _HttpMetrics(self._registry)
        self._runtime = _RuntimeMetrics(self._registry)
        kinds = [resource.kind for resource in STORED_API_RESOURCES] if informers is not None else []
        self._counters = {kind: _ObjectCounter(_state_reader(kind)) for kind in kinds}
        if informers is not None:
            for kind, counter in self._counters.items():
                informers.add_event_handler(kind, counter, component="metrics")
        self._registry.register(_GaugeCollector([*self._object_gauges(), *gauges]))
        ProcessCollector(registry=self._registry)

    def _object_gauges(self) -> Iterator[CallbackGauge]:
        if not self._counters:
            return
        yield CallbackGauge(
            "launcher_store_objects",
            "Objects in the store.",
            lambda: [
                ((("resource", kind.plural),), len(counter)) for kind, counter in self._counters.items()
            ],
        )
        for kind in _STATE_LABELS:
            yield state_gauge(kind, self._counters[kind].counts)

    async def observe_runtime(self, _: web.Application) -> AsyncIterator[None]:
        """Measures queues, reconciles, requests to the API server and the event loop; for ``cleanup_ctx``."""
        measuring = asyncio.create_task(self._runtime.measure_event_loop())
        with instrumentation.observe_runtime(self._runtime):
            yield
        measuring.cancel()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Must be outside of the middleware that converts errors, so that it sees the code of every response."""
        info, started, code = request_info(request), self._clock(), _CLIENT_CLOSED_REQUEST
        in_flight = self._http.in_flight(info)
        in_flight.inc()
        try:
            response = await handler(request)
            code = response.status
            return response
        finally:
            in_flight.dec()
            self._http.completed(info, code, self._clock() - started)

    async def expose(self, _: web.Request) -> web.Response:
        """``GET /metrics``."""
        body = prometheus_client.generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": _CONTENT_TYPE})


class _HttpMetrics:
    """Metrics of HTTP requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = prometheus_client.Counter(
            "launcher_http_requests_total",
            "Requests by verb, resource and code; 499 is a client that disconnected before the response.",
            ("verb", "resource", "subresource", "code"),
            registry=registry,
        )
        self._durations = Histogram(
            "launcher_http_request_duration_seconds",
            "Duration of requests, without watches and logs.",
            ("verb", "resource"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._in_flight = Gauge(
            "launcher_http_requests_in_flight",
            "Requests in flight, without watches.",
            ("kind",),
            registry=registry,
        )
        self._watchers = Gauge("launcher_watchers", "Open watches.", ("resource",), registry=registry)
        for kind in ("read", "write"):
            self._in_flight.labels(kind)
        for resource in STORED_API_RESOURCES:
            self._watchers.labels(resource.kind.plural)

    def in_flight(self, info: RequestInfo) -> Gauge:
        """Returns the gauge of open requests of that type."""
        if info.verb == "watch":
            return self._watchers.labels(info.resource)
        return self._in_flight.labels("write" if info.writes else "read")

    def completed(self, info: RequestInfo, code: int, seconds: float) -> None:
        self._requests.labels(info.verb, info.resource, info.subresource, str(code)).inc()
        if not info.long_running:
            self._durations.labels(info.verb, info.resource).observe(seconds)


class _RuntimeMetrics:
    """Metrics of the process, named as in controller-runtime and client-go: a ``RuntimeObserver``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reconciles = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of reconciles by controller.",
            ("controller",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._retries = prometheus_client.Counter(
            "workqueue_retries_total",
            "Reconciles that failed and are repeated, by queue and reason.",
            ("name", "reason"),
            registry=registry,
        )
        self._restarts = prometheus_client.Counter(
            "reflector_watch_restarts_total",
            "Restarts of the watches of informers, by resource and reason.",
            ("resource", "reason"),
            registry=registry,
        )
        self._requests = Histogram(
            "rest_client_request_duration_seconds",
            "Duration of requests to the API server until the headers of the response, by verb.",
            ("verb",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._lag = Histogram(
            "launcher_event_loop_lag_seconds",
            "Delay of timers of the event loop.",
            buckets=_BUCKETS,
            registry=registry,
        )
        build = Gauge(
            "launcher_build_info",
            "A constant 1 with the versions of the launcher and of Python.",
            ("version", "python_version"),
            registry=registry,
        )
        build.labels(installed_version("framework-launcher"), platform.python_version()).set(1)
        depths = CallbackGauge(
            "workqueue_depth",
            "Queued keys by queue.",
            lambda: [((("name", name),), depth) for name, depth in instrumentation.queue_depths().items()],
        )
        registry.register(_GaugeCollector([depths]))

    def reconcile_completed(self, controller: str, seconds: float) -> None:
        self._reconciles.labels(controller).observe(seconds)

    def reconcile_retried(self, controller: str, reason: str) -> None:
        self._retries.labels(controller, reason).inc()

    def watch_restarted(self, resource: str, reason: str) -> None:
        self._restarts.labels(resource, reason).inc()

    def request_completed(self, verb: str, seconds: float) -> None:
        self._requests.labels(verb).observe(seconds)

    async def measure_event_loop(self) -> None:
        """Measures how late timers fire, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_INTERVAL_SECONDS
            await asyncio.sleep(_LAG_INTERVAL_SECONDS)
            self._lag.observe(max(loop.time() - due, 0.0))


class _GaugeCollector(Collector):
    """Reads gauges at each scrape."""

    def __init__(self, gauges: Sequence[CallbackGauge]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        for gauge in self._gauges:
            new_family = CounterMetricFamily if isinstance(gauge, CallbackCounter) else GaugeMetricFamily
            family: CounterMetricFamily | GaugeMetricFamily | None = None
            for labels, value in gauge.samples():
                family = family or new_family(gauge.name, gauge.text, labels=[name for name, _ in labels])
                family.add_metric([text for _, text in labels], value)
            yield family or new_family(gauge.name, gauge.text)


class _ObjectCounter:
    """Counts the objects of one kind by state: an informer's event handler."""

    def __init__(self, read_state: Callable[[Object], str]) -> None:
        self._read_state = read_state
        self._states: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self._states)

    def counts(self) -> Mapping[str, int]:
        return Counter(self._states.values())

    def on_upsert(self, key: Key, obj: Object) -> None:
        self._states[key] = self._read_state(obj)

    def on_delete(self, key: Key) -> None:
        self._states.pop(key, None)


def _state_reader(kind: ResourceKind) -> Callable[[Object], str]:
    """Returns a function that reads the state of an object; an undefined one is Unknown."""
    if kind == FRAMEWORKS:
        return lambda obj: _one_of(
            _STATES, as_object(obj.get("status")).get("state", State.CREATION_PENDING.value)
        )
    if kind == PODS:
        return lambda obj: _one_of(_PHASES, as_object(obj.get("status")).get("phase", "Pending"))
    return lambda _: _UNKNOWN


def _one_of(values: Iterable[str], value: object) -> str:
    # Returns the string of the table, which thousands of objects share.
    return next((name for name in values if name == value), _UNKNOWN)
