"""What simpletfjob makes of machines and templates; the numbers are those of the specification's test cases."""

import json
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from launcher.converters.simpletfjob.template import (
    TemplateTask,
    choose_hosts,
    hosts_in,
    join_documents,
    output_path,
    render_tasks,
    tasks_on,
    unusable_reason,
)
from launcher.core.errors import BadRequest

HOSTS = ("h10", "h100", "h14", "h2", "h23")
SEED = Path(__file__).parents[4] / "shared" / "seeds" / "002_d8e30d5b43767a1e.txt"

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: demo-{{.type}}-{{.index}}
spec:
  nodeName: {{.host}}
  containers:
    - name: tensorflow
      image: tf:1
      env:
        - name: TF_CONFIG
          value: >
{{.TF_CONFIG}}
      ports:
        - containerPort: 2222
"""
FIRST_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: demo-ps-0
spec:
  nodeName: h10
  containers:
    - name: tensorflow
      image: tf:1
      env:
        - name: TF_CONFIG
          value: >
                {
                  "cluster": {
                    "ps": ["h10:2222"],
                    "worker": ["h100:2222","h14:2222"]
                  },
                  "task": {
                    "index": 0,
                    "type": "ps"
                  }
                }

      ports:
        - containerPort: 2222"""


def made(template: str, hosts: tuple[str, ...] = HOSTS[:3], psn: int = 1) -> tuple[str, ...]:
    return render_tasks(template, tasks_on(hosts, psn), 2222)


def a_node(ready: str = "True", **spec: Any) -> dict[str, Any]:
    return {"spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def test_68_the_worked_example_is_rendered_byte_for_byte() -> None:
    documents = made(POD)

    assert documents[0] == FIRST_POD
    assert len(join_documents(documents).encode()) == 1602
    assert join_documents(documents).endswith("2222")


def test_68_each_tf_config_can_be_read_as_json() -> None:
    read = [
        json.loads(doc["spec"]["containers"][0]["env"][0]["value"]) for doc in map(yaml.safe_load, made(POD))
    ]

    cluster = {"ps": ["h10:2222"], "worker": ["h100:2222", "h14:2222"]}
    assert read == [
        {"cluster": cluster, "task": {"index": 0, "type": "ps"}},
        {"cluster": cluster, "task": {"index": 0, "type": "worker"}},
        {"cluster": cluster, "task": {"index": 1, "type": "worker"}},
    ]


@pytest.mark.skipif(not SEED.exists(), reason="the document that describes simpletfjob is not here")
def test_the_sample_of_the_manual_is_rendered_byte_for_byte() -> None:
    parts = SEED.read_text().split("```yaml\n")
    template, output = (part.split("```")[0] for part in parts[1:3])

    assert join_documents(made(template)) == output.removesuffix("\n")


@pytest.mark.parametrize("number", [0, -1])
def test_70_minus_one_and_zero_are_all_machines(number: int) -> None:
    assert choose_hosts(HOSTS, (), number) == HOSTS


def test_the_first_machines_of_the_given_number_are_chosen() -> None:
    assert choose_hosts(HOSTS, (), 3) == ("h10", "h100", "h14")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        pytest.param(9, "-N 9: only 5 nodes are available (h10, h100, h14, h2, h23)", id="too many"),
        pytest.param(-3, "-N -3: must be the number of nodes, or -1 for all", id="negative"),
    ],
)
def test_71_an_impossible_number_of_nodes_is_rejected(number: int, message: str) -> None:
    with pytest.raises(BadRequest) as raised:
        choose_hosts(HOSTS, (), number)

    assert str(raised.value).startswith(message)


def test_72_parameter_servers_come_first_and_each_type_counts_from_zero() -> None:
    assert tasks_on(HOSTS, 2) == (
        TemplateTask("ps", 0, "h10"),
        TemplateTask("ps", 1, "h100"),
        TemplateTask("worker", 0, "h14"),
        TemplateTask("worker", 1, "h2"),
        TemplateTask("worker", 2, "h23"),
    )


@pytest.mark.parametrize(
    ("hosts", "psn", "message"),
    [
        pytest.param(
            HOSTS[:3],
            3,
            "--psn 3: no node is left for workers, since there are 3",
            id="psn 3, N 3",
        ),
        pytest.param(HOSTS, 0, "--psn 0: must be at least 1", id="psn 0"),
        pytest.param(HOSTS, -1, "--psn -1: must be at least 1", id="psn -1"),
        pytest.param(HOSTS[:1], 1, "--psn 1: no node is left for workers, since there are 1", id="N 1"),
        pytest.param(
            (),
            1,
            "--psn 1: no node is left for workers, since there are 0 nodes (none)",
            id="none",
        ),
    ],
)
def test_73_at_least_one_parameter_server_and_one_worker_are_required(
    hosts: tuple[str, ...], psn: int, message: str
) -> None:
    with pytest.raises(BadRequest) as raised:
        tasks_on(hosts, psn)

    assert str(raised.value).startswith(message)


