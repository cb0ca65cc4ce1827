"""One Framework while it is being worked on: its planner, what is stored of it, and what waits for another try."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import orjson

from launcher.controller.attempt_hook import AttemptHook, pod_overlays
from launcher.controller.gang.gang_request import BACKEND_LABEL, reference
from launcher.core.errors import FieldError
from launcher.core.framework import Framework
from launcher.core.planning.actions import CreatePod
from launcher.core.planning.gang import is_placed, is_unplaced
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.pods.pod_template import PodTemplate, compile_templates
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.serialization.status_json import status_from_json, status_to_json
from launcher.core.spec import ExecutionType, FrameworkName, FrameworkSpec, PodName, RoleName
from launcher.store.backoff import ExponentialBackoff
from launcher.store.interface import FRAMEWORKS, Key, Object, Version, key_of, version_of

#: Every rule that a Framework breaks; empty when it may be run.
Validator = Callable[[Object], Sequence[FieldError]]

#: Characters of what is told of a spec that cannot be run: as many as an event can hold.
_LONGEST_FAULT = 1024


class FrameworkState:
    """
    Everything that is known and thought about one Framework.

    The status in the planner is the truth as long as nobody else writes one: ``observe`` and ``settle`` find out.
    """

    def __init__(
        self, obj: Object, rules: PlannerOptions, pods: Iterable[ObservedPod], check: Validator
    ) -> None:
        self._rules, self._check = rules, check
        self.pauses = ExponentialBackoff(first=0.05, most=60.0)
        #: Pods whose creation or deletion did not work: tried again when the back-off is over.
        self.retry_pods: set[PodName] = set()
        #: Pods whose creation may or may not have worked: asked for before anything else is thought.
        self.unconfirmed_creations: set[PodName] = set()
        #: Whether the status as it was last sent is stored is not known: asked for before anything else is thought.
        self.status_unconfirmed = False
        #: Something else did not work, and has to be tried again with the same pauses.
        self.failed = False
        #: Roles for whose pods the store has no room at present.
        self.blocked_roles: set[RoleName] = set()
        #: On the loop's clock: no look before this, another try at this, the status saved by this.
        self.not_before = 0.0
        self.retry_at = 0.0
        self.save_by: float | None = None
        self._templates: dict[RoleName, PodTemplate] = {}
        #: What the templates are for: attempt and generation; of a gang also how many tasks were over, and its placing.
        self._prepared_for: tuple[int, int, int, bool] | None = None
        self._load(obj, pods)

    def _load(self, obj: Object, pods: Iterable[ObservedPod]) -> None:
        self.key: Key = key_of(obj)
        self.version: Version = version_of(obj)
        self.framework = self._read(obj)
        self.planner = Planner(self.framework, self._rules)
        self._stored = _digest(obj.get("status"))
        self._sent: bytes | None = None
        # The planner has the record from now on; a second copy would only cost memory.
        self.framework = replace(self.framework, status=None)
        for pod in pods:
            self.planner.attempt_state.observe_pod(pod)

    @property
    def uid(self) -> str:
        return self.framework.uid

    @property
    def reference(self) -> Object:
        """The Framework as events refer to it."""
        return reference(self.framework)

    @property
    def tasks(self) -> int:
        """How many tasks the status tells of."""
        return sum(len(crew.tasks) for crew in self.planner.attempt_state.crews.values())

    def observe(self, obj: Object) -> bool:
        """Take in the Framework as somebody stored it; True when it has to be looked at."""
        if version_of(obj) <= self.version:
            return False
        digest = _digest(obj.get("status"))
        if digest not in (self._stored, self._sent):
            self._load(obj, list(self.planner.attempt_state.pods.values()))
            return True
        self.version, self._stored = version_of(obj), digest
        meta = obj["metadata"]
        deleting = "deletionTimestamp" in meta
        if (meta["generation"], deleting) == (self.framework.generation, self.framework.deleting):
            return False
        self.framework = framework_from_json({**obj, "status": None}, self._fault_of(obj))
        self.planner.update(self.framework)
        return True

    def _read(self, obj: Object) -> Framework:
        """
        The Framework that *obj* is, with its status.

        A generation that was once accepted is not checked again: what runs is not held up by rules that are newer.
        """
        accepted = (obj.get("status") or {}).get("observedGeneration")
        return framework_from_json(
            obj, "" if accepted == obj["metadata"]["generation"] else self._fault_of(obj)
        )

    def _fault_of(self, obj: Object) -> str:
        problems = self._check({name: value for name, value in obj.items() if name != "status"})
        return "; ".join(map(str, problems))[:_LONGEST_FAULT]

    def status_update(self) -> Object:
        """The Framework with its status as it is now, for storing."""
        namespace, name = self.key
        status = status_to_json(self.planner.status(), self.framework.name, self.uid)
        self._sent = _digest(status)
        return {
            "apiVersion": FRAMEWORKS.api_version,
            "kind": FRAMEWORKS.kind,
            "metadata": {
                "namespace": namespace,
                "name": name,
                "uid": self.uid,
                "resourceVersion": str(self.version),
            },
            "status": status,
        }

    def status_stored(self, obj: Object) -> bool:
        """The store has what ``send`` gave, and answered with *obj*; False when somebody has gone beyond that."""
        if version_of(obj) < self.version:
            return False
        self.version, self._stored, self._sent = version_of(obj), _digest(obj.get("status")), None
        self.planner.mark_saved()
        self.save_by = None
        return True

    def settle(self, live: Object) -> bool:
        """After a write that failed or whose fate is unknown: whether the status as it was sent is stored."""
        if _digest(live.get("status")) == self._sent:
            return self.status_stored(live)
        self.observe(live)
        self._sent = None
        return False

    @property
    def needs_preparing(self) -> bool:
        """Whether what was prepared for this attempt is for the spec as it was before a change, or may be."""
        attempt, generation, *_ = self._prepared_for or (None, 0)
        wish = self.framework
        goes_on = not (wish.fault or wish.deleting or self.planner.is_completed)
        if not goes_on or wish.spec.execution is not ExecutionType.START:
            return False
        # Whoever waits for more pods than are wanted since the last launcher ended would wait for ever.
        is_unsure = self._prepared_for is None and is_unplaced(self.planner.summary)
        return is_unsure or (attempt == self.planner.attempt and generation != wish.generation)

    @property
    def _over(self) -> int:
        """How many tasks of a gang are over: some schedulers do not count their pods, and must be told of fewer."""
        if self.framework.spec.gang is None:
            return 0
        return self.tasks - sum(crew.unfinished for crew in self.planner.attempt_state.crews.values())

    async def prepare(self, attendants: Sequence[AttemptHook]) -> None:
        """See to what the pods of this attempt need beside themselves. Raises LauncherError while that cannot be."""
        # As it is now: it may be edited meanwhile.
        status, attempt = self.planner.summary, self.planner.attempt
        framework = replace(self.framework, status=status)
        wanted = (attempt, framework.generation, self._over, is_placed(status))
        if self._prepared_for != wanted:
            extras = await pod_overlays(attendants, framework, attempt)
            self._templates = compile_templates(framework, attempt, extras)
            placers = (each.labels.get(BACKEND_LABEL) for each in extras.values())
            self.planner.gang_backend = next(filter(None, placers), "")
            self._prepared_for = wanted

    def manifest(self, action: CreatePod) -> Object | None:
        """The pod to create, for which all is prepared; None when the spec has changed since that was decided."""
        if self._prepared_for is None or self._prepared_for[:2] != (
            self.planner.attempt,
            self.framework.generation,
        ):
            return None
        template = self._templates.get(action.role)
        return None if template is None else template.pod(action.index, action.incarnation, action.attempt)


def framework_from_json(obj: Mapping[str, Any], fault: str = "") -> Framework:
    """The Framework that *obj* is. Raises ValueError when its status is none of ours."""
    meta = obj["metadata"]
    return Framework(
        name=FrameworkName(meta["name"]),
        namespace=meta["namespace"],
        uid=meta["uid"],
        generation=meta["generation"],
        # What cannot be run may not even be readable.
        spec=FrameworkSpec(roles=()) if fault else spec_from_json(obj["spec"], meta.get("annotations")),
        status=status_from_json(obj.get("status") or {}),
        deleting="deletionTimestamp" in meta,
        fault=fault,
    )


def _digest(status: Mapping[str, Any] | None) -> bytes:
    """Tells two statuses apart without keeping them."""
    return blake2b(orjson.dumps(status or None, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
