"""Jobs run by Frameworks, on the engine itself; numbers are those of the specification's test cases."""

from collections.abc import AsyncIterator

import pytest

from launcher.core.errors import Conflict, FieldError, Unavailable
from launcher.job_kinds.job_kind import JOB_KIND, WRITTEN_AS
from launcher.store.interface import FRAMEWORKS, PODS, DeleteOptions, MergePatch, Propagation, ResourceKind
from tests.controller.mirrored import TFJOBS, Place, Writes, mirrored
from tests.core.manifests import a_framework
from tests.job_kinds.samples import a_tfjob, counts, replicas, states

WORKERS = ("dist-worker-0", "dist-worker-1")


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with mirrored() as place:
        yield place


async def test_a_job_has_a_framework_of_its_name_that_belongs_to_it(place: Place) -> None:
    job = await place.submit(a_tfjob(metadata={"labels": {"team": "a"}}))

    await place.told("Created")
    meta = (await place.framework())["metadata"]

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
    assert meta["labels"] == {"team": "a", JOB_KIND: "TFJob"}
    assert await place.until(place.pods, "pods") == dict.fromkeys(WORKERS, "Pending")


async def test_its_status_follows_the_pods_to_the_end(place: Place) -> None:
    await place.submit(a_tfjob(Chief=replicas(1), Worker=replicas(2), PS=replicas(1)))

    await place.run("dist-chief-0", *WORKERS, "dist-ps-0")
    running = await place.counted(Chief={"active": 1}, Worker={"active": 2}, PS={"active": 1})
    await place.end("dist-worker-1")
    await place.counted(Chief={"active": 1}, Worker={"active": 1, "succeeded": 1}, PS={"active": 1})
    await place.end("dist-chief-0")
    ended = await place.told("Created", "Running=False", "Succeeded")

    assert states(running) == ["Created", "Running"]
    assert counts(ended) == {"Chief": {"succeeded": 1}, "Worker": {"succeeded": 2}, "PS": {"succeeded": 1}}
    assert await place.happened("TFJobSucceeded") == ["TFJobCreated", "TFJobRunning", "TFJobSucceeded"]
    # Of a TFJob, what runs at the end goes on unless somebody says otherwise.
    assert (await place.pods())["dist-ps-0"] == "Running"


