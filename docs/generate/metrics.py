"""``docs/metrics.md``: every metric of ``/metrics``, from a launcher that is started for it."""

import http.client
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import islice

from docs.generate.markdown import code, page, sentence, table
from launcher.api.middleware.metrics import CallbackCounter
from launcher.controller.log_copier import LogArchiveCounts
from launcher.wiring.log_archive import log_archive_metrics

_INTRODUCTION = """\
`GET /metrics` serves these metrics in the text format of Prometheus. A launcher with `--token-file`
requires the token. On Kubernetes, `components/service-monitor` creates a ServiceMonitor, and
`components/metrics-auth` restricts access ([install on
Kubernetes](install-kubernetes.md#install-with-kustomize))."""

#: Metrics that only local mode has.
LOCAL_ONLY = frozenset({"launcher_log_bytes", "launcher_log_removed_bytes", "launcher_store_objects"})
#: Metrics that only Kubernetes mode has: type, labels and meaning.
KUBERNETES_ONLY: Mapping[str, tuple[str, str, str]] = {
    "launcher_leader": ("gauge", "", "1 on the replica that is the leader, 0 on the others."),
    **{
        metric.name: (
            "counter" if isinstance(metric, CallbackCounter) else "gauge",
            ", ".join(code(name) for labels, _ in islice(metric.samples(), 1) for name, _ in labels),
            f"{metric.text} With `--log-archive` only.",
        )
        for metric in log_archive_metrics(LogArchiveCounts())
    },
}
#: Labels of metrics that a new launcher may have no sample of.
LABELS_WITHOUT_SAMPLES: Mapping[str, list[str]] = {
    "controller_runtime_reconcile_time_seconds": ["controller"],
    "launcher_object_errors": ["component", "kind"],
    "reflector_watch_restarts_total": ["reason", "resource"],
    "rest_client_request_duration_seconds": ["verb"],
    "workqueue_retries_total": ["name", "reason"],
}


def metrics_page() -> str:
    """The reference of metrics."""
    text = scrape()
    labels = _labels(text)
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    rows = {
        name: (code(name), kinds[name], ", ".join(map(code, labels.get(name, ()))), sentence(meaning))
        for name, meaning in sorted(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    }
    cluster = [(code(name), *row) for name, row in KUBERNETES_ONLY.items()]
    head = ("metric", "type", "labels", "meaning")
    return page(
        "Metrics reference",
        "the `/metrics` of a launcher",
        _INTRODUCTION,
        "## Both modes",
        "On Kubernetes only the leader counts Frameworks and pods, so that sums over all replicas are\n"
        "correct.",
        table(head, [row for name, row in rows.items() if name not in LOCAL_ONLY]),
        "## Local mode only",
        table(head, [row for name, row in rows.items() if name in LOCAL_ONLY]),
        "## Kubernetes mode only",
        table(head, cluster),
    )


def scrape() -> str:
    """What ``/metrics`` of a new launcher serves after a few requests."""
    with tempfile.TemporaryDirectory() as directory:
        command = [
            sys.executable,
            "-m",
            "launcher",
            "serve",
            "--listen=127.0.0.1:0",
            f"--data={directory}/data",
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        try:
            found = re.search(r"http://(\S+?)[,\s]", process.stdout.readline())
            assert found
            _get(found[1], "/apis/launcher.microsoft.com/v1/frameworks")
            return _get(found[1], "/metrics")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
            process.stdout.close()


def _get(address: str, path: str) -> str:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def _labels(text: str) -> dict[str, list[str]]:
    """The names of the labels of each metric, except the bounds of histograms."""
    found = dict(LABELS_WITHOUT_SAMPLES)
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        for each in (name, family):
            found[each] = [label for label in re.findall(r'(\w+)="', labels) if label != "le"]
    return found
