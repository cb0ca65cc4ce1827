"""What Arena has and the launcher has not, each with the way out."""

from collections.abc import Mapping

#: By command.
COMMANDS: Mapping[str, str] = {
    "logviewer": "there is no log viewer; see arena logs, or the pages of the launcher",
    "scalein": "jobs of elastic training are not run here; launcher scale changes how many tasks a role has",
    "scaleout": "jobs of elastic training are not run here; launcher scale changes how many tasks a role has",
    "serve": "models are not served here",
    "data": "volumes are the cluster's: kubectl get pvc",
    "cron": "nothing is run at set times here; let a CronJob call arena submit",
    "evaluate": "there are no evaluation jobs; submit one as a tfjob",
    "model": "models are not kept here",
    "completion": "shells complete the words of launcher itself: launcher completion",
    "llm": "models are not served here",
}

_OTHER = "only TensorFlow jobs can be submitted by flags; write a Framework, and give it to launcher submit"
#: By kind of job.
KINDS: Mapping[str, str] = dict.fromkeys(
    (
        *("pytorchjob", "pytorch", "mpijob", "mpi", "mj", "horovodjob", "horovod", "hj", "etjob", "et"),
        *("deepspeedjob", "dp", "volcanojob", "vj", "rayjob", "rj", "sparkjob", "spark"),
    ),
    _OTHER,
)

#: By flag of any command: what the launcher has no use for.
FLAGS: Mapping[str, str] = {
    "config": "jobs go to a launcher, not to a cluster: name it with --server, or in LAUNCHER_SERVER",
    "pprof": "the launcher is measured at its /metrics",
    "trace": "the launcher is measured at its /metrics",
    "details": "GPUs are counted, not looked at: see launcher describe, or kubectl describe node",
    "refresh": "run it again: watch -n 5 arena top node",
    "mode": "GPUs are counted, not looked at",
    "metric": "GPUs are counted, not looked at",
}

#: Flags that change nothing, and are told to.
IGNORED: Mapping[str, str] = {
    "arena-namespace": "there is no operator to look for; it is passed over",
    "helm-binary": "no chart is rendered; it is passed over",
}