def test_74_excluded_machines_are_read_from_lines_of_any_kind() -> None:
    excluded = hosts_in("\n h10\r\nh14  \r\n\r\n\t\n# busy until friday\nh23")

    assert excluded == ("h10", "h14", "h23")
    assert choose_hosts(HOSTS, excluded, 2) == ("h100", "h2")


@pytest.mark.parametrize(
    ("template", "output"),
    [
        ("x/y/mnist.yaml", "x/y/mnist_tfjob.yaml"),
        ("mnist", "mnist_tfjob.yaml"),
        ("m.yml", "m.yml_tfjob.yaml"),
    ],
)
def test_76_the_output_file_is_next_to_the_template(template: str, output: str) -> None:
    assert output_path(PurePosixPath(template)) == PurePosixPath(output)


def test_77_white_space_around_the_template_and_the_final_newline_are_removed() -> None:
    assert join_documents(made("\n\n {{.host}}\n\n\n", ("a", "b"))) == "a\n---\nb"


def test_78_an_unknown_variable_is_rejected_with_its_line_in_the_file() -> None:
    with pytest.raises(BadRequest) as raised:
        made("\n\nname: {{.nope}}\n")

    assert str(raised.value) == (
        "line 3: no variable {{.nope}}; there are {{.type}}, {{.index}}, {{.host}}, {{.TF_CONFIG}}"
    )


def test_79_a_template_may_decide_by_type() -> None:
    assert made('{{if eq .type "ps"}}a{{else}}b{{end}}') == ("a", "b", "b")


@pytest.mark.parametrize("key", ["value: >", "value: |-", "value: >2", "value: >  # for TensorFlow"])
@pytest.mark.parametrize("column", [1, 14, 15, 16, 20, 33])
def test_80_tf_config_is_indented_below_its_key(key: str, column: int) -> None:
    template = f"a:\n{' ' * column}{key}\n{{{{.TF_CONFIG}}}}\n"

    value = yaml.safe_load(made(template)[0])["a"]["value"]

    assert json.loads(value)["task"] == {"index": 0, "type": "ps"}


def test_80_a_key_that_begins_an_item_is_indented_with_its_dash() -> None:
    indent = " " * 14
    template = f"a:\n{indent}- value: >\n{{{{.TF_CONFIG}}}}\n{indent}  name: x"

    (item,) = yaml.safe_load(made(template)[0])["a"]

    assert item["name"] == "x"
    assert json.loads(item["value"])["task"]["type"] == "ps"


def test_80_every_line_of_tf_config_has_the_indentation_of_its_placeholder() -> None:
    document = made("a:\n  value: >\n      {{.TF_CONFIG}}  b: 1")[0]

    assert document.splitlines()[2:4] == ["      {", '        "cluster": {']
    assert json.loads(yaml.safe_load(document)["a"]["value"])["task"]["type"] == "ps"


def test_tf_config_after_other_text_has_the_default_indentation() -> None:
    document = made("value: '{{.TF_CONFIG}}'")[0]

    assert document.startswith('value: \'                {\n                  "cluster"')


def test_the_port_of_tf_config_can_be_set() -> None:
    document = render_tasks("{{.TF_CONFIG}}", tasks_on(("a", "b"), 1), 4000)[0]

    assert json.loads(document)["cluster"] == {"ps": ["a:4000"], "worker": ["b:4000"]}


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        pytest.param(a_node(), None, id="a good one"),
        pytest.param(a_node(taints=[{"key": "gpu", "effect": "NoSchedule"}]), None, id="tainted for others"),
        pytest.param(a_node("False"), "not ready", id="not ready"),
        pytest.param(a_node("Unknown"), "not ready", id="unreachable"),
        pytest.param({"metadata": {}}, "not ready", id="without status"),
        pytest.param(a_node(unschedulable=True), "cordoned", id="cordoned"),
        pytest.param(
            a_node(taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]),
            "reserved for the control plane",
            id="a control plane node",
        ),
    ],
)
def test_a_machine_that_cannot_run_pods_has_a_reason(node: dict[str, Any], reason: str | None) -> None:
    assert unusable_reason(node) == reason
