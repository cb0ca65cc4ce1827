"""Feasibility of nodes, and the reasons against them."""

from typing import Any

import pytest

from launcher.scheduling.cluster_state import ClusterState, NodeAttributes, NodeInfo, PodInfo
from launcher.scheduling.feasibility import (
    AffinityFilter,
    insufficient_resources,
    static_mismatch,
    unschedulable_message,
)
from launcher.scheduling.pod_requirements import pod_requirements
from tests.scheduling.builders import HOSTNAME, a_node, a_pod_info, a_taint, affinity, pod_json, pod_term

NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
GPU_NODE = a_node("gpu-1", labels={"zone": "a", "size": "12"})


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        pytest.param({}, True, id="nothing asked"),
        pytest.param({"nodeSelector": {"zone": "a"}}, True, id="selector that holds"),
        pytest.param({"nodeSelector": {"zone": "b"}}, False, id="selector with another value"),
        pytest.param({"nodeSelector": {"zone": "a", "x": "y"}}, False, id="selector with a label too many"),
        pytest.param(expression("zone", "In", "a", "b"), True, id="In"),
        pytest.param(expression("zone", "In", "b"), False, id="not In"),
        pytest.param(expression("zone", "NotIn", "b"), True, id="NotIn"),
        pytest.param(expression("other", "NotIn", "b"), True, id="NotIn without the label"),
        pytest.param(expression("zone", "NotIn", "a"), False, id="not NotIn"),
        pytest.param(expression("zone", "Exists"), True, id="Exists"),
        pytest.param(expression("other", "Exists"), False, id="not Exists"),
        pytest.param(expression("other", "DoesNotExist"), True, id="DoesNotExist"),
        pytest.param(expression("zone", "DoesNotExist"), False, id="not DoesNotExist"),
        pytest.param(expression("size", "Gt", "11"), True, id="Gt compares numbers"),
        pytest.param(expression("size", "Gt", "12"), False, id="Gt is not at least"),
        pytest.param(expression("size", "Lt", "13"), True, id="Lt"),
        pytest.param(expression("zone", "Lt", "13"), False, id="Lt of a label that is no number"),
        pytest.param(field("In", "gpu-1"), True, id="the node's name"),
        pytest.param(field("NotIn", "gpu-1"), False, id="not the node's name"),
        pytest.param({}, True, id="no term"),
    ],
)
def test_selectors_and_node_affinity_choose_nodes(spec: dict[str, Any], fits: bool) -> None:
    if "matchExpressions" in spec or "matchFields" in spec:
        spec = {"affinity": affinity("nodeAffinity", spec)}

    assert static_mismatch(pod_requirements(pod_json(**spec)), GPU_NODE) == (None if fits else NO_AFFINITY)


def test_one_of_several_terms_is_enough_and_all_of_a_term_must_hold() -> None:
    both = expression("zone", "In", "a") | field("In", "other")
    either = (expression("zone", "In", "b"), expression("size", "Gt", "1"))

    assert (
        static_mismatch(pod_requirements(pod_json(affinity=affinity("nodeAffinity", both))), GPU_NODE)
        == NO_AFFINITY
    )
    assert (
        static_mismatch(pod_requirements(pod_json(affinity=affinity("nodeAffinity", *either))), GPU_NODE)
        is None
    )


def test_an_empty_affinity_term_matches_no_node() -> None:
    no_term = pod_json(affinity=affinity("nodeAffinity"))
    empty_term = pod_json(affinity=affinity("nodeAffinity", {}))

    assert static_mismatch(pod_requirements(no_term), GPU_NODE) == NO_AFFINITY
    assert static_mismatch(pod_requirements(empty_term), GPU_NODE) == NO_AFFINITY


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        pytest.param(
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}, True, id="equal"
        ),
        pytest.param({"key": "k", "value": "v"}, True, id="equal is the default, for any effect"),
        pytest.param({"key": "k", "operator": "Exists"}, True, id="any value"),
        pytest.param({"operator": "Exists"}, True, id="any key"),
        pytest.param({"key": "k", "value": "w"}, False, id="another value"),
        pytest.param({"key": "k"}, False, id="no value is the empty one"),
        pytest.param({"key": "l", "operator": "Exists"}, False, id="another key"),
        pytest.param({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False, id="another effect"),
    ],
)
def test_a_taint_rejects_pods_that_do_not_tolerate_it(toleration: dict[str, str], fits: bool) -> None:
    tainted = a_node(taints=[a_taint()])
    rejection = None if fits else "node(s) had untolerated taint {k: v}"

    assert static_mismatch(pod_requirements(pod_json(tolerations=[toleration])), tainted) == rejection


