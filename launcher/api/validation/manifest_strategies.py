"""The kinds that users submit, Frameworks and jobs, each with the strategy that validates it."""

from launcher.api.validation.frameworks import FrameworkStrategy
from launcher.api.validation.jobs import JobStrategy
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.store.interface import FRAMEWORKS, ResourceKind

SUBMITTED_KINDS = (FRAMEWORKS, *(kind for job_kind in JOB_KINDS for kind in job_kind.kinds))


def manifest_strategies(policy: AdmissionPolicy) -> dict[ResourceKind, FrameworkStrategy | JobStrategy]:
    """The strategy of each submitted kind, with the same admission policy."""
    jobs = {kind: JobStrategy(kind, job_kind, policy) for job_kind in JOB_KINDS for kind in job_kind.kinds}
    return {FRAMEWORKS: FrameworkStrategy(policy), **jobs}
