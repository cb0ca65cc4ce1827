"""The simulation with a few seeds per workload and disruption. ``make simulate`` runs more."""

from collections.abc import Callable, Iterator

import pytest

from launcher.controller.framework_controller import FrameworkController
from launcher.controller.framework_state import FrameworkState
from launcher.controller.log_archiver import LogArchiver
from launcher.controller.log_copier import ContainerLogCopier
from launcher.core.planning.attempt_state import AttemptState
from launcher.core.status import TaskStatus
from launcher.store.interface import Key, Object
from tests.controller.simulation.audit import InvariantViolation
from tests.controller.simulation.run import Case, run
from tests.controller.simulation.scenarios import DISRUPTIONS, WORKLOADS

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.mark.parametrize("seeds", [[0], pytest.param([1, 2], marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("disruption", DISRUPTIONS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_invariant_is_violated(workload: str, disruption: str, seeds: list[int]) -> None:
    for seed in seeds:
        case = Case(workload, disruption, seed)
        try:
            run(case)
        except InvariantViolation as violation:
            raise InvariantViolation(f"{violation}\nrepeat with: make simulate CASE={case}") from violation


@pytest.mark.parametrize("disruption", ["calm", "crashes", "everything"])
def test_runs_with_the_same_seed_are_equal(disruption: str) -> None:
    assert run(Case("retry-storm", disruption, 7)) == run(Case("retry-storm", disruption, 7))


def test_runs_with_different_seeds_differ() -> None:
    assert run(Case("retry-storm", "everything", 1)) != run(Case("retry-storm", "everything", 2))


# The simulation itself must be able to fail. Each of these defects violates one rule of the launcher.


async def _executes_before_saving(self: FrameworkController, state: FrameworkState) -> bool:
    state._planner.mark_saved()
    return True


def _trusts_its_cache(self: AttemptState, task: TaskStatus) -> bool:
    return False


def _assumes_the_write_is_stored(self: FrameworkState, live: Object) -> bool:
    self.writer.is_unconfirmed = False
    return True


def _is_always_deletable(self: LogArchiver, key: Key, uid: str) -> bool:
    return True


def _is_deletable_without_limit(self: LogArchiver, key: Key, uid: str) -> bool:
    pod = self._pods.get(key)
    is_pending = pod is not None and any(run.is_pending for run in pod.runs.values())
    if pod is not None and is_pending:
        pod.deletion_due = 0.0
    return not is_pending


def _notifies_nothing(self: LogArchiver, pod: object) -> None:
    pass


async def _reads_any_log(self: ContainerLogCopier, *args: object, **options: object) -> bytes:
    return b"2026-01-01T00:00:00.000000000Z of another pod\n"


DEFECTS: dict[str, tuple[type, str, Callable[..., object], str, str]] = {
    "actions before the status is saved": (
        FrameworkController,
        "_save",
        _executes_before_saving,
        "retry-storm",
        "calm",
    ),
    "no live list of pods": (
        AttemptState,
        "_may_exist",
        _trusts_its_cache,
        "ordered-roles",
        "two-controllers",
    ),
    "a failed status write is assumed to be stored": (
        FrameworkState,
        "resolve_status_write",
        _assumes_the_write_is_stored,
        "retry-storm",
        "error-responses",
    ),
    "a deletion does not wait for the log archive": (
        LogArchiver,
        "is_deletable",
        _is_always_deletable,
        "retry-storm",
        "log-archive",
    ),
    "a deletion waits for the log archive without a limit": (
        LogArchiver,
        "is_deletable",
        _is_deletable_without_limit,
        "retry-storm",
        "hanging-archive",
    ),
    "a deletion that waited is forgotten": (
        LogArchiver,
        "_notify",
        _notifies_nothing,
        "retry-storm",
        "slow-archive",
    ),
    "another pod's log is stored": (
        ContainerLogCopier,
        "read",
        _reads_any_log,
        "retry-storm",
        "log-archive",
    ),
}


def _failures(workload: str, disruption: str) -> Iterator[Exception]:
    for seed in range(15):
        try:
            run(Case(workload, disruption, seed))
        except Exception as error:  # a defect may cause any error
            yield error
            return


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, replacement, workload, disruption = DEFECTS[name]
    monkeypatch.setattr(owner, attribute, replacement)

    assert list(_failures(workload, disruption))
