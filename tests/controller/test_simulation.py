"""A share of the simulation: every workload, every kind of trouble, a few seeds. ``make simulate`` plays more."""

from collections.abc import Callable, Iterator

import pytest

from launcher.controller.framework_controller import FrameworkController
from launcher.controller.framework_state import FrameworkState
from launcher.core.planning.attempt_state import AttemptState
from launcher.core.status import TaskStatus
from launcher.store.interface import Object
from tests.controller.simulation.audit import Broken
from tests.controller.simulation.run import Case, run
from tests.controller.simulation.scenes import KINDS, WORKLOADS

pytestmark = pytest.mark.usefixtures("quiet_log")

SEEDS = range(3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_promise_is_kept(workload: str, kind: str) -> None:
    for seed in SEEDS:
        case = Case(workload, kind, seed)
        try:
            run(case)
        except Broken as broken:
            raise Broken(f"{broken}\nplay it again: make simulate CASE={case}") from broken


@pytest.mark.parametrize("kind", ["calm", "crashes", "everything"])
def test_a_seed_plays_the_same_every_time(kind: str) -> None:
    assert run(Case("retry-storm", kind, 7)) == run(Case("retry-storm", kind, 7))


def test_two_seeds_play_differently() -> None:
    assert run(Case("retry-storm", "everything", 1)) != run(Case("retry-storm", "everything", 2))


# The simulation itself must be able to fail. Each of these breaks one rule of the launcher, and is found out.


async def _acts_before_saving(self: FrameworkController, desk: FrameworkState) -> bool:
    desk.planner.mark_saved()
    return True


def _trusts_its_cache(self: AttemptState, task: TaskStatus) -> bool:
    return False


def _settles_nothing(self: FrameworkState, live: Object) -> bool:
    return True


BREAKS: dict[str, tuple[type, str, Callable[..., object], str, str]] = {
    "it acts before it saves": (FrameworkController, "_save", _acts_before_saving, "retry-storm", "calm"),
    "it trusts a cache that is behind": (
        AttemptState,
        "_may_be_there",
        _trusts_its_cache,
        "ordered-roles",
        "two-controllers",
    ),
    "it takes a failed save for a saved one": (
        FrameworkState,
        "settle",
        _settles_nothing,
        "retry-storm",
        "refusals",
    ),
}


def _failures(workload: str, kind: str) -> Iterator[Exception]:
    for seed in range(15):
        try:
            run(Case(workload, kind, seed))
        except Exception as error:  # a broken launcher may fail in any way
            yield error
            return


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_launcher_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, broken, workload, kind = BREAKS[name]
    monkeypatch.setattr(owner, attribute, broken)

    assert list(_failures(workload, kind)), f"nobody noticed that {name}"
