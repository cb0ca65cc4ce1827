"""The parts of the log archive: its settings, the check of its access, and its metrics."""

from pathlib import Path
from random import Random

import pytest
from aiohttp.test_utils import make_mocked_request

from launcher.api.middleware.metrics import Metrics
from launcher.controller.log_copier import ArchiveFault, LogArchiveCounts
from launcher.settings.cluster import LogArchiveSettings
from launcher.settings.values import InvalidSetting
from launcher.wiring.log_archive import LogArchiveParts, log_archive_metrics
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.faults import Faults
from tests.controller.simulation.logs import SimulatedLogs
from tests.log_archive.s3_server import s3_environment


def parts(url: str, timeout_seconds: float = 30.0) -> LogArchiveParts:
    random = Random(1)
    logs = SimulatedLogs(SimulatedStore(random), Faults(), random)
    return LogArchiveParts(logs, LogArchiveSettings(url, 4096, timeout_seconds))


async def test_a_store_that_lacks_a_setting_is_rejected_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)

    with pytest.raises(InvalidSetting, match=r"log-archive: .*Account") as raised:
        parts("az://logs")

    assert "\n" not in str(raised.value)


async def test_an_accessible_archive_causes_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await parts(f"file://{tmp_path}").check_access()

    assert caplog.records == []


async def test_an_archive_that_is_not_accessible_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in s3_environment("http://127.0.0.1:1").items():
        monkeypatch.setenv(name, value)

    await parts("s3://logs/team").check_access()

    (record,) = caplog.records
    assert record.message == "log archive not accessible"
    assert vars(record)["url"] == "s3://logs/team"


async def test_the_metrics_report_what_was_stored_and_what_failed() -> None:
    counts = LogArchiveCounts(stored=3, stored_bytes=70, lost=1, pending=2)
    counts.failures[ArchiveFault.ARCHIVE_TIMEOUT] = 4

    response = await Metrics(gauges=list(log_archive_metrics(counts))).expose(make_mocked_request("GET", "/"))

    assert isinstance(response.body, bytes)
    lines = response.body.decode().splitlines()
    assert {
        "# TYPE launcher_log_archive_stored_total counter",
        "launcher_log_archive_stored_total 3.0",
        "launcher_log_archive_stored_bytes_total 70.0",
        'launcher_log_archive_failures_total{reason="ArchiveTimeout"} 4.0',
        'launcher_log_archive_failures_total{reason="PodDeleted"} 0.0',
        "launcher_log_archive_lost_total 1.0",
        "# TYPE launcher_log_archive_pending gauge",
        "launcher_log_archive_pending 2.0",
    } <= set(lines)