async def test_what_is_as_it_should_be_is_not_written_again(place: Place) -> None:
    await place.submit(a_tfjob())
    await place.run(*WORKERS)
    await place.counted(Worker={"active": 2})
    await place.quiet()
    place.store.writes.clear()

    # Heard of again, and nothing has changed.
    await place.store.patch(TFJOBS, "default", "dist", MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await place.store.patch(FRAMEWORKS, "default", "dist", MergePatch({"metadata": {"labels": {"a": "b"}}}))
    await place.quiet()

    assert place.store.writes == []


@pytest.mark.parametrize("code", [130, 137, 138, 143, 128, 139])
async def test_53_and_55_a_signal_is_retried_where_the_exit_code_decides(place: Place, code: int) -> None:
    await place.submit(a_tfjob(Worker=replicas(1, "ExitCode")))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")

    await place.end("dist-worker-0", code)

    await place.told("Created", "Restarting")
    await place.run("dist-worker-0")
    await place.told("Created", "Running")
    assert "TFJobRestarting" in await place.happened("TFJobRestarting")


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
@pytest.mark.parametrize("code", [1, 2, 127])
async def test_54_any_other_exit_code_ends_the_job(place: Place, code: int, version: str) -> None:
    await place.submit(written_as(version, a_tfjob(Worker=replicas(1, "ExitCode"))))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")

    await place.end("dist-worker-0", code)

    job = await place.told("Created", "Running=False", "Failed")
    assert counts(job) == {"Worker": {"failed": 1}}
    message = job["status"]["conditions"][-1]["message"]
    assert message.startswith("TFJob default/dist has failed because 1 Worker replica(s) failed: ")


@pytest.mark.parametrize("code", [128, 139])
async def test_55_of_old_other_signals_ended_it_too(place: Place, code: int) -> None:
    await place.submit(written_as("v1beta2", a_tfjob(Worker=replicas(1, "ExitCode"))))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")

    await place.end("dist-worker-0", code)

    await place.told("Created", "Running=False", "Failed")


async def test_53_of_old_four_codes_were_retried(place: Place) -> None:
    await place.submit(written_as("v1beta2", a_tfjob(Worker=replicas(1, "ExitCode"))))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")

    await place.end("dist-worker-0", 138)

    await place.told("Created", "Restarting")


@pytest.mark.parametrize(
    ("version", "states_"),
    [
        pytest.param("v1", ("Created", "Restarting"), id="today"),
        pytest.param("v1beta2", ("Created", "Running=False", "Failed"), id="of old"),
    ],
)
async def test_56_an_evicted_pod_has_no_exit_code(
    place: Place, version: str, states_: tuple[str, ...]
) -> None:
    await place.submit(written_as(version, a_tfjob(Worker=replicas(1, "ExitCode"))))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")

    await place.end("dist-worker-0", None, reason="Evicted")

    await place.told(*states_)


async def test_57_a_parameter_server_that_fails_ends_the_job(place: Place) -> None:
    await place.submit(a_tfjob(Worker=replicas(2), PS=replicas(1)))
    await place.run(*WORKERS, "dist-ps-0")
    await place.counted(Worker={"active": 2}, PS={"active": 1})

    await place.end("dist-ps-0", 1)

    job = await place.told("Created", "Running=False", "Failed")
    assert counts(job) == {"Worker": {"active": 2}, "PS": {"failed": 1}}


async def test_58_worker_0_ends_the_job_and_the_others_go_if_asked_to(place: Place) -> None:
    await place.submit(a_tfjob(policy={"cleanPodPolicy": "Running"}, Worker=replicas(2), PS=replicas(1)))
    await place.run(*WORKERS, "dist-ps-0")
    await place.counted(Worker={"active": 2}, PS={"active": 1})

    await place.end("dist-worker-0")

    await place.told("Created", "Running=False", "Succeeded")
    await place.left("dist-worker-0")


async def test_59_unless_all_workers_have_to_succeed(place: Place) -> None:
    await place.submit(a_tfjob(spec={"successPolicy": "AllWorkers"}, Worker=replicas(2)))
    await place.run(*WORKERS)
    await place.counted(Worker={"active": 2})

    await place.end("dist-worker-0")
    job = await place.counted(Worker={"active": 1, "succeeded": 1})
    await place.end("dist-worker-1")

    assert states(job) == ["Created", "Running"]
    await place.told("Created", "Running=False", "Succeeded")


async def test_60_the_chief_ends_the_job_while_workers_run(place: Place) -> None:
    await place.submit(a_tfjob(Chief=replicas(1), Worker=replicas(1)))
    await place.run("dist-chief-0", "dist-worker-0")
    await place.counted(Chief={"active": 1}, Worker={"active": 1})

    await place.end("dist-chief-0")

    await place.told("Created", "Running=False", "Succeeded")


async def test_61_a_job_over_its_time_has_failed_and_no_pod_runs(place: Place) -> None:
    await place.submit(a_tfjob(policy={"activeDeadlineSeconds": 1, "cleanPodPolicy": "None"}))

    job = await place.failed()

    assert "activeDeadlineSeconds is over" in job["status"]["conditions"][-1]["message"]
    await place.left()


async def test_62_a_pending_pod_goes_with_those_that_run(place: Place) -> None:
    await place.submit(a_tfjob(policy={"cleanPodPolicy": "Running"}, Chief=replicas(1), Worker=replicas(1)))
    await place.run("dist-chief-0")
    await place.told("Created", "Running")
    assert (await place.pods())["dist-worker-0"] == "Pending"

    await place.end("dist-chief-0")

    job = await place.told("Created", "Running=False", "Succeeded")
    await place.left("dist-chief-0")
    assert counts(job) == {"Chief": {"succeeded": 1}, "Worker": {}}


async def test_63_without_any_retry_left_the_first_failure_ends_the_job(place: Place) -> None:
    await place.submit(a_tfjob(policy={"backoffLimit": 0}, Worker=replicas(1, "OnFailure")))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")

    await place.end("dist-worker-0", 1)

    await place.told("Created", "Running=False", "Failed")


async def test_64_a_suspended_job_has_no_pods_until_it_is_resumed(place: Place) -> None:
    await place.submit(a_tfjob())
    await place.run(*WORKERS)
    began = (await place.told("Created", "Running"))["status"]["startTime"]

    await place.change({"runPolicy": {"suspend": True}})
    held = await place.told("Created", "Running=False", "Suspended")
    await place.left()
    await place.change({"runPolicy": {"suspend": False}})
    resumed = await place.told("Created", "Running=False", "Suspended=False")
    await place.run(*WORKERS)
    again = await place.told("Created", "Suspended=False", "Running")

    assert "replicaStatuses" not in held["status"]
    assert resumed["status"]["startTime"] >= began
    assert counts(again)["Worker"]["active"] >= 1
    assert set(await place.happened("TFJobResumed")) >= {"TFJobSuspended", "TFJobResumed"}


async def test_64_a_job_may_be_suspended_from_the_beginning(place: Place) -> None:
    await place.submit(a_tfjob(policy={"suspend": True}))

    await place.told("Created", "Suspended")
    await place.quiet()

    assert await place.framework() == {}


async def test_65_whatever_its_pods_do_after_its_end_changes_nothing(place: Place) -> None:
    await place.submit(a_tfjob())
    await place.run(*WORKERS)
    await place.counted(Worker={"active": 2})
    await place.end("dist-worker-1", 1)
    ended = await place.told("Created", "Running=False", "Failed")

    await place.end("dist-worker-0")
    await place.quiet()

    assert await place.job() == ended


async def test_workers_may_be_added_and_taken_away(place: Place) -> None:
    await place.submit(a_tfjob(spec={"enableDynamicWorker": True}, Worker=replicas(1), PS=replicas(1)))
    await place.run("dist-worker-0", "dist-ps-0")
    await place.counted(Worker={"active": 1}, PS={"active": 1})

    await place.change({"tfReplicaSpecs": {"Worker": {"replicas": 3}}})
    await place.run(*WORKERS, "dist-worker-2")
    await place.counted(Worker={"active": 3}, PS={"active": 1})
    await place.change({"tfReplicaSpecs": {"Worker": {"replicas": 2}}})

    await place.counted(Worker={"active": 2}, PS={"active": 1})
    await place.left(*WORKERS, "dist-ps-0")


async def test_a_worker_that_comes_and_goes_may_fail(place: Place) -> None:
    await place.submit(a_tfjob(spec={"enableDynamicWorker": True}, Worker=replicas(2)))
    await place.run(*WORKERS)
    await place.counted(Worker={"active": 2})

    await place.end("dist-worker-1", 1)

    job = await place.counted(Worker={"active": 1, "failed": 1})
    assert states(job) == ["Created", "Running"]


async def test_a_job_takes_its_framework_and_its_pods_along(place: Place) -> None:
    await place.submit(a_tfjob())
    await place.run(*WORKERS)

    await place.delete(TFJOBS, "dist", DeleteOptions(propagation=Propagation.FOREGROUND))

    await place.gone()
    assert await place.framework() == {}
    assert await place.pods() == {}


async def test_a_job_created_again_after_a_background_deletion_waits_for_its_predecessors_framework(
    place: Place,
) -> None:
    first = await place.submit(a_tfjob())
    await place.run(*WORKERS)
    before = (await place.framework())["metadata"]["uid"]

    await place.delete(TFJOBS, "dist")
    second = await place.submit(a_tfjob())

    async def another() -> bool:
        framework = await place.framework()
        return bool(framework) and framework["metadata"]["uid"] != before

    await place.until(another, "another Framework")
    framework = await place.framework()
    assert framework["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert "TFJobNameTaken" not in await place.events()


async def test_a_job_goes_when_its_time_after_the_end_is_over(place: Place) -> None:
    await place.submit(a_tfjob(policy={"ttlSecondsAfterFinished": 1}, Worker=replicas(1)))
    await place.run("dist-worker-0")
    await place.end("dist-worker-0")

    await place.gone()

    assert await place.framework() == {}


async def test_a_framework_of_that_name_that_is_somebody_elses_is_never_taken_over(place: Place) -> None:
    theirs = a_framework(name="dist", executionType="Create")
    await place.store.create(FRAMEWORKS, {**theirs, "metadata": {"name": "dist", "namespace": "default"}})

    await place.submit(a_tfjob())
    job = await place.told("Created", "Blocked")
    untouched = await place.framework()
    await place.delete(FRAMEWORKS, "dist")

    assert job["status"]["conditions"][-1]["reason"] == "TFJobNameTaken"
    assert "not this job's; delete that Framework" in job["status"]["conditions"][-1]["message"]
    assert "TFJobNameTaken" in await place.happened("TFJobNameTaken")
    assert "ownerReferences" not in untouched["metadata"]
    await place.told("Created")  # once the name is free, it goes on
    assert (await place.framework())["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


async def test_nor_is_one_that_only_looks_like_a_jobs(place: Place) -> None:
    labels = {JOB_KIND: "TFJob"}
    theirs = a_framework(name="dist", executionType="Create")
    meta = {"name": "dist", "namespace": "default", "labels": labels}
    await place.store.create(FRAMEWORKS, {**theirs, "metadata": meta})

    await place.submit(a_tfjob())
    job = await place.told("Created", "Blocked")
    await place.delete(FRAMEWORKS, "dist")

    assert job["status"]["conditions"][-1]["reason"] == "TFJobNameTaken"
    await place.told("Created")


async def test_a_framework_that_has_lost_its_label_is_found_again(place: Place) -> None:
    await place.submit(a_tfjob(Worker=replicas(1)))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")

    await place.store.patch(
        FRAMEWORKS, "default", "dist", MergePatch({"metadata": {"labels": {JOB_KIND: None}}})
    )
    await place.end("dist-worker-0")

    await place.told("Created", "Running=False", "Succeeded")


async def test_a_framework_that_somebody_deletes_is_made_anew(place: Place) -> None:
    await place.submit(a_tfjob(Worker=replicas(1)))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")
    before = (await place.framework())["metadata"]["uid"]

    await place.delete(FRAMEWORKS, "dist", DeleteOptions(propagation=Propagation.FOREGROUND))

    async def another() -> bool:
        framework = await place.framework()
        return bool(framework) and framework["metadata"]["uid"] != before

    await place.until(another, "another Framework")


async def test_a_job_that_got_past_every_check_is_told_what_is_wrong(place: Place) -> None:
    job = a_tfjob(Worker=replicas(1))
    job["spec"]["tfImage"] = "x"

    await place.submit(job)
    told = await place.told("Created", "Blocked")
    await place.change({"tfImage": None})

    assert told["status"]["conditions"][-1]["reason"] == "TFJobInvalid"
    assert "spec.tfImage: Forbidden" in told["status"]["conditions"][-1]["message"]
    await place.told("Created")


async def test_what_the_admin_forbids_is_told_of_the_job_itself() -> None:
    problem = FieldError("spec.taskRoles[0].task.pod.spec.hostNetwork", "Forbidden: not here")
    async with mirrored(forbidden=lambda _: (problem,)) as place:
        await place.submit(a_tfjob())

        told = await place.told("Created", "Blocked")

    assert (
        "spec.tfReplicaSpecs.Worker.template.spec.hostNetwork: Forbidden: not here"
        in (told["status"]["conditions"][-1]["message"])
    )


async def test_a_change_that_cannot_be_followed_is_told_and_what_runs_goes_on(place: Place) -> None:
    await place.submit(a_tfjob(Worker=replicas(1)))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")

    await place.change({"tfImage": "x"})
    await place.happened("Invalid")
    await place.end("dist-worker-0")

    await place.told("Created", "Running=False", "Succeeded")


async def test_who_stops_the_framework_has_ended_the_job(place: Place) -> None:
    await place.submit(a_tfjob())
    await place.run(*WORKERS)
    await place.told("Created", "Running")

    await place.store.patch(FRAMEWORKS, "default", "dist", MergePatch({"spec": {"executionType": "Stop"}}))
    job = await place.failed()
    await place.change({"tfReplicaSpecs": {"Worker": {"replicas": 1}}})
    await place.quiet()

    assert "executionType is Stop" in job["status"]["conditions"][-1]["message"]
    assert (await place.framework())["spec"]["executionType"] == "Stop"


async def test_a_framework_that_was_stopped_follows_its_job_and_stays_stopped() -> None:
    async with mirrored(controlled=False) as place:
        await place.submit(a_tfjob())
        await place.told("Created")
        stop = MergePatch({"spec": {"executionType": "Stop"}})
        await place.store.patch(FRAMEWORKS, "default", "dist", stop)

        await place.change({"tfReplicaSpecs": {"Worker": {"replicas": 3}}})

        async def followed() -> bool:
            return bool((await place.framework())["spec"]["taskRoles"][0]["taskNumber"] == 3)

        await place.until(followed, "it has followed")
        assert (await place.framework())["spec"]["executionType"] == "Stop"


async def test_after_a_restart_of_the_launcher_everything_goes_on_and_nothing_is_made_twice() -> None:
    store = Writes()
    async with mirrored(store) as place:
        await place.submit(a_tfjob(Worker=replicas(1)))
        await place.run("dist-worker-0")
        await place.told("Created", "Running")
    await store.patch(
        PODS, "default", "dist-worker-0", MergePatch({"status": {"phase": "Succeeded"}}), subresource="status"
    )

    async with mirrored(store) as place:
        await place.told("Created", "Running=False", "Succeeded")

    assert store.writes.count(("create", "Framework")) == 1
    assert store.writes.count(("create", "Pod")) == 1


@pytest.mark.parametrize("verb", ["create", "update_status"])
@pytest.mark.parametrize("error", [Unavailable("away"), Conflict("too late")])
async def test_what_does_not_work_is_tried_again(error: Exception, verb: str) -> None:
    store, failed = Writes(), [0]

    def fails(what: str, kind: ResourceKind) -> Exception | None:
        if what == verb and kind in (TFJOBS, FRAMEWORKS) and failed[0] < 3:
            failed[0] += 1
            return error
        return None

    async with mirrored(store) as place:
        job = await place.submit(a_tfjob(Worker=replicas(1)))
        store.fails = fails
        await place.run("dist-worker-0")
        await place.told("Created", "Running")

    assert job["metadata"]["name"] == "dist"
    assert failed[0] == 3


def written_as(version: str, job: dict[str, object]) -> dict[str, object]:
    """The job as it is stored when it was written in that version."""
    if version == "v1":
        return job
    return {**job, "metadata": {"name": "dist", "annotations": {WRITTEN_AS: f"kubeflow.org/{version}"}}}


async def test_how_a_job_ended_is_told_however_short_its_time_after_the_end(place: Place) -> None:
    await place.submit(a_tfjob(policy={"ttlSecondsAfterFinished": 0}, Worker=replicas(1)))
    await place.run("dist-worker-0")
    await place.told("Created", "Running")
    framework = await place.framework()
    await place.end("dist-worker-0")

    await place.gone()
    await place.quiet()

    # It goes with its job: gone before, it would have left nothing to tell, and have been made anew.
    assert "ttlSecondsAfterFinished" not in framework["spec"]
    assert place.store.writes.count(("create", "Framework")) == 1
    assert "TFJobSucceeded" in await place.happened("TFJobSucceeded")
