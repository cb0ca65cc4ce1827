"""Classification of terminated pods."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.completion_codes import Attribute, Completion, ContainerTermination, PodDetail
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
from launcher.core.failures.classifier import DEFAULT_CLASSIFIER, FailureClassifier, creation_failure
from launcher.core.failures.default_spec import DEFAULT_SPEC
from launcher.core.failures.spec_parser import rules_from_json
from launcher.core.serialization.completion_json import completion_from_json, completion_to_json

TRANSIENT, PERMANENT, CONFLICT = Attribute.TRANSIENT, Attribute.PERMANENT, Attribute.CONFLICT
Json = dict[str, Any]


def terminated(
    code: int, reason: str = "", message: str = "", *, name: str = "main", at: str | None = None
) -> Json:
    """The status of a terminated container."""
    state = {"exitCode": code, "reason": reason, "message": message, "finishedAt": at}
    return {"name": name, "state": {"terminated": state}}


def not_terminated(state: str, name: str = "other") -> Json:
    """The status of a container that is ``waiting`` or ``running``."""
    return {"name": name, "state": {state: {}}}


def failed(*containers: Json, init: tuple[Json, ...] = (), **fields: Any) -> Json:
    """The status of a failed pod, with the conditions that every pod has."""
    default_conditions = [
        {"type": "PodScheduled", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "PodFailed"},
    ]
    return {
        "phase": "Failed",
        "conditions": default_conditions + fields.pop("conditions", []),
        "initContainerStatuses": list(init) or None,
        "containerStatuses": list(containers),
        **fields,
    }


def classify(status: Mapping[str, Any], rules: FailureClassifier = DEFAULT_CLASSIFIER) -> Completion:
    return rules.classify(status, "f-w-0")


def diagnostics_json(completion: Completion) -> Any:
    """The JSON after ``matched: `` in the diagnostics, which are one line."""
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
        pytest.param(failed(terminated(1)), 1, "ContainerUnrecognizedFailed", set(), id="G1 exit 1"),
        pytest.param(failed(terminated(200)), 200, "ContainerTransientFailed", {TRANSIENT}, id="G2 exit 200"),
        pytest.param(
            failed(terminated(201)),
            201,
            "ContainerTransientConflictFailed",
            {TRANSIENT, CONFLICT},
            id="G2 exit 201",
        ),
        pytest.param(failed(terminated(210)), 210, "ContainerPermanentFailed", {PERMANENT}, id="G2 exit 210"),
        pytest.param(failed(terminated(202)), 202, "ContainerUnrecognizedFailed", set(), id="G3 exit 202"),
        pytest.param(
            failed(terminated(210), terminated(200)),
            200,
            "ContainerTransientFailed",
            {TRANSIENT},
            id="G4 two containers, 210 and 200",
        ),
        pytest.param(
            failed(not_terminated("waiting"), init=(terminated(201, name="init"),)),
            201,
            "ContainerTransientConflictFailed",
            {TRANSIENT, CONFLICT},
            id="G5 init container 201",
        ),
        pytest.param(
            failed(reason="Evicted"), -1000, "PodEvicted", {TRANSIENT}, id="G6 evicted, no statuses"
        ),
        pytest.param(
            failed(terminated(200), reason="Evicted"),
            200,
            "ContainerTransientFailed",
            {TRANSIENT},
            id="G7 evicted, but a container exited 200",
        ),
        pytest.param(
            failed(terminated(137, "OOMKilled")),
            -1200,
            "ContainerDockerOOMKilled",
            {PERMANENT},
            id="G8 exit 137 with reason OOMKilled",
        ),
        pytest.param(
            failed(terminated(137, "Error")),
            137,
            "ContainerSigKillReceived",
            {TRANSIENT},
            id="G9 exit 137 with reason Error",
        ),
        pytest.param(
            failed(terminated(139)), 139, "ContainerSigSegvReceived", {PERMANENT}, id="G10 exit 139"
        ),
        pytest.param(
            failed(terminated(143)), 143, "ContainerSigTermReceived", {TRANSIENT}, id="G10 exit 143"
        ),
        pytest.param(failed(terminated(134)), 134, "ContainerSigAbrtReceived", set(), id="G10 exit 134"),
        pytest.param(
            failed(terminated(127, "ContainerCannotRun")),
            -1203,
            "ContainerDockerStartCmdNotFound",
            {PERMANENT},
            id="G11 cannot run, 127",
        ),
        pytest.param(
            failed(terminated(128, "ContainerCannotRun", NO_SUCH_FILE)),
            -1203,
            "ContainerDockerStartCmdNotFound",
            {PERMANENT},
            id="G12 cannot run, 128, no such file",
        ),
        pytest.param(
            failed(terminated(128, "ContainerCannotRun", "devices\nare busy")),
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
            failed(terminated(137), reason="DeadlineExceeded"),
            -1004,
            "PodDeadlineExceeded",
            {PERMANENT},
            id="G15 deadline exceeded comes before 137",
        ),
        pytest.param(
            failed(terminated(1, at=AT_TEN), terminated(3, at=LATER)),
            3,
            "ContainerUnrecognizedFailed",
            set(),
            id="G16 the container that failed last counts",
        ),
        pytest.param(
            failed(terminated(3, at=LATER), terminated(1, at=AT_TEN)),
            3,
            "ContainerUnrecognizedFailed",
            set(),
            id="G16 at any position",
        ),
        pytest.param(
            failed(terminated(1, at=AT_TEN), terminated(3, at=AT_TEN)),
            1,
            "ContainerUnrecognizedFailed",
            set(),
            id="G17 of two at the same time the first counts",
        ),
        pytest.param(
            failed(terminated(1), terminated(3, at="soon")),
            1,
            "ContainerUnrecognizedFailed",
            set(),
            id="G17 times that are missing or unreadable are the same time",
        ),
        pytest.param(
            failed(terminated(1), terminated(3, at=AT_TEN)),
            3,
            "ContainerUnrecognizedFailed",
            set(),
            id="G17 a missing time is the earliest",
        ),
        pytest.param(
            failed(), -300, "PodFailedWithoutFailedContainer", set(), id="G18 no statuses, no reason"
        ),
        pytest.param(
            failed(terminated(0), not_terminated("running")),
            -300,
            "PodFailedWithoutFailedContainer",
            set(),
            id="G19 one exited 0, one still running",
        ),
        # Cases that the table of the reference does not contain (GAP-20).
        pytest.param(
            failed(terminated(128, "StartError", NO_SUCH_FILE)),
            -1203,
            "ContainerDockerStartCmdNotFound",
            {PERMANENT},
            id="a newer runtime cannot find the command",
        ),
        pytest.param(
            failed(terminated(128, "StartError", 'exec: "/x": permission denied')),
            -1202,
            "ContainerDockerStartCmdPermissionDenied",
            {PERMANENT},
            id="a newer runtime has no permission to run the command",
        ),
        pytest.param(
            failed(terminated(128, "StartError")),
            -1204,
            "ContainerDockerStartUnknownError",
            set(),
            id="a newer runtime reports no reason of a failed start",
        ),
        pytest.param(
            failed(terminated(137, "ContainerStatusUnknown")),
            -1205,
            "ContainerStatusUnknown",
            {TRANSIENT},
            id="the node has lost the container",
        ),
        pytest.param(
            failed(terminated(143), reason="Terminated", conditions=[DISRUPTED]),
            -1007,
            "PodNodeShutdown",
            {TRANSIENT},
            id="the node shut down while the pod ran",
        ),
        pytest.param(
            failed(reason="NodeShutdown"),
            -1007,
            "PodNodeShutdown",
            {TRANSIENT},
            id="the node was shutting down when the pod was bound",
        ),
        pytest.param(
            failed(terminated(1), conditions=[DISRUPTED]),
            -1008,
            "PodDisrupted",
            {TRANSIENT},
            id="the exit code of a disrupted pod is ignored",
        ),
        pytest.param(
            failed(terminated(1), conditions=[DISRUPTED | {"status": "False"}]),
            1,
            "ContainerUnrecognizedFailed",
            set(),
            id="a condition with status False is ignored",
        ),
        pytest.param(
            failed(terminated(1), reason="Evicted", conditions=[DISRUPTED]),
            -1000,
            "PodEvicted",
            {TRANSIENT},
            id="a specific reason precedes the disruption",
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
                failed(terminated(137, reason)),
                137,
                "ContainerSigKillReceived",
                {TRANSIENT},
                id=f"{reason} is another reason",
            )
            for reason in ("NotOOMKilled", "OOMKilledAlmost")
        ],
        pytest.param(
            failed(reason="evicted"), -1000, "PodEvicted", {TRANSIENT}, id="reasons are case-insensitive"
        ),
    ],
)
def test_a_failed_pod_is_classified(status: Json, code: int, phrase: str, attributes: set[Attribute]) -> None:
    completion = classify(status)

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
    rules = FailureClassifier.from_json([rule(221, {"containers": [pattern]}, phrase="OutOfGpuMemory")])

    completion = classify(failed(terminated(exit_code, message=text)), rules)

    assert completion.code == expected


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param(
            (terminated(3, name="a"), terminated(4, name="b")), 300, id="G21 each pattern finds its container"
        ),
        pytest.param((terminated(3, name="a"), terminated(5, name="b")), 3, id="G21 one pattern finds none"),
        pytest.param(
            (terminated(3, name="b"), terminated(4, name="b")),
            300,
            id="G21 the order of patterns does not matter",
        ),
    ],
)
def test_every_container_pattern_must_match_a_container(containers: tuple[Json, ...], expected: int) -> None:
    patterns = [{"nameRegex": "^b$", "codeRange": {"min": 4, "max": 4}}, {"codeRange": {"max": 3}}]
    rules = FailureClassifier.from_json([rule(300, {"containers": patterns})])

    assert classify(failed(*containers), rules).code == expected


def test_one_container_may_match_several_patterns() -> None:
    patterns = [{"codeRange": {"min": 4}}, {"nameRegex": "main"}]
    rules = FailureClassifier.from_json([rule(300, {"containers": patterns})])

    assert classify(failed(terminated(4)), rules).code == 300


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param({"reasonRegex": ""}, id="reason"),
        pytest.param({"messageRegex": ""}, id="message"),
        pytest.param({"signalRange": {"max": 0}}, id="signal"),
        pytest.param({"codeRange": {"max": 0}}, id="code"),
    ],
)
def test_of_a_running_container_only_the_name_can_match(pattern: Json) -> None:
    rules = FailureClassifier.from_json(
        [rule(300, {"containers": [pattern]}), rule(301, {"containers": [{"nameRegex": "o"}]})]
    )

    assert classify(failed(not_terminated("running", name="other")), rules).code == 301


def test_the_last_state_of_a_restarted_container_is_ignored() -> None:
    restarted = not_terminated("running") | {"lastState": terminated(137, "OOMKilled")["state"]}

    assert classify(failed(restarted)).code == -300


def test_a_signal_and_a_pods_name_and_message_can_be_matched() -> None:
    patterns = {
        "nameRegex": "-w-",
        "messageRegex": "low on [a-z]+",
        "containers": [{"signalRange": {"min": 9, "max": 9}}],
    }
    rules = FailureClassifier.from_json([rule(300, patterns)])
    killed = terminated(1)
    killed["state"]["terminated"]["signal"] = 9

    completion = classify(failed(killed, message="the node was low on memory."), rules)

    assert completion.code == 300
    assert diagnostics_json(completion) == {
        "name": "-w-",
        "message": "low on memory",
        "containers": [{"signal": 9}],
    }
    assert classify(failed(terminated(1), message="the node was low on memory."), rules).code == 1


def test_an_empty_pattern_matches_every_failure() -> None:
    assert classify(failed(terminated(7)), FailureClassifier.from_json([rule(300, {})])).code == 300


def test_the_rules_of_a_role_precede_those_of_the_cluster() -> None:
    killed = {"containers": [{"codeRange": {"min": 137, "max": 137}}]}
    cluster = FailureClassifier.from_json([rule(300, killed), *DEFAULT_SPEC])

    of_role = cluster.for_role([rule(301, killed, type={"attributes": ["Permanent"]})])

    assert classify(failed(terminated(137)), cluster).code == 300
    assert classify(failed(terminated(137)), of_role).code == 301
    assert classify(failed(terminated(137)), of_role).attributes == {PERMANENT}
    assert classify(failed(terminated(143)), of_role).phrase == "ContainerSigTermReceived"
    assert cluster.for_role([]) is cluster


def test_predefined_exit_codes_precede_the_rules_of_a_role() -> None:
    of_role = DEFAULT_CLASSIFIER.for_role([rule(300, {})])

    assert classify(failed(terminated(200)), of_role).code == 200


def test_replaced_rules_apply_to_the_next_pod_of_every_role() -> None:
    cluster = FailureClassifier.from_json([rule(300, {"containers": [{"codeRange": {"min": 3, "max": 3}}]})])
    entries = [rule(301, {"containers": [{"codeRange": {"min": 4, "max": 4}}]})]
    assert classify(failed(terminated(3)), cluster.for_role(entries)).code == 300

    cluster.replace_rules(rules_from_json([rule(302, {"containers": [{"codeRange": {"min": 3}}]})]))

    assert classify(failed(terminated(3)), cluster).code == 302
    assert classify(failed(terminated(3)), cluster.for_role(entries)).code == 302
    assert classify(failed(terminated(4)), cluster.for_role(entries)).code == 301


def test_the_first_matching_rule_is_used() -> None:
    anything: Json = {"reasonRegex": "x*"}

    rules = FailureClassifier.from_json([rule(300, {"reasonRegex": "^y$"}, anything), rule(301, anything)])

    assert classify(failed(), rules).code == 300


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        pytest.param(failed(terminated(1), reason="Evicted"), {"reason": "Evicted"}, id="G23 a pod's reason"),
        pytest.param(
            failed(terminated(200, "Error", "a\nb")),
            {"containers": [{"name": "main", "message": "a\nb", "code": 200}]},
            id="G23 the exit code contract names the container and its message",
        ),
        pytest.param(
            failed(terminated(128, "ContainerCannotRun", NO_SUCH_FILE)),
            {"containers": [{"reason": "ContainerCannotRun", "message": "No such", "code": 128}]},
            id="G23 only the part of a message that was found",
        ),
        pytest.param(
            failed(terminated(1), conditions=[DISRUPTED]),
            {"conditions": [{"type": "DisruptionTarget"}]},
            id="G23 a condition",
        ),
        pytest.param(
            failed(terminated(200, message="line\u2028separator\x85")),
            {"containers": [{"name": "main", "message": "line\u2028separator\x85", "code": 200}]},
            id="G23 one line whatever the message",
        ),
    ],
)
def test_the_diagnostics_of_a_match_contain_only_the_matched_fields(status: Json, fields: Json) -> None:
    completion = classify(status)

    assert diagnostics_json(completion) == fields
    assert completion.diagnostics.startswith("Pod failed: PodPattern matched: ")
    assert len(completion.diagnostics.splitlines()) == 1


def test_the_diagnostics_without_a_match_contain_all_fields() -> None:
    status = failed(
        terminated(1, "Error", "boom"), not_terminated("waiting", name="late"), message="so it goes"
    )

    completion = classify(status)

    assert completion.pod == PodDetail(
        "", "so it goes", (ContainerTermination("main", 1, "Error", "boom"), ContainerTermination("late"))
    )
    assert completion.diagnostics == (
        'Pod failed: PodPattern unmatched: {"message":"so it goes","containers":'
        '[{"name":"main","reason":"Error","message":"boom","code":1},{"name":"late","code":0}]}'
    )


def test_a_classified_termination_is_equal_after_it_was_stored() -> None:
    completion = classify(failed(terminated(137, "OOMKilled", "log"), not_terminated("waiting", name="late")))

    stored = completion_from_json(completion_to_json(completion))

    assert stored.pod == completion.pod
    assert hash(stored.pod) == hash(completion.pod)


def test_a_succeeded_pod_is_classified_as_succeeded() -> None:
    status = {"phase": "Succeeded", "containerStatuses": [terminated(0, "Completed")]}

    completion = classify(status)

    detail = PodDetail(containers=(ContainerTermination("main", 0, "Completed"),))
    assert completion == Completion(0, "Succeeded", False, diagnostics="Pod succeeded", pod=detail)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", None])
def test_a_pod_that_is_not_terminated_cannot_be_classified(phase: str | None) -> None:
    with pytest.raises(ValueError, match="is not terminated"):
        classify({"phase": phase})


def test_only_the_end_of_a_long_log_is_kept_and_searched() -> None:
    rules = FailureClassifier.from_json([rule(300, {"containers": [{"messageRegex": "^first"}]})])

    completion = classify(failed(terminated(1, message="first" + "é" * 5000 + "last")), rules)

    assert completion.code == 1
    assert completion.pod is not None
    kept = completion.pod.containers[0].message
    assert kept == "é" * 1022 + "last"


def test_only_the_beginning_of_a_long_pod_message_is_kept() -> None:
    completion = classify(failed(message="first" + "x" * 5000))

    assert completion.pod is not None
    assert completion.pod.message == "first" + "x" * 2043


def test_the_messages_of_all_containers_share_one_limit() -> None:
    completion = classify(failed(*[terminated(1, message="x" * 5000) for _ in range(100)]))

    assert completion.pod is not None
    assert sum(len(container.message) for container in completion.pod.containers) <= 12 * 1024


def test_invalid_unicode_in_messages_is_replaced() -> None:
    fields = diagnostics_json(
        classify(failed(terminated(1, message="half a \ud83d"), message="\ude42 the other half"))
    )

    assert fields["containers"][0]["message"] == "half a ?"
    assert fields["message"] == "? the other half"


def test_equal_terminations_result_in_the_same_completion_object() -> None:
    assert classify(failed(terminated(1))) is classify(failed(terminated(1, at=AT_TEN)))
    assert classify(failed(terminated(137))) is classify(failed(terminated(137, at=AT_TEN)))


reasons = st.sampled_from(["", "Evicted", "OOMKilled", "StartError", "Error", "Terminated", "x"])
terminated_containers = st.builds(
    terminated, st.sampled_from([0, 1, 3, 128, 137, 200, 201, 210]), reasons, reasons
)
statuses = st.builds(
    lambda containers, reason, disrupted: failed(
        *containers, reason=reason, conditions=[DISRUPTED] if disrupted else []
    ),
    st.lists(
        terminated_containers | st.builds(not_terminated, st.sampled_from(["waiting", "running"])), max_size=3
    ),
    reasons,
    st.booleans(),
)


@given(st.lists(statuses, max_size=8))
def test_the_result_does_not_depend_on_pods_classified_before(earlier: list[Json]) -> None:
    reused = FailureClassifier.from_json(DEFAULT_SPEC)

    for status in earlier:
        assert classify(status, reused) == classify(status, FailureClassifier.from_json(DEFAULT_SPEC))


@given(statuses)
def test_the_diagnostics_of_every_failure_are_one_line_of_json(status: Json) -> None:
    completion = classify(status)

    assert completion.failed
    assert completion.code != 0
    assert diagnostics_json(completion) is not None
    assert "\n" not in completion.diagnostics


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(BadRequest("cannot read it"), -310, id="bad request"),
        pytest.param(Forbidden("denied by policy"), -310, id="forbidden"),
        pytest.param(Forbidden("pods is forbidden: exceeded quota: team"), None, id="exceeded quota"),
        pytest.param(
            BadRequest("the object provided is unrecognized"), None, id="a resource that is not served yet"
        ),
        pytest.param(
            Forbidden('pods "p" is forbidden: error looking up service account ns/default: not found'),
            None,
            id="a new namespace without a service account",
        ),
        pytest.param(
            Forbidden('pods is forbidden: User "l" cannot create resource "pods" in API group ""'),
            None,
            id="the launcher has no permission to create pods",
        ),
        pytest.param(
            Forbidden('pods "p" is forbidden: not yet ready to handle request'),
            None,
            id="a server that is starting",
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
def test_only_some_errors_of_a_pod_creation_are_final(error: LauncherError, code: int | None) -> None:
    completion = creation_failure(error)

    assert (None if completion is None else completion.code) == code
    assert completion is None or str(error) in completion.diagnostics