def test_a_prefer_no_schedule_taint_rejects_no_pod() -> None:
    assert (
        static_mismatch(pod_requirements(pod_json()), a_node(taints=[a_taint(effect="PreferNoSchedule")]))
        is None
    )
    assert (
        static_mismatch(pod_requirements(pod_json()), a_node(taints=[a_taint(effect="NoExecute")]))
        is not None
    )


def test_a_cordoned_node_accepts_only_pods_that_tolerate_it() -> None:
    cordoned = a_node(unschedulable=True)
    tolerant = pod_json(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])

    assert static_mismatch(pod_requirements(pod_json()), cordoned) == "node(s) were unschedulable"
    assert static_mismatch(pod_requirements(tolerant), cordoned) is None


def full_of(attributes: NodeAttributes, *pods: PodInfo) -> NodeInfo:
    node = NodeInfo(attributes)
    for pod in pods:
        node.add_pod(pod)
    return node


def test_every_insufficient_resource_is_named() -> None:
    node = full_of(a_node(cpu="2", memory="1Gi", pods=2), a_pod_info("q", requests={"cpu": "1500m"}))

    assert (
        insufficient_resources(pod_requirements(pod_json(requests={"cpu": "500m", "memory": "1Gi"})), node)
        == []
    )
    assert insufficient_resources(
        pod_requirements(pod_json(requests={"cpu": "501m", "memory": "2Gi"})), node
    ) == [
        "Insufficient cpu",
        "Insufficient memory",
    ]
    assert insufficient_resources(pod_requirements(pod_json(requests={"nvidia.com/gpu": 1})), node) == [
        "Insufficient nvidia.com/gpu"
    ]


def test_a_node_accepts_only_its_number_of_pods() -> None:
    node = full_of(a_node(pods=2), a_pod_info("a"), a_pod_info("b"))

    assert insufficient_resources(pod_requirements(pod_json()), node) == ["Too many pods"]


def test_released_resources_can_be_used_again() -> None:
    node = full_of(a_node(cpu=1), pod := a_pod_info("a", requests={"cpu": 1}, hostNetwork=True))
    node.remove_pod(pod.key)

    assert insufficient_resources(pod_requirements(pod_json(requests={"cpu": 1})), node) == []
    assert not node.ports
    assert not node.pods


def containers(*amounts: str, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"name": f"c{n}", "resources": {"requests": {"cpu": cpu}}, **fields} for n, cpu in enumerate(amounts)
    ]


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": containers("1", "2")}, 3000, id="containers run side by side"),
        pytest.param(
            {"containers": containers("1"), "initContainers": containers("3", "2")},
            3000,
            id="init one by one",
        ),
        pytest.param(
            {"containers": containers("4"), "initContainers": containers("3")}, 4000, id="the larger of both"
        ),
        pytest.param(
            {"containers": containers("1"), "initContainers": containers("2", restartPolicy="Always")},
            3000,
            id="sidecars stay",
        ),
        pytest.param(
            {
                "containers": containers("1"),
                "initContainers": [*containers("2", restartPolicy="Always"), *containers("5")],
            },
            7000,
            id="an init container beside a sidecar",
        ),
        pytest.param({"containers": containers("1"), "overhead": {"cpu": "250m"}}, 1250, id="overhead"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
            2000,
            id="limits replace missing requests",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]},
            1000,
            id="requests before limits",
        ),
        pytest.param(
            {"containers": containers("1", "1"), "resources": {"requests": {"cpu": "5"}}},
            5000,
            id="the pod's own",
        ),
    ],
)
def test_a_pod_requests_what_its_containers_use_at_the_same_time(spec: dict[str, Any], cpu: int) -> None:
    assert pod_requirements(pod_json(**spec)).requests["cpu"] == cpu


def port(number: int, address: str | None = None, protocol: str | None = None) -> dict[str, Any]:
    fields = {"containerPort": 1, "hostPort": number, "hostIP": address, "protocol": protocol}
    return {"ports": [{key: value for key, value in fields.items() if value is not None}]}


