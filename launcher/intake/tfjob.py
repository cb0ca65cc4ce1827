"""A TFJob into a Framework: its types are the roles, and what decides about the job decides about the attempt."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.errors import InvalidObject, Problem
from launcher.core.naming import FIRST_LABELS
from launcher.intake.mapped import Mapped
from launcher.intake.replicas import Replica
from launcher.intake.roles import LABEL, framework_for
from launcher.intake.tfconfig import Peers, dense, sparse
from launcher.intake.tfspec import CHIEFS, TfJob, read_tfjob

Json = dict[str, Any]

_VARIABLE = "TF_CONFIG"


def framework_of(obj: Json, *, domain: str = "") -> Mapped:
    """
    The Framework that does what the TFJob asks for; *domain* is the cluster's, if TF_CONFIG is to name it.

    Raises InvalidObject with everything that is wrong or has no counterpart.
    """
    problems: list[Problem] = []
    tfjob = read_tfjob(obj, problems)
    if problems:
        raise InvalidObject(tuple(problems))
    return framework_for(tfjob.job, _TfManner(tfjob, domain))


@dataclass(frozen=True, slots=True)
class _TfManner:
    """How the replicas of a TFJob end it, and what they know of each other."""

    tfjob: TfJob
    domain: str

    def completion(self, replica: Replica) -> Json:
        """Any failure ends the job; the chief's success does, or else that of worker 0 or of all workers."""
        policy: Json = {"minFailedTaskCount": 1, "minSucceededTaskCount": -1}
        if replica.type in CHIEFS:
            policy["minSucceededTaskCount"] = replica.count or -1
        if replica.type == "worker":
            policy["minFailedTaskCount"] = -1 if self.tfjob.dynamic else 1
            if self.tfjob.job.chief is None:
                policy["minSucceededTaskCount"] = replica.count or -1
                if replica.count and not self.tfjob.all_workers:
                    policy["succeededIndexes"] = "0"
        return policy

    def variables(self, replica: Replica) -> Mapping[str, str]:
        """TF_CONFIG for the tasks of that type; none where the operator sets none: a task alone has nobody to find."""
        job = self.tfjob.job
        if job.total == 1 and not job.is_old:
            return {}
        peers = [
            Peers(each.type, each.count, each.port)
            for each in job.replicas
            if each.type in job.family.deciding
        ]
        if self.tfjob.dynamic:
            return {_VARIABLE: sparse(peers, replica.type, domain=self.domain)}
        return {_VARIABLE: dense(peers, replica.type, domain=self.domain, evaluators=not job.is_old)}

    def finished(self, replica: Replica, role: Json) -> Json:
        """The role; where there is no chief, worker 0 is labelled in its place."""
        if self.tfjob.job.chief is not None or replica.type != "worker":
            return role
        metadata = role["task"]["pod"]["metadata"]
        labels = [metadata["annotations"].get(FIRST_LABELS), f"{LABEL}job-role=master"]
        annotations = {**metadata["annotations"], FIRST_LABELS: ",".join(filter(None, labels))}
        pod = {**role["task"]["pod"], "metadata": {**metadata, "annotations": annotations}}
        return {**role, "task": {**role["task"], "pod": pod}}

    def notes(self) -> Iterator[str]:
        types = [replica.type for replica in self.tfjob.job.replicas]
        if not any(each in types for each in (*CHIEFS, "worker")):
            yield "there is neither chief nor worker: it has succeeded when every task has ended, not never"
