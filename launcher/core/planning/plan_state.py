"""The state of a planner: the Framework, its tasks and status, and the results of the current pass."""

from launcher.core.framework import Framework
from launcher.core.planning.actions import Action, ListPodsLive
from launcher.core.planning.attempt_state import AttemptState
from launcher.core.planning.completion_tracker import CompletionTracker
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.rescale import new_roles
from launcher.core.planning.status_builder import StatusBuilder
from launcher.core.spec import FrameworkSpec
from launcher.core.timestamps import Time


class PlanState:
    """Shared by the planner and the end of an attempt."""

    def __init__(self, framework: Framework, options: PlannerOptions) -> None:
        self.framework, self.options = framework, options
        self.tasks = AttemptState(framework.name, framework.uid)
        self.completions = CompletionTracker()
        #: None before the first pass of a new Framework.
        self.builder: StatusBuilder | None = None
        #: Actions of the current pass, in addition to those of its tasks.
        self.actions: list[Action] = []
        #: The id of the attempt whose FrameworkAttempt is stored.
        self.recorded_attempt: int | None = None
        #: Times at which another pass is needed.
        self.requeue_times: list[Time] = []

    @property
    def spec(self) -> FrameworkSpec:
        return self.framework.spec

    @property
    def status(self) -> StatusBuilder:
        if self.builder is None:
            raise ValueError("a Framework has no status before the first pass")
        return self.builder

    @property
    def now(self) -> Time:
        return self.status.now

    @property
    def is_ending(self) -> bool:
        """The current attempt has a completion; its pods may still exist."""
        return self.status.attempt.completion is not None

    def create_tasks(self, attempt: int) -> None:
        """Replaces all tasks by those of a new attempt."""
        self.tasks.start_attempt(attempt, new_roles(self.spec, self.now))
        self.completions.recount(self.tasks.roles.values())

    def request_live_pods(self) -> None:
        """Requests another pass with pods that are listed from the store."""
        if ListPodsLive() not in self.actions:
            self.actions.append(ListPodsLive())
