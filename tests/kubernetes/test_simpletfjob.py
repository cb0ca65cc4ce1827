"""``launcher simpletfjob`` with the nodes of a cluster."""

from pathlib import Path

import pytest
import yaml

from launcher.cli.main import main
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.launcher import KubeLauncher

TEMPLATE = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: mnist-{{.type}}-{{.index}}
spec:
  template:
    metadata:
      annotations: {launcher.test/ends: {{if eq .type "ps"}}never{{else}}succeeded{{end}}}
    spec:
      nodeName: {{.host}}
      hostNetwork: true
      containers:
        - name: tensorflow
          image: tensorflow/tensorflow:1.13.1-py3
          env:
            - name: TF_CONFIG
              value: >
{{.TF_CONFIG}}
          ports:
            - containerPort: 2222
              hostPort: 2222
      restartPolicy: OnFailure
  backoffLimit: 4
"""


@pytest.fixture
def template(tmp_path: Path) -> Path:
    (tmp_path / "mnist.yaml").write_text(TEMPLATE)
    return tmp_path / "mnist.yaml"


def test_a_template_is_filled_in_for_the_nodes_of_a_cluster(cluster: ControlPlane, template: Path) -> None:
    assert main(["simpletfjob", str(template), "--kubeconfig", str(cluster.kubeconfig)]) == 0

    jobs = list(yaml.safe_load_all((template.parent / "mnist_tfjob.yaml").read_text()))
    nodes = [node["metadata"]["name"] for node in cluster.admin.get("/api/v1/nodes")["items"]]
    assert [job["spec"]["template"]["spec"]["nodeName"] for job in jobs] == sorted(nodes)


def test_a_submitted_template_runs_on_its_nodes_until_every_worker_has_succeeded(
    cluster: ControlPlane, shared_launcher: KubeLauncher, namespace: str, template: Path
) -> None:
    token = template.parent / "token"
    token.write_text(cluster.admin_token)
    options = ["--server", shared_launcher.url, "--token-file", str(token), "-n", namespace]

    assert main(["simpletfjob", str(template), "-N", "3", "--submit", "--wait", *options]) == 0

    framework = cluster.admin.get(f"/apis/launcher.microsoft.com/v1/namespaces/{namespace}/frameworks/mnist")
    nodes = [role["task"]["pod"]["spec"]["nodeName"] for role in framework["spec"]["taskRoles"]]
    pods = cluster.admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    succeeded = {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in pods
        if pod["status"]["phase"] == "Succeeded"
    }
    assert succeeded == {"mnist-worker0-0": nodes[1], "mnist-worker1-0": nodes[2]}