@pytest.mark.parametrize(
    ("taken", "requested", "free"),
    [
        pytest.param(port(80), port(80), False, id="the same port"),
        pytest.param(port(80), port(81), True, id="another port"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="another protocol"),
        pytest.param(port(80, "127.0.0.1"), port(80, "127.0.0.2"), True, id="another address"),
        pytest.param(port(80, "127.0.0.1"), port(80), False, id="every address wants this one"),
        pytest.param(port(80), port(80, "127.0.0.1"), False, id="every address has this one"),
    ],
)
def test_a_host_port_is_used_once(taken: dict[str, Any], requested: dict[str, Any], free: bool) -> None:
    node = full_of(a_node(), a_pod_info("a", containers=[{"name": "c", **taken}]))
    short = insufficient_resources(pod_requirements(pod_json(containers=[{"name": "c", **requested}])), node)

    assert short == ([] if free else ("node(s) didn't have free ports for the requested pod ports",))


def test_with_host_network_every_port_is_a_host_port() -> None:
    listening = [{"name": "c", "ports": [{"containerPort": 8888}]}]

    assert pod_requirements(pod_json(containers=listening)).ports == ()
    assert [one.port for one in pod_requirements(pod_json(containers=listening, hostNetwork=True)).ports] == [
        8888
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"containers": containers("many")},
            r"spec\.containers\.resources\.requests\.cpu: 'many'",
            id="amount",
        ),
        pytest.param({"tolerations": [{"operator": "Is"}]}, "must be Equal or Exists", id="toleration"),
        pytest.param(
            {"affinity": affinity("nodeAffinity", expression("a", "Is"))}, "operator 'Is'", id="operator"
        ),
        pytest.param(
            {"affinity": affinity("nodeAffinity", expression("a", "Gt", "x"))},
            "one integer",
            id="number",
        ),
        pytest.param(
            {"affinity": affinity("podAffinity", {"labelSelector": {}})},
            "topologyKey: Required value",
            id="topology",
        ),
        pytest.param(
            {
                "affinity": affinity(
                    "podAffinity", pod_term({}, namespaceSelector={"matchLabels": {"a": "b"}})
                )
            },
            "list the namespaces in namespaces",
            id="namespaces by label",
        ),
        pytest.param({"tolerations": "all"}, "wrong type", id="type"),
    ],
)
def test_invalid_requirements_are_rejected_by_field_name(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pod_requirements(pod_json(**spec))


def test_pods_with_equal_requirements_share_one_object() -> None:
    first, second = pod_json("a", labels={"x": "1"}), pod_json("b", labels={"x": "2"})

    assert pod_requirements(first) is pod_requirements(second)


# Inter-pod affinity.


ZONES = (
    a_node("a1", labels={"zone": "a"}),
    a_node("a2", labels={"zone": "a"}),
    a_node("b1", labels={"zone": "b"}),
)
NEAR = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


def a_cluster_state(*placed: tuple[PodInfo, str]) -> ClusterState:
    cluster = ClusterState()
    for attributes in ZONES:
        cluster.set_node(attributes)
    for pod, node in placed:
        cluster.assign(pod, node)
    return cluster


def affinity_filter(pod: PodInfo, cluster: ClusterState) -> list[str | None]:
    cluster.affinity_counts.track(pod.requirements.terms)
    return [AffinityFilter(pod, cluster).mismatch(attributes) for attributes in ZONES]


def test_pod_affinity_selects_the_topology_domain_of_matching_pods() -> None:
    cluster = a_cluster_state((a_pod_info("web", labels={"app": "web"}), "a1"))
    same_node = a_pod_info("x", affinity=affinity("podAffinity", pod_term({"app": "web"})))
    same_zone = a_pod_info("y", affinity=affinity("podAffinity", pod_term({"app": "web"}, "zone")))

    assert affinity_filter(same_node, cluster) == [None, NEAR, NEAR]
    assert affinity_filter(same_zone, cluster) == [None, None, NEAR]


def test_pod_anti_affinity_excludes_the_topology_domain_of_matching_pods() -> None:
    cluster = a_cluster_state((a_pod_info("web", labels={"app": "web"}), "a1"))
    same_node = a_pod_info("x", affinity=affinity("podAntiAffinity", pod_term({"app": "web"})))
    same_zone = a_pod_info("y", affinity=affinity("podAntiAffinity", pod_term({"app": "web"}, "zone")))

    assert affinity_filter(same_node, cluster) == [ANTI_AFFINITY, None, None]
    assert affinity_filter(same_zone, cluster) == [ANTI_AFFINITY, ANTI_AFFINITY, None]


def test_the_anti_affinity_of_running_pods_rejects_matching_pods() -> None:
    exclusive = a_pod_info("x", affinity=affinity("podAntiAffinity", pod_term({"app": "web"}, "zone")))
    cluster = a_cluster_state((exclusive, "b1"))

    assert affinity_filter(a_pod_info("web", labels={"app": "web"}), cluster) == [
        None,
        None,
        EXISTING_ANTI_AFFINITY,
    ]
    assert affinity_filter(a_pod_info("other", labels={"app": "db"}), cluster) == [None, None, None]

    cluster.remove_pod(exclusive.key)

    assert affinity_filter(a_pod_info("web", labels={"app": "web"}), cluster) == [None, None, None]


def test_the_first_pod_that_matches_its_own_affinity_may_run_anywhere() -> None:
    def member(name: str) -> PodInfo:
        return a_pod_info(
            name, labels={"g": "1"}, affinity=affinity("podAffinity", pod_term({"g": "1"}, "zone"))
        )

    cluster = a_cluster_state()
    assert affinity_filter(member("first"), cluster) == [None, None, None]

    cluster.assign(member("first"), "b1")

    assert affinity_filter(member("second"), cluster) == [NEAR, NEAR, None]


def test_a_node_without_the_topology_label_matches_no_pod_affinity() -> None:
    together = affinity("podAffinity", pod_term({"g": "1"}, "rack"))

    assert affinity_filter(a_pod_info("first", labels={"g": "1"}, affinity=together), a_cluster_state()) == [
        NEAR,
        NEAR,
        NEAR,
    ]


def test_terms_apply_to_the_pods_namespace_unless_they_name_others() -> None:
    cluster = a_cluster_state((a_pod_info("web", namespace="team", labels={"app": "web"}), "a1"))

    def anti_affinity_results(**more: Any) -> list[str | None]:
        term = pod_term({"app": "web"}, HOSTNAME, **more)
        return affinity_filter(a_pod_info("x", affinity=affinity("podAntiAffinity", term)), cluster)

    assert anti_affinity_results() == [None, None, None]
    assert anti_affinity_results(namespaces=["team"]) == [ANTI_AFFINITY, None, None]
    assert anti_affinity_results(namespaceSelector={}) == [ANTI_AFFINITY, None, None]
    assert anti_affinity_results(
        namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team"}}
    ) == [
        ANTI_AFFINITY,
        None,
        None,
    ]


def test_match_label_keys_use_the_values_of_the_pod() -> None:
    cluster = a_cluster_state((a_pod_info("web", labels={"app": "web", "version": "1"}), "a1"))

    def anti_affinity_results(version: str) -> list[str | None]:
        term = pod_term({"app": "web"}, matchLabelKeys=["version"])
        labels = {"version": version}
        return affinity_filter(
            a_pod_info("x", labels=labels, affinity=affinity("podAntiAffinity", term)), cluster
        )

    assert anti_affinity_results("1") == [ANTI_AFFINITY, None, None]
    assert anti_affinity_results("2") == [None, None, None]


def test_a_new_selector_counts_pods_that_already_run() -> None:
    cluster = a_cluster_state(
        (a_pod_info("a", labels={"app": "web"}), "a1"), (a_pod_info("b", labels={"app": "db"}), "b1")
    )
    term = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "topologyKey": HOSTNAME,
    }

    assert affinity_filter(a_pod_info("x", affinity=affinity("podAntiAffinity", term)), cluster) == [
        ANTI_AFFINITY,
        None,
        ANTI_AFFINITY,
    ]


# Messages.


def test_the_message_counts_and_sorts_reasons() -> None:
    reasons = ["Insufficient cpu", NO_AFFINITY, NO_AFFINITY]

    assert unschedulable_message(3, reasons) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."
    )


def test_the_message_states_that_there_are_no_nodes() -> None:
    assert unschedulable_message(0, []) == "no nodes available to schedule pods"
