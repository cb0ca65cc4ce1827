"""Probes: asked again and again, until enough answers in a row say the same."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.node.pods.reaching import Outcome


@dataclass(frozen=True, slots=True)
class Probe:
    """What to ask, when, and how many answers count."""

    action: Mapping[str, Any]
    delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3
    #: Seconds that a container has to end when this probe ends it; None is what the pod says.
    grace: int | None = None


def probe_of(spec: Mapping[str, Any] | None) -> Probe | None:
    """The probe that a container's spec describes; None if it has none."""
    if not spec:
        return None
    return Probe(
        spec,
        float(spec.get("initialDelaySeconds") or 0),
        float(spec.get("periodSeconds") or 10),
        float(spec.get("timeoutSeconds") or 1),
        int(spec.get("successThreshold") or 1),
        int(spec.get("failureThreshold") or 3),
        spec.get("terminationGracePeriodSeconds"),
    )


class Tally:
    """Answers counted in a row."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._good: bool | None = None
        self._count = 0

    def count(self, good: bool) -> bool | None:
        """What the answers so far say; None while too few of them agree."""
        self._count = self._count + 1 if good is self._good else 1
        self._good = good
        enough = self._probe.successes if good else self._probe.failures
        return good if self._count >= enough else None


async def answers(
    probe: Probe, ask: Callable[[Mapping[str, Any], float], Awaitable[Outcome]], age: float
) -> AsyncGenerator[tuple[Outcome, bool | None], None]:
    """Every answer with what the answers so far say; *age* is how long the container has been running."""
    tally = Tally(probe)
    await asyncio.sleep(max(0.0, probe.delay - age))
    while True:
        outcome = await ask(probe.action, probe.timeout)
        yield outcome, tally.count(outcome.good)
        await asyncio.sleep(probe.period)
