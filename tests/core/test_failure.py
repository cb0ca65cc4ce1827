"""What the end of a pod means."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.completion_codes import Attribute, Completion, ContainerDetail, PodDetail
from launcher.core.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    InvalidObject,
    LauncherError,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from launcher.core.failures.classifier import DEFAULT_RULES, FailureClassifier, creation_failure
from launcher.core.failures.default_spec import DEFAULT_SPEC

TRANSIENT, PERMANENT, CONFLICT = Attribute.TRANSIENT, Attribute.PERMANENT, Attribute.CONFLICT
Json = dict[str, Any]


def exited(
    code: int, reason: str = "", message: str = "", *, name: str = "main", at: str | None = None
) -> Json:
    """The status of a container that ended."""
    terminated = {"exitCode": code, "reason": reason, "message": message, "finishedAt": at}
    return {"name": name, "state": {"terminated": terminated}}


def still(state: str, name: str = "other") -> Json:
    """The status of a container that is ``waiting`` or ``running``."""
    return {"name": name, "state": {state: {}}}


def failed(*containers: Json, init: tuple[Json, ...] = (), **told: Any) -> Json:
    """The status of a failed pod, with the conditions that every pod has."""
    usual = [
        {"type": "PodScheduled", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "PodFailed"},
    ]
    return {
        "phase": "Failed",
        "conditions": usual + told.pop("conditions", []),
        "initContainerStatuses": list(init) or None,
        "containerStatuses": list(containers),
        **told,
    }


def end_of(status: Mapping[str, Any], rules: FailureClassifier = DEFAULT_RULES) -> Completion:
    return rules.classify(status, "f-w-0")


def told_by(completion: Completion) -> Any:
    """What clients make of the diagnostics: one line, JSON after ``matched: ``."""
    found = re.fullmatch(r"Pod failed: PodPattern (?:un)?matched: (.*)", completion.diagnostics)
    assert found is not None
    return json.loads(found[1])


def rule(code: object, *patterns: Json, **more: Any) -> Json:
    return {"code": code, "podPatterns": list(patterns), **more}


AT_TEN, LATER = "2026-01-31T10:00:00Z", "2026-01-31T10:05:00Z"
NO_SUCH_FILE = 'exec: "trian": stat: No such file or directory'
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}


@pytest.mark.parametrize(
    ("status", "code", "phrase", "attributes"),
    [
        pytest.param(failed(exited(1)), 1, "ContainerUnrecognizedFailed", set(), id="G1 exit 1"),
        pytest.param(failed(exited(200)), 200, "ContainerTransientFailed", {TRANSIENT}, id="G2 exit 200"),
        pytest.param(
            failed(exited(201)),
            201,
            "ContainerTransientConflictFailed",
            {TRANSIENT, CONFLICT},
            id="G2 exit 201",
        ),
        pytest.param(failed(exited(210)), 210, "ContainerPermanentFailed", {PERMANENT}, id="G2 exit 210"),
        pytest.param(failed(exited(202)), 202, "ContainerUnrecognizedFailed", set(), id="G3 exit 202"),
        pytest.param(
            failed(exited(210), exited(200)),
            200,
            "ContainerTransientFailed",
            {TRANSIENT},
            id="G4 two containers, 210 and 200",
        ),
        pytest.param(
            failed(still("waiting"), init=(exited(201, name="init"),)),
            201,
            "ContainerTransientConflictFailed",
            {TRANSIENT, CONFLICT},
            id="G5 init container 201",
        ),
        pytest.param(
            failed(reason="Evicted"), -1000, "PodEvicted", {TRANSIENT}, id="G6 evicted, no statuses"
        ),
        pytest.param(
            failed(exited(200), reason="Evicted"),
            200,
            "ContainerTransientFailed",
            {TRANSIENT},
            id="G7 evicted, but a container exited 200",
        ),
        pytest.param(
            failed(exited(137, "OOMKilled")),
            -1200,
            "ContainerDockerOOMKilled",
            {PERMANENT},
            id="G8 exit 137 with reason OOMKilled",
        ),
        pytest.param(
            failed(exited(137, "Error")),
            137,
            "ContainerSigKillReceived",
            {TRANSIENT},
            id="G9 exit 137 with reason Error",
        ),
        pytest.param(failed(exited(139)), 139, "ContainerSigSegvReceived", {PERMANENT}, id="G10 exit 139"),
        pytest.param(failed(exited(143)), 143, "ContainerSigTermReceived", {TRANSIENT}, id="G10 exit 143"),
        pytest.param(failed(exited(134)), 134, "ContainerSigAbrtReceived", set(), id="G10 exit 134"),
        pytest.param(
            failed(exited(127, "ContainerCannotRun")),
            -1203,
            "ContainerDockerStartCmdNotFound",
            {PERMANENT},
            id="G11 cannot run, 127",
        ),
        pytest.param(
            failed(exited(128, "ContainerCannotRun", NO_SUCH_FILE)),
            -1203,
            "ContainerDockerStartCmdNotFound",
            {PERMANENT},
            id="G12 cannot run, 128, no such file",
        ),
        pytest.param(
            failed(exited(128, "ContainerCannotRun", "devices\nare busy")),
            -1204,
            "ContainerDockerStartUnknownError",
            set(),
            id="G13 cannot run, 128, another message",
        ),
        pytest.param(
            failed(reason="OutOfcpu"),
            -1002,
            "PodScheduledToInsufficientResourceNode",
            {TRANSIENT},
            id="G14 out of cpu",
        ),
        pytest.param(
            failed(exited(137), reason="DeadlineExceeded"),
            -1004,
            "PodDeadlineExceeded",
            {PERMANENT},
            id="G15 deadline exceeded comes before 137",
        ),
        pytest.param(
            failed(exited(1, at=AT_TEN), exited(3, at=LATER)),
            3,
            "ContainerUnrecognizedFailed",
            set(),
            id="G16 the container that failed last counts",
        ),
        pytest.param(
            failed(exited(3, at=LATER), exited(1, at=AT_TEN)),
            3,
            "ContainerUnrecognizedFailed",
            set(),
            id="G16 wherever it stands",
        ),
        pytest.param(
            failed(exited(1, at=AT_TEN), exited(3, at=AT_TEN)),
            1,
            "ContainerUnrecognizedFailed",
            set(),
            id="G17 of two at the same time the first counts",
        ),
        pytest.param(
            failed(exited(1), exited(3, at="soon")),
            1,
            "ContainerUnrecognizedFailed",
            set(),
            id="G17 times that are missing or unreadable are the same time",
        ),
        pytest.param(
            failed(exited(1), exited(3, at=AT_TEN)),
            3,
            "ContainerUnrecognizedFailed",
            set(),
            id="G17 a missing time is the earliest",
        ),
        pytest.param(
            failed(), -300, "PodFailedWithoutFailedContainer", set(), id="G18 no statuses, no reason"
        ),
        pytest.param(
            failed(exited(0), still("running")),
            -300,
            "PodFailedWithoutFailedContainer",
            set(),
            id="G19 one exited 0, one still running",
        ),
        # What the reference's table does not know yet (GAP-20).
        pytest.param(
            failed(exited(128, "StartError", NO_SUCH_FILE)),
            -1203,
            "ContainerDockerStartCmdNotFound",
            {PERMANENT},
            id="a newer runtime cannot find the command",
        ),
        pytest.param(
            failed(exited(128, "StartError", 'exec: "/x": permission denied')),
            -1202,
            "ContainerDockerStartCmdPermissionDenied",
            {PERMANENT},
            id="a newer runtime may not run the command",
        ),
        pytest.param(
            failed(exited(128, "StartError")),
            -1204,
            "ContainerDockerStartUnknownError",
            set(),
            id="a newer runtime does not say why it cannot start",
        ),
        pytest.param(
            failed(exited(137, "ContainerStatusUnknown")),
            -1205,
            "ContainerStatusUnknown",
            {TRANSIENT},
            id="the node no longer knows the container",
        ),
        pytest.param(
            failed(exited(143), reason="Terminated", conditions=[DISRUPTED]),
            -1007,
            "PodNodeShutdown",
            {TRANSIENT},
            id="the node shut down around the pod",
        ),
        pytest.param(
            failed(reason="NodeShutdown"),
            -1007,
            "PodNodeShutdown",
            {TRANSIENT},
            id="the node was shutting down when the pod came",
        ),
        pytest.param(
            failed(exited(1), conditions=[DISRUPTED]),
            -1008,
            "PodDisrupted",
            {TRANSIENT},
            id="a disrupted pod's exit code says nothing",
        ),
        pytest.param(
            failed(exited(1), conditions=[DISRUPTED | {"status": "False"}]),
            1,
            "ContainerUnrecognizedFailed",
            set(),
            id="a condition that does not hold says nothing",
        ),
        pytest.param(
            failed(exited(1), reason="Evicted", conditions=[DISRUPTED]),
            -1000,
            "PodEvicted",
            {TRANSIENT},
            id="a particular reason comes before the disruption",
        ),
        *[
            pytest.param(
                failed(reason=reason),
                -300,
                "PodFailedWithoutFailedContainer",
                set(),
                id=f"{reason} is another reason",
            )
            for reason in ("PartlyEvicted", "EvictedNot")
        ],
        *[
            pytest.param(
                failed(exited(137, reason)),
                137,
                "ContainerSigKillReceived",
                {TRANSIENT},
                id=f"{reason} is another reason",
            )
            for reason in ("NotOOMKilled", "OOMKilledAlmost")
        ],
        pytest.param(failed(reason="evicted"), -1000, "PodEvicted", {TRANSIENT}, id="a reason has any case"),
    ],
)
def test_a_failed_pod_is_classified(status: Json, code: int, phrase: str, attributes: set[Attribute]) -> None:
    completion = end_of(status)

    assert (completion.code, completion.phrase) == (code, phrase)
    assert completion.attributes == attributes
    assert completion.failed


@pytest.mark.parametrize(
    ("text", "exit_code", "expected"),
    [
        pytest.param("step 7\nRuntimeError: CUDA Out of Memory (40 GiB)", 1, 221, id="G20 the text occurs"),
        pytest.param("all is well", 1, 1, id="G20 the text does not occur"),
        pytest.param("out of memory", 0, -300, id="G20 the exit code is out of range"),
    ],
)
def test_a_message_is_searched_and_a_range_may_be_open(text: str, exit_code: int, expected: int) -> None:
    pattern = {"messageRegex": "(?i)out of memory", "codeRange": {"min": 1}}
    rules = FailureClassifier.of([rule(221, {"containers": [pattern]}, phrase="OutOfGpuMemory")])

    completion = end_of(failed(exited(exit_code, message=text)), rules)

    assert completion.code == expected


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param(
            (exited(3, name="a"), exited(4, name="b")), 300, id="G21 each pattern finds its container"
        ),
        pytest.param((exited(3, name="a"), exited(5, name="b")), 3, id="G21 one pattern finds none"),
        pytest.param(
            (exited(3, name="b"), exited(4, name="b")), 300, id="G21 patterns do not care for order"
        ),
    ],
)
def test_every_container_pattern_needs_a_container(containers: tuple[Json, ...], expected: int) -> None:
    patterns = [{"nameRegex": "^b$", "codeRange": {"min": 4, "max": 4}}, {"codeRange": {"max": 3}}]
    rules = FailureClassifier.of([rule(300, {"containers": patterns})])

    assert end_of(failed(*containers), rules).code == expected


def test_one_container_may_serve_several_patterns() -> None:
    patterns = [{"codeRange": {"min": 4}}, {"nameRegex": "main"}]
    rules = FailureClassifier.of([rule(300, {"containers": patterns})])

    assert end_of(failed(exited(4)), rules).code == 300


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param({"reasonRegex": ""}, id="reason"),
        pytest.param({"messageRegex": ""}, id="message"),
        pytest.param({"signalRange": {"max": 0}}, id="signal"),
        pytest.param({"codeRange": {"max": 0}}, id="code"),
    ],
)
def test_only_the_name_of_a_container_that_still_runs_can_match(pattern: Json) -> None:
    rules = FailureClassifier.of(
        [rule(300, {"containers": [pattern]}), rule(301, {"containers": [{"nameRegex": "o"}]})]
    )

    assert end_of(failed(still("running", name="other")), rules).code == 301


def test_the_previous_life_of_a_container_does_not_matter() -> None:
    restarted = still("running") | {"lastState": exited(137, "OOMKilled")["state"]}

    assert end_of(failed(restarted)).code == -300


def test_a_signal_and_a_pods_name_and_message_can_be_matched() -> None:
    patterns = {
        "nameRegex": "-w-",
        "messageRegex": "low on [a-z]+",
        "containers": [{"signalRange": {"min": 9, "max": 9}}],
    }
    rules = FailureClassifier.of([rule(300, patterns)])
    killed = exited(1)
    killed["state"]["terminated"]["signal"] = 9

    completion = end_of(failed(killed, message="the node was low on memory."), rules)

    assert completion.code == 300
    assert told_by(completion) == {"name": "-w-", "message": "low on memory", "containers": [{"signal": 9}]}
    assert end_of(failed(exited(1), message="the node was low on memory."), rules).code == 1


def test_a_pattern_that_names_nothing_matches_every_failure() -> None:
    assert end_of(failed(exited(7)), FailureClassifier.of([rule(300, {})])).code == 300


def test_the_first_rule_that_matches_wins() -> None:
    anything: Json = {"reasonRegex": "x*"}

    rules = FailureClassifier.of([rule(300, {"reasonRegex": "^y$"}, anything), rule(301, anything)])

    assert end_of(failed(), rules).code == 300


@pytest.mark.parametrize(
    ("status", "told"),
    [
        pytest.param(failed(exited(1), reason="Evicted"), {"reason": "Evicted"}, id="G23 a pod's reason"),
        pytest.param(
            failed(exited(200, "Error", "a\nb")),
            {"containers": [{"name": "main", "message": "a\nb", "code": 200}]},
            id="G23 the exit code contract names the container and its message",
        ),
        pytest.param(
            failed(exited(128, "ContainerCannotRun", NO_SUCH_FILE)),
            {"containers": [{"reason": "ContainerCannotRun", "message": "No such", "code": 128}]},
            id="G23 only the part of a message that was found",
        ),
        pytest.param(
            failed(exited(1), conditions=[DISRUPTED]),
            {"conditions": [{"type": "DisruptionTarget"}]},
            id="G23 a condition",
        ),
        pytest.param(
            failed(exited(200, message="line\u2028separator\x85")),
            {"containers": [{"name": "main", "message": "line\u2028separator\x85", "code": 200}]},
            id="G23 one line whatever the message",
        ),
    ],
)
def test_the_diagnostics_of_a_match_hold_only_what_the_pattern_names(status: Json, told: Json) -> None:
    completion = end_of(status)

    assert told_by(completion) == told
    assert completion.diagnostics.startswith("Pod failed: PodPattern matched: ")
    assert len(completion.diagnostics.splitlines()) == 1


def test_the_diagnostics_without_a_match_hold_the_whole_detail() -> None:
    status = failed(exited(1, "Error", "boom"), still("waiting", name="late"), message="so it goes")

    completion = end_of(status)

    assert completion.pod == PodDetail(
        "", "so it goes", (ContainerDetail("main", 1, "Error", "boom"), ContainerDetail("late"))
    )
    assert completion.diagnostics == (
        'Pod failed: PodPattern unmatched: {"message":"so it goes","containers":'
        '[{"name":"main","reason":"Error","message":"boom","code":1},{"name":"late","code":0}]}'
    )


def test_a_pod_that_succeeded_succeeds() -> None:
    status = {"phase": "Succeeded", "containerStatuses": [exited(0, "Completed")]}

    completion = end_of(status)

    detail = PodDetail(containers=(ContainerDetail("main", 0, "Completed"),))
    assert completion == Completion(0, "Succeeded", False, diagnostics="Pod succeeded", pod=detail)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", None])
def test_a_pod_that_has_not_ended_cannot_be_classified(phase: str | None) -> None:
    with pytest.raises(ValueError, match="has not ended"):
        end_of({"phase": phase})


def test_of_a_long_log_the_end_is_kept_and_searched() -> None:
    rules = FailureClassifier.of([rule(300, {"containers": [{"messageRegex": "^first"}]})])

    completion = end_of(failed(exited(1, message="first" + "é" * 5000 + "last")), rules)

    assert completion.code == 1
    assert completion.pod is not None
    kept = completion.pod.containers[0].message
    assert kept == "é" * 1022 + "last"


def test_of_a_long_explanation_the_beginning_is_kept() -> None:
    completion = end_of(failed(message="first" + "x" * 5000))

    assert completion.pod is not None
    assert completion.pod.message == "first" + "x" * 2043


def test_many_containers_share_what_is_kept_of_their_messages() -> None:
    completion = end_of(failed(*[exited(1, message="x" * 5000) for _ in range(100)]))

    assert completion.pod is not None
    assert sum(len(container.message) for container in completion.pod.containers) <= 12 * 1024


def test_text_that_is_no_unicode_is_told_all_the_same() -> None:
    told = told_by(end_of(failed(exited(1, message="half a \ud83d"), message="\ude42 the other half")))

    assert told["containers"][0]["message"] == "half a ?"
    assert told["message"] == "? the other half"


def test_the_same_end_is_one_value() -> None:
    assert end_of(failed(exited(1))) is end_of(failed(exited(1, at=AT_TEN)))
    assert end_of(failed(exited(137))) is end_of(failed(exited(137, at=AT_TEN)))


words = st.sampled_from(["", "Evicted", "OOMKilled", "StartError", "Error", "Terminated", "x"])
ends = st.builds(exited, st.sampled_from([0, 1, 3, 128, 137, 200, 201, 210]), words, words)
statuses = st.builds(
    lambda containers, reason, disrupted: failed(
        *containers, reason=reason, conditions=[DISRUPTED] if disrupted else []
    ),
    st.lists(ends | st.builds(still, st.sampled_from(["waiting", "running"])), max_size=3),
    words,
    st.booleans(),
)


@given(st.lists(statuses, max_size=8))
def test_what_earlier_pods_did_never_matters(earlier: list[Json]) -> None:
    used = FailureClassifier.of(DEFAULT_SPEC)

    for status in earlier:
        assert end_of(status, used) == end_of(status, FailureClassifier.of(DEFAULT_SPEC))


@given(statuses)
def test_every_failure_can_be_told_in_one_line_of_json(status: Json) -> None:
    completion = end_of(status)

    assert completion.failed
    assert completion.code != 0
    assert told_by(completion) is not None
    assert "\n" not in completion.diagnostics


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(BadRequest("cannot read it"), -310, id="not understood"),
        pytest.param(Forbidden("denied by policy"), -310, id="forbidden"),
        pytest.param(Forbidden("pods is forbidden: exceeded quota: team"), None, id="over quota waits"),
        pytest.param(BadRequest("the object provided is unrecognized"), None, id="not understood yet"),
        pytest.param(
            Forbidden('pods "p" is forbidden: error looking up service account ns/default: not found'),
            None,
            id="a new namespace has no account yet",
        ),
        pytest.param(
            Forbidden('pods is forbidden: User "l" cannot create resource "pods" in API group ""'),
            None,
            id="it is not the pod, the launcher has no rights yet",
        ),
        pytest.param(
            Forbidden('pods "p" is forbidden: not yet ready to handle request'), None, id="a server starts"
        ),
        pytest.param(InvalidObject("bad"), -200, id="invalid"),
        pytest.param(TooLarge("big"), -200, id="too large"),
        pytest.param(Unavailable("down"), None, id="unavailable"),
        pytest.param(TooManyRequests("slow down"), None, id="too many requests"),
        pytest.param(AlreadyExists("there"), None, id="the name is taken"),
        pytest.param(Conflict("busy"), None, id="conflict"),
        pytest.param(NotFound("no namespace"), None, id="not found"),
    ],
)
def test_only_some_refusals_of_a_pod_are_final(error: LauncherError, code: int | None) -> None:
    completion = creation_failure(error)

    assert (None if completion is None else completion.code) == code
    assert completion is None or str(error) in completion.diagnostics
