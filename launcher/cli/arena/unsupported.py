"""Commands and flags of Arena that the launcher does not support, each with an alternative."""

from collections.abc import Mapping

#: By command.
COMMANDS: Mapping[str, str] = {
    "logviewer": "not supported; use arena logs",
    "scalein": "elastic training is not supported; launcher scale changes the number of tasks of a role",
    "scaleout": "elastic training is not supported; launcher scale changes the number of tasks of a role",
    "serve": "model serving is not supported",
    "data": "volumes belong to the cluster: kubectl get pvc",
    "cron": "not supported; use a CronJob that runs arena submit",
    "evaluate": "evaluation jobs are not supported; submit a tfjob",
    "model": "model management is not supported",
    "completion": "use launcher completion, which completes the commands of launcher",
    "llm": "model serving is not supported",
}

_OTHER = "only TensorFlow jobs can be submitted with flags; write a Framework and use launcher submit"
#: By kind of job.
KINDS: Mapping[str, str] = dict.fromkeys(
    (
        *("pytorchjob", "pytorch", "mpijob", "mpi", "mj", "horovodjob", "horovod", "hj", "etjob", "et"),
        *("deepspeedjob", "dp", "volcanojob", "vj", "rayjob", "rj", "sparkjob", "spark"),
    ),
    _OTHER,
)

#: By flag of any command.
FLAGS: Mapping[str, str] = {
    "config": "jobs are submitted to a launcher, not to a cluster: set --server or LAUNCHER_SERVER",
    "pprof": "not supported; see /metrics of the launcher",
    "trace": "not supported; see /metrics of the launcher",
    "details": "GPU metrics are not supported; see launcher describe, or kubectl describe node",
    "refresh": "not supported; use: watch -n 5 arena top node",
    "mode": "GPU metrics are not supported",
    "metric": "GPU metrics are not supported",
}

#: Flags without effect, which are reported.
IGNORED: Mapping[str, str] = {
    "arena-namespace": "ignored: the launcher has no operator",
    "helm-binary": "ignored: no chart is rendered",
}
