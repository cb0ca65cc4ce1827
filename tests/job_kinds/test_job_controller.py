"""Jobs are run as Frameworks. Numbers are those of the specification's test cases."""

from collections.abc import AsyncIterator

import pytest

from launcher.core.errors import Conflict, FieldError, Unavailable
from launcher.job_kinds.job_kind import JOB_KIND_LABEL, WRITTEN_AS_ANNOTATION
from launcher.store.interface import FRAMEWORKS, PODS, DeleteOptions, MergePatch, Propagation, ResourceKind
from tests.builders import a_framework
from tests.job_kinds.harness import TFJOBS, JobHarness, WriteRecordingStore, run_job_controller
from tests.job_kinds.samples import a_tfjob, counts, replicas, states

WORKERS = ("dist-worker-0", "dist-worker-1")


@pytest.fixture
async def harness() -> AsyncIterator[JobHarness]:
    async with run_job_controller() as harness:
        yield harness


async def test_a_job_owns_a_framework_of_the_same_name(harness: JobHarness) -> None:
    job = await harness.submit(a_tfjob(metadata={"labels": {"team": "a"}}))

    await harness.wait_for_conditions("Created")
    meta = (await harness.framework())["metadata"]

    assert meta["ownerReferences"] == [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "name": "dist",
            "uid": job["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert meta["labels"] == {"team": "a", JOB_KIND_LABEL: "TFJob"}
    assert await harness.eventually(harness.pods, "pods") == dict.fromkeys(WORKERS, "Pending")


async def test_the_status_follows_the_pods_until_completion(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(Chief=replicas(1), Worker=replicas(2), PS=replicas(1)))

    await harness.run_pods("dist-chief-0", *WORKERS, "dist-ps-0")
    running = await harness.wait_for_counts(Chief={"active": 1}, Worker={"active": 2}, PS={"active": 1})
    await harness.terminate_pod("dist-worker-1")
    await harness.wait_for_counts(Chief={"active": 1}, Worker={"active": 1, "succeeded": 1}, PS={"active": 1})
    await harness.terminate_pod("dist-chief-0")
    ended = await harness.wait_for_conditions("Created", "Running=False", "Succeeded")

    assert states(running) == ["Created", "Running"]
    assert counts(ended) == {"Chief": {"succeeded": 1}, "Worker": {"succeeded": 2}, "PS": {"succeeded": 1}}
    assert await harness.wait_for_event("TFJobSucceeded") == [
        "TFJobCreated",
        "TFJobRunning",
        "TFJobSucceeded",
    ]
    # Running pods of a completed TFJob are kept by default (cleanPodPolicy None).
    assert (await harness.pods())["dist-ps-0"] == "Running"


async def test_an_unchanged_job_is_not_written_again(harness: JobHarness) -> None:
    await harness.submit(a_tfjob())
    await harness.run_pods(*WORKERS)
    await harness.wait_for_counts(Worker={"active": 2})
    await harness.wait_until_idle()
    harness.store.writes.clear()

    # Watch events without a relevant change.
    await harness.store.patch(TFJOBS, "default", "dist", MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await harness.store.patch(FRAMEWORKS, "default", "dist", MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await harness.wait_until_idle()

    assert harness.store.writes == []


@pytest.mark.parametrize("code", [130, 137, 138, 143, 128, 139])
async def test_53_and_55_a_signal_is_retried_where_the_exit_code_decides(
    harness: JobHarness, code: int
) -> None:
    await harness.submit(a_tfjob(Worker=replicas(1, "ExitCode")))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")

    await harness.terminate_pod("dist-worker-0", code)

    await harness.wait_for_conditions("Created", "Restarting")
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")
    assert "TFJobRestarting" in await harness.wait_for_event("TFJobRestarting")


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
@pytest.mark.parametrize("code", [1, 2, 127])
async def test_54_any_other_exit_code_ends_the_job(harness: JobHarness, code: int, version: str) -> None:
    await harness.submit(created_in_version(version, a_tfjob(Worker=replicas(1, "ExitCode"))))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")

    await harness.terminate_pod("dist-worker-0", code)

    job = await harness.wait_for_conditions("Created", "Running=False", "Failed")
    assert counts(job) == {"Worker": {"failed": 1}}
    message = job["status"]["conditions"][-1]["message"]
    assert message.startswith("TFJob default/dist has failed because 1 Worker replica(s) failed: ")


@pytest.mark.parametrize("code", [128, 139])
async def test_55_other_signals_fail_a_job_of_an_older_version(harness: JobHarness, code: int) -> None:
    await harness.submit(created_in_version("v1beta2", a_tfjob(Worker=replicas(1, "ExitCode"))))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")

    await harness.terminate_pod("dist-worker-0", code)

    await harness.wait_for_conditions("Created", "Running=False", "Failed")


async def test_53_four_exit_codes_are_retried_in_an_older_version(harness: JobHarness) -> None:
    await harness.submit(created_in_version("v1beta2", a_tfjob(Worker=replicas(1, "ExitCode"))))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")

    await harness.terminate_pod("dist-worker-0", 138)

    await harness.wait_for_conditions("Created", "Restarting")


@pytest.mark.parametrize(
    ("version", "states_"),
    [
        pytest.param("v1", ("Created", "Restarting"), id="v1"),
        pytest.param("v1beta2", ("Created", "Running=False", "Failed"), id="v1beta2"),
    ],
)
async def test_56_an_evicted_pod_has_no_exit_code(
    harness: JobHarness, version: str, states_: tuple[str, ...]
) -> None:
    await harness.submit(created_in_version(version, a_tfjob(Worker=replicas(1, "ExitCode"))))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")

    await harness.terminate_pod("dist-worker-0", None, reason="Evicted")

    await harness.wait_for_conditions(*states_)


async def test_57_a_failed_parameter_server_fails_the_job(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(Worker=replicas(2), PS=replicas(1)))
    await harness.run_pods(*WORKERS, "dist-ps-0")
    await harness.wait_for_counts(Worker={"active": 2}, PS={"active": 1})

    await harness.terminate_pod("dist-ps-0", 1)

    job = await harness.wait_for_conditions("Created", "Running=False", "Failed")
    assert counts(job) == {"Worker": {"active": 2}, "PS": {"failed": 1}}


async def test_58_worker_0_completes_the_job_and_clean_pod_policy_running_deletes_the_others(
    harness: JobHarness,
) -> None:
    await harness.submit(a_tfjob(policy={"cleanPodPolicy": "Running"}, Worker=replicas(2), PS=replicas(1)))
    await harness.run_pods(*WORKERS, "dist-ps-0")
    await harness.wait_for_counts(Worker={"active": 2}, PS={"active": 1})

    await harness.terminate_pod("dist-worker-0")

    await harness.wait_for_conditions("Created", "Running=False", "Succeeded")
    await harness.wait_for_pods("dist-worker-0")


async def test_59_with_success_policy_all_workers_every_worker_has_to_succeed(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(spec={"successPolicy": "AllWorkers"}, Worker=replicas(2)))
    await harness.run_pods(*WORKERS)
    await harness.wait_for_counts(Worker={"active": 2})

    await harness.terminate_pod("dist-worker-0")
    job = await harness.wait_for_counts(Worker={"active": 1, "succeeded": 1})
    await harness.terminate_pod("dist-worker-1")

    assert states(job) == ["Created", "Running"]
    await harness.wait_for_conditions("Created", "Running=False", "Succeeded")


async def test_60_the_chief_completes_the_job_while_workers_run(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(Chief=replicas(1), Worker=replicas(1)))
    await harness.run_pods("dist-chief-0", "dist-worker-0")
    await harness.wait_for_counts(Chief={"active": 1}, Worker={"active": 1})

    await harness.terminate_pod("dist-chief-0")

    await harness.wait_for_conditions("Created", "Running=False", "Succeeded")


async def test_61_a_job_that_exceeds_its_deadline_fails_and_its_pods_are_deleted(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(policy={"activeDeadlineSeconds": 1, "cleanPodPolicy": "None"}))

    job = await harness.wait_until_failed()

    assert "activeDeadlineSeconds (1) exceeded" in job["status"]["conditions"][-1]["message"]
    await harness.wait_for_pods()


async def test_62_clean_pod_policy_running_deletes_pending_pods(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(policy={"cleanPodPolicy": "Running"}, Chief=replicas(1), Worker=replicas(1)))
    await harness.run_pods("dist-chief-0")
    await harness.wait_for_conditions("Created", "Running")
    assert (await harness.pods())["dist-worker-0"] == "Pending"

    await harness.terminate_pod("dist-chief-0")

    job = await harness.wait_for_conditions("Created", "Running=False", "Succeeded")
    await harness.wait_for_pods("dist-chief-0")
    assert counts(job) == {"Chief": {"succeeded": 1}, "Worker": {}}


async def test_63_without_retries_the_first_failure_fails_the_job(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(policy={"backoffLimit": 0}, Worker=replicas(1, "OnFailure")))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")

    await harness.terminate_pod("dist-worker-0", 1)

    await harness.wait_for_conditions("Created", "Running=False", "Failed")


async def test_64_a_suspended_job_has_no_pods_until_it_is_resumed(harness: JobHarness) -> None:
    await harness.submit(a_tfjob())
    await harness.run_pods(*WORKERS)
    start_time = (await harness.wait_for_conditions("Created", "Running"))["status"]["startTime"]

    await harness.patch_spec({"runPolicy": {"suspend": True}})
    suspended = await harness.wait_for_conditions("Created", "Running=False", "Suspended")
    await harness.wait_for_pods()
    await harness.patch_spec({"runPolicy": {"suspend": False}})
    resumed = await harness.wait_for_conditions("Created", "Running=False", "Suspended=False")
    await harness.run_pods(*WORKERS)
    running = await harness.wait_for_conditions("Created", "Suspended=False", "Running")

    assert "replicaStatuses" not in suspended["status"]
    assert resumed["status"]["startTime"] >= start_time
    assert counts(running)["Worker"]["active"] >= 1
    assert set(await harness.wait_for_event("TFJobResumed")) >= {"TFJobSuspended", "TFJobResumed"}


async def test_64_a_job_may_be_created_suspended(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(policy={"suspend": True}))

    await harness.wait_for_conditions("Created", "Suspended")
    await harness.wait_until_idle()

    assert await harness.framework() == {}


async def test_65_pods_of_a_finished_job_do_not_change_its_status(harness: JobHarness) -> None:
    await harness.submit(a_tfjob())
    await harness.run_pods(*WORKERS)
    await harness.wait_for_counts(Worker={"active": 2})
    await harness.terminate_pod("dist-worker-1", 1)
    ended = await harness.wait_for_conditions("Created", "Running=False", "Failed")

    await harness.terminate_pod("dist-worker-0")
    await harness.wait_until_idle()

    assert await harness.job() == ended


async def test_workers_can_be_added_and_removed(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(spec={"enableDynamicWorker": True}, Worker=replicas(1), PS=replicas(1)))
    await harness.run_pods("dist-worker-0", "dist-ps-0")
    await harness.wait_for_counts(Worker={"active": 1}, PS={"active": 1})

    await harness.patch_spec({"tfReplicaSpecs": {"Worker": {"replicas": 3}}})
    await harness.run_pods(*WORKERS, "dist-worker-2")
    await harness.wait_for_counts(Worker={"active": 3}, PS={"active": 1})
    await harness.patch_spec({"tfReplicaSpecs": {"Worker": {"replicas": 2}}})

    await harness.wait_for_counts(Worker={"active": 2}, PS={"active": 1})
    await harness.wait_for_pods(*WORKERS, "dist-ps-0")


async def test_a_failed_dynamic_worker_does_not_fail_the_job(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(spec={"enableDynamicWorker": True}, Worker=replicas(2)))
    await harness.run_pods(*WORKERS)
    await harness.wait_for_counts(Worker={"active": 2})

    await harness.terminate_pod("dist-worker-1", 1)

    job = await harness.wait_for_counts(Worker={"active": 1, "failed": 1})
    assert states(job) == ["Created", "Running"]


async def test_the_framework_and_the_pods_of_a_deleted_job_are_deleted(harness: JobHarness) -> None:
    await harness.submit(a_tfjob())
    await harness.run_pods(*WORKERS)

    await harness.delete(TFJOBS, "dist", DeleteOptions(propagation=Propagation.FOREGROUND))

    await harness.wait_until_deleted()
    assert await harness.framework() == {}
    assert await harness.pods() == {}


async def test_a_job_created_again_after_a_background_deletion_waits_for_its_predecessors_framework(
    harness: JobHarness,
) -> None:
    first = await harness.submit(a_tfjob())
    await harness.run_pods(*WORKERS)
    before = (await harness.framework())["metadata"]["uid"]

    await harness.delete(TFJOBS, "dist")
    second = await harness.submit(a_tfjob())

    async def is_recreated() -> bool:
        framework = await harness.framework()
        return bool(framework) and framework["metadata"]["uid"] != before

    await harness.eventually(is_recreated, "a new Framework")
    framework = await harness.framework()
    assert framework["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert "TFJobNameTaken" not in await harness.events()


async def test_a_finished_job_is_deleted_when_its_ttl_expires(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(policy={"ttlSecondsAfterFinished": 1}, Worker=replicas(1)))
    await harness.run_pods("dist-worker-0")
    await harness.terminate_pod("dist-worker-0")

    await harness.wait_until_deleted()

    assert await harness.framework() == {}


async def test_a_framework_of_the_same_name_and_another_owner_is_not_changed(harness: JobHarness) -> None:
    existing = a_framework(name="dist", executionType="Create")
    await harness.store.create(FRAMEWORKS, {**existing, "metadata": {"name": "dist", "namespace": "default"}})

    await harness.submit(a_tfjob())
    job = await harness.wait_for_conditions("Created", "Blocked")
    unchanged = await harness.framework()
    await harness.delete(FRAMEWORKS, "dist")

    assert job["status"]["conditions"][-1]["reason"] == "TFJobNameTaken"
    assert "is not owned by this job. Delete it" in job["status"]["conditions"][-1]["message"]
    assert "TFJobNameTaken" in await harness.wait_for_event("TFJobNameTaken")
    assert "ownerReferences" not in unchanged["metadata"]
    await harness.wait_for_conditions("Created")  # the name is free
    assert (await harness.framework())["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


async def test_a_framework_with_the_job_label_and_another_owner_is_not_changed(harness: JobHarness) -> None:
    labels = {JOB_KIND_LABEL: "TFJob"}
    existing = a_framework(name="dist", executionType="Create")
    meta = {"name": "dist", "namespace": "default", "labels": labels}
    await harness.store.create(FRAMEWORKS, {**existing, "metadata": meta})

    await harness.submit(a_tfjob())
    job = await harness.wait_for_conditions("Created", "Blocked")
    await harness.delete(FRAMEWORKS, "dist")

    assert job["status"]["conditions"][-1]["reason"] == "TFJobNameTaken"
    await harness.wait_for_conditions("Created")


async def test_a_framework_without_its_label_is_labelled_again(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(Worker=replicas(1)))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")

    await harness.store.patch(
        FRAMEWORKS, "default", "dist", MergePatch({"metadata": {"labels": {JOB_KIND_LABEL: None}}})
    )
    await harness.terminate_pod("dist-worker-0")

    await harness.wait_for_conditions("Created", "Running=False", "Succeeded")


async def test_a_framework_that_is_deleted_by_a_user_is_recreated(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(Worker=replicas(1)))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")
    before = (await harness.framework())["metadata"]["uid"]

    await harness.delete(FRAMEWORKS, "dist", DeleteOptions(propagation=Propagation.FOREGROUND))

    async def is_recreated() -> bool:
        framework = await harness.framework()
        return bool(framework) and framework["metadata"]["uid"] != before

    await harness.eventually(is_recreated, "a new Framework")


async def test_an_invalid_job_that_was_stored_without_admission_gets_a_condition(harness: JobHarness) -> None:
    job = a_tfjob(Worker=replicas(1))
    job["spec"]["tfImage"] = "x"

    await harness.submit(job)
    blocked = await harness.wait_for_conditions("Created", "Blocked")
    await harness.patch_spec({"tfImage": None})

    assert blocked["status"]["conditions"][-1]["reason"] == "TFJobInvalid"
    assert "spec.tfImage: Forbidden" in blocked["status"]["conditions"][-1]["message"]
    await harness.wait_for_conditions("Created")


async def test_an_error_of_the_admission_policy_names_the_field_of_the_job() -> None:
    error = FieldError("spec.taskRoles[0].task.pod.spec.hostNetwork", "Forbidden: not here")
    async with run_job_controller(policy_errors=lambda _: (error,)) as harness:
        await harness.submit(a_tfjob())

        blocked = await harness.wait_for_conditions("Created", "Blocked")

    assert (
        "spec.tfReplicaSpecs.Worker.template.spec.hostNetwork: Forbidden: not here"
        in (blocked["status"]["conditions"][-1]["message"])
    )


async def test_an_invalid_edit_is_recorded_in_an_event_and_the_running_job_continues(
    harness: JobHarness,
) -> None:
    await harness.submit(a_tfjob(Worker=replicas(1)))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")

    await harness.patch_spec({"tfImage": "x"})
    await harness.wait_for_event("Invalid")
    await harness.terminate_pod("dist-worker-0")

    await harness.wait_for_conditions("Created", "Running=False", "Succeeded")


async def test_stopping_the_framework_fails_the_job(harness: JobHarness) -> None:
    await harness.submit(a_tfjob())
    await harness.run_pods(*WORKERS)
    await harness.wait_for_conditions("Created", "Running")

    await harness.store.patch(FRAMEWORKS, "default", "dist", MergePatch({"spec": {"executionType": "Stop"}}))
    job = await harness.wait_until_failed()
    await harness.patch_spec({"tfReplicaSpecs": {"Worker": {"replicas": 1}}})
    await harness.wait_until_idle()

    assert "executionType is Stop" in job["status"]["conditions"][-1]["message"]
    assert (await harness.framework())["spec"]["executionType"] == "Stop"


async def test_an_edit_of_the_job_does_not_restart_a_stopped_framework() -> None:
    async with run_job_controller(run_framework_controller=False) as harness:
        await harness.submit(a_tfjob())
        await harness.wait_for_conditions("Created")
        stop = MergePatch({"spec": {"executionType": "Stop"}})
        await harness.store.patch(FRAMEWORKS, "default", "dist", stop)

        await harness.patch_spec({"tfReplicaSpecs": {"Worker": {"replicas": 3}}})

        async def is_scaled() -> bool:
            return bool((await harness.framework())["spec"]["taskRoles"][0]["taskNumber"] == 3)

        await harness.eventually(is_scaled, "the Framework is scaled")
        assert (await harness.framework())["spec"]["executionType"] == "Stop"


async def test_a_restart_of_the_launcher_creates_nothing_twice() -> None:
    store = WriteRecordingStore()
    async with run_job_controller(store) as harness:
        await harness.submit(a_tfjob(Worker=replicas(1)))
        await harness.run_pods("dist-worker-0")
        await harness.wait_for_conditions("Created", "Running")
    await store.patch(
        PODS, "default", "dist-worker-0", MergePatch({"status": {"phase": "Succeeded"}}), subresource="status"
    )

    async with run_job_controller(store) as harness:
        await harness.wait_for_conditions("Created", "Running=False", "Succeeded")

    assert store.writes.count(("create", "Framework")) == 1
    assert store.writes.count(("create", "Pod")) == 1


@pytest.mark.parametrize("verb", ["create", "update_status"])
@pytest.mark.parametrize("error", [Unavailable("down"), Conflict("modified")])
async def test_failed_writes_are_retried(error: Exception, verb: str) -> None:
    store, failed = WriteRecordingStore(), [0]

    def fail(attempted_verb: str, kind: ResourceKind) -> Exception | None:
        if attempted_verb == verb and kind in (TFJOBS, FRAMEWORKS) and failed[0] < 3:
            failed[0] += 1
            return error
        return None

    async with run_job_controller(store) as harness:
        job = await harness.submit(a_tfjob(Worker=replicas(1)))
        store.fail = fail
        await harness.run_pods("dist-worker-0")
        await harness.wait_for_conditions("Created", "Running")

    assert job["metadata"]["name"] == "dist"
    assert failed[0] == 3


def created_in_version(version: str, job: dict[str, object]) -> dict[str, object]:
    """The stored job that was created in that API version."""
    if version == "v1":
        return job
    return {
        **job,
        "metadata": {"name": "dist", "annotations": {WRITTEN_AS_ANNOTATION: f"kubeflow.org/{version}"}},
    }


async def test_a_job_without_ttl_records_its_result_before_it_is_deleted(harness: JobHarness) -> None:
    await harness.submit(a_tfjob(policy={"ttlSecondsAfterFinished": 0}, Worker=replicas(1)))
    await harness.run_pods("dist-worker-0")
    await harness.wait_for_conditions("Created", "Running")
    framework = await harness.framework()
    await harness.terminate_pod("dist-worker-0")

    await harness.wait_until_deleted()
    await harness.wait_until_idle()

    # The Framework is deleted with its job: deleted earlier, it would be recreated.
    assert "ttlSecondsAfterFinished" not in framework["spec"]
    assert harness.store.writes.count(("create", "Framework")) == 1
    assert "TFJobSucceeded" in await harness.wait_for_event("TFJobSucceeded")
