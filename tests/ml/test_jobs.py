"""
Real TensorFlow and PyTorch jobs from the manifests that their users have, on one machine.

Every replica of a TFJob listens on port 2222, and the master of every PyTorchJob on 23456.
"""

from pathlib import Path

from tests.local.server import Server, ended
from tests.local.test_gang import launcher

#: A training of two workers takes some seconds, and the import of the framework as long again.
_LIMIT_SECONDS = 150.0

TWO_WORKERS = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: {name}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - name: tensorflow
              image: tensorflow/tensorflow:latest
              command: ["python", "/train/multi_worker.py"]
              env: [{{name: LAUNCHER_TEST, value: "{data}"}}]
"""

PS_AND_WORKER = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: {name}
spec:
  tfReplicaSpecs:
    PS:
      replicas: 1
      restartPolicy: OnFailure
      template: &template
        spec:
          containers:
            - name: tensorflow
              image: tensorflow/tensorflow:latest
              command: ["python", "/train/parameter_server.py"]
              env: [{{name: LAUNCHER_TEST, value: "{data}"}}]
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template: *template
"""

MASTER_AND_WORKER = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: {name}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template: &template
        spec:
          containers:
            - name: pytorch
              image: pytorch/pytorch:latest
              command: ["python", "/train/all_reduce.py"]
              env: [{{name: LAUNCHER_TEST, value: "{data}"}}]
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template: *template
"""


def submit(server: Server, home: Path, manifest: str, *names: str) -> None:
    """Submits the manifest once for each name."""
    for name in names:
        file = home / f"{name}.yaml"
        file.write_text(manifest.format(name=name, data=server.data))
        launcher(server, home, "submit", str(file))


def succeeded(server: Server, name: str) -> None:
    assert ended(server.completed(name, _LIMIT_SECONDS)) == "Succeeded"


def test_two_tensorflow_jobs_of_two_workers_train_at_the_same_time(server: Server, tmp_path: Path) -> None:
    submit(server, tmp_path, TWO_WORKERS, "mirrored-a", "mirrored-b")

    for name in ("mirrored-a", "mirrored-b"):
        succeeded(server, name)
        assert "worker 0 of 2 has weight 9.0" in server.log(f"{name}-worker-0")


def test_a_parameter_server_and_a_worker_train(server: Server, tmp_path: Path) -> None:
    submit(server, tmp_path, PS_AND_WORKER, "ps")

    succeeded(server, "ps")
    assert "worker 0 placed /job:ps/task:0 at step True" in server.log("ps-worker-0")


def test_a_job_that_arena_submits_trains_with_two_workers_and_a_parameter_server(
    server: Server, tmp_path: Path
) -> None:
    flags = ("--name=arena", "--workers=2", "--ps=1", "--image=tensorflow/tensorflow:latest")
    environment = f"--env=LAUNCHER_TEST={server.data}"

    launcher(
        server, tmp_path, "arena", "submit", "tfjob", *flags, environment, "python /train/parameter_server.py"
    )

    succeeded(server, "arena")
    assert "worker 0 placed /job:ps/task:0 at step True" in server.log("arena-worker-0")


def test_two_pytorch_jobs_train_at_the_same_time(server: Server, tmp_path: Path) -> None:
    submit(server, tmp_path, MASTER_AND_WORKER, "gloo-a", "gloo-b")

    for name in ("gloo-a", "gloo-b"):
        succeeded(server, name)
        assert "rank 0 of 2 has weight 9.0" in server.log(f"{name}-master-0")
