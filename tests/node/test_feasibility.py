"""Whether a pod fits a node, and what it is told if not."""

from typing import Any

import pytest

from launcher.scheduling.cluster_state import ClusterState, NodeAttributes, NodeInfo, PodInfo
from launcher.scheduling.feasibility import (
    AffinityFilter,
    insufficient_resources,
    static_mismatch,
    unschedulable_message,
)
from launcher.scheduling.pod_requirements import demand_of
from tests.node.scheduling import HOSTNAME, a_guest, a_node, a_taint, about, affinity, pod_json

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

    assert static_mismatch(demand_of(pod_json(**spec)), GPU_NODE) == (None if fits else NO_AFFINITY)


def test_one_of_several_terms_is_enough_and_all_of_a_term_must_hold() -> None:
    both = expression("zone", "In", "a") | field("In", "other")
    either = (expression("zone", "In", "b"), expression("size", "Gt", "1"))

    assert (
        static_mismatch(demand_of(pod_json(affinity=affinity("nodeAffinity", both))), GPU_NODE) == NO_AFFINITY
    )
    assert static_mismatch(demand_of(pod_json(affinity=affinity("nodeAffinity", *either))), GPU_NODE) is None


def test_affinity_without_any_condition_holds_nowhere() -> None:
    no_term = pod_json(affinity=affinity("nodeAffinity"))
    empty_term = pod_json(affinity=affinity("nodeAffinity", {}))

    assert static_mismatch(demand_of(no_term), GPU_NODE) == NO_AFFINITY
    assert static_mismatch(demand_of(empty_term), GPU_NODE) == NO_AFFINITY


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
def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(toleration: dict[str, str], fits: bool) -> None:
    tainted = a_node(taints=[a_taint()])
    why = None if fits else "node(s) had untolerated taint {k: v}"

    assert static_mismatch(demand_of(pod_json(tolerations=[toleration])), tainted) == why


def test_a_taint_that_only_prefers_keeps_nobody_away() -> None:
    assert static_mismatch(demand_of(pod_json()), a_node(taints=[a_taint(effect="PreferNoSchedule")])) is None
    assert static_mismatch(demand_of(pod_json()), a_node(taints=[a_taint(effect="NoExecute")])) is not None


def test_a_cordoned_node_takes_nobody_but_those_who_tolerate_it() -> None:
    cordoned = a_node(unschedulable=True)
    tolerant = pod_json(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])

    assert static_mismatch(demand_of(pod_json()), cordoned) == "node(s) were unschedulable"
    assert static_mismatch(demand_of(tolerant), cordoned) is None


def full_of(facts: NodeAttributes, *guests: PodInfo) -> NodeInfo:
    node = NodeInfo(facts)
    for guest in guests:
        node.take(guest)
    return node


def test_everything_that_is_short_is_named() -> None:
    node = full_of(a_node(cpu="2", memory="1Gi", pods=2), a_guest("q", requests={"cpu": "1500m"}))

    assert insufficient_resources(demand_of(pod_json(requests={"cpu": "500m", "memory": "1Gi"})), node) == []
    assert insufficient_resources(demand_of(pod_json(requests={"cpu": "501m", "memory": "2Gi"})), node) == [
        "Insufficient cpu",
        "Insufficient memory",
    ]
    assert insufficient_resources(demand_of(pod_json(requests={"nvidia.com/gpu": 1})), node) == [
        "Insufficient nvidia.com/gpu"
    ]


def test_a_node_takes_so_many_pods_and_no_more() -> None:
    node = full_of(a_node(pods=2), a_guest("a"), a_guest("b"))

    assert insufficient_resources(demand_of(pod_json()), node) == ["Too many pods"]


def test_what_a_pod_gave_back_can_be_taken_again() -> None:
    node = full_of(a_node(cpu=1), guest := a_guest("a", requests={"cpu": 1}, hostNetwork=True))
    node.release(guest.key)

    assert insufficient_resources(demand_of(pod_json(requests={"cpu": 1})), node) == []
    assert not node.ports
    assert not node.guests


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
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000, id="limits stand in"
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
def test_a_pod_asks_for_what_its_containers_need_at_once(spec: dict[str, Any], cpu: int) -> None:
    assert demand_of(pod_json(**spec)).amounts["cpu"] == cpu


def port(number: int, address: str | None = None, protocol: str | None = None) -> dict[str, Any]:
    fields = {"containerPort": 1, "hostPort": number, "hostIP": address, "protocol": protocol}
    return {"ports": [{key: value for key, value in fields.items() if value is not None}]}


@pytest.mark.parametrize(
    ("taken", "wanted", "free"),
    [
        pytest.param(port(80), port(80), False, id="the same port"),
        pytest.param(port(80), port(81), True, id="another port"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="another protocol"),
        pytest.param(port(80, "127.0.0.1"), port(80, "127.0.0.2"), True, id="another address"),
        pytest.param(port(80, "127.0.0.1"), port(80), False, id="every address wants this one"),
        pytest.param(port(80), port(80, "127.0.0.1"), False, id="every address has this one"),
    ],
)
def test_a_port_of_the_host_is_given_once(taken: dict[str, Any], wanted: dict[str, Any], free: bool) -> None:
    node = full_of(a_node(), a_guest("a", containers=[{"name": "c", **taken}]))
    short = insufficient_resources(demand_of(pod_json(containers=[{"name": "c", **wanted}])), node)

    assert short == ([] if free else ("node(s) didn't have free ports for the requested pod ports",))


def test_on_the_hosts_network_every_port_is_one_of_the_host() -> None:
    listening = [{"name": "c", "ports": [{"containerPort": 8888}]}]

    assert demand_of(pod_json(containers=listening)).ports == ()
    assert [one.port for one in demand_of(pod_json(containers=listening, hostNetwork=True)).ports] == [8888]


@pytest.mark.parametrize(
    ("spec", "says"),
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
            "one whole number",
            id="number",
        ),
        pytest.param(
            {"affinity": affinity("podAffinity", {"labelSelector": {}})},
            "topologyKey is missing",
            id="topology",
        ),
        pytest.param(
            {"affinity": affinity("podAffinity", about({}, namespaceSelector={"matchLabels": {"a": "b"}}))},
            "name the namespaces in namespaces",
            id="namespaces by label",
        ),
        pytest.param({"tolerations": "all"}, "another type", id="type"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        demand_of(pod_json(**spec))


def test_pods_that_ask_for_the_same_share_one_demand() -> None:
    first, second = pod_json("a", labels={"x": "1"}), pod_json("b", labels={"x": "2"})

    assert demand_of(first) is demand_of(second)


# Other pods.


ZONES = (
    a_node("a1", labels={"zone": "a"}),
    a_node("a2", labels={"zone": "a"}),
    a_node("b1", labels={"zone": "b"}),
)
NEAR = "node(s) didn't match pod affinity rules"
APART = "node(s) didn't match pod anti-affinity rules"
SHUNNED = "node(s) didn't satisfy existing pods anti-affinity rules"


def a_site(*placed: tuple[PodInfo, str]) -> ClusterState:
    site = ClusterState()
    for facts in ZONES:
        site.set_node(facts)
    for guest, node in placed:
        site.place(guest, node)
    return site


def company(guest: PodInfo, site: ClusterState) -> list[str | None]:
    site.crowds.ask(guest.demand.terms)
    return [AffinityFilter(guest, site).refusal(facts) for facts in ZONES]


def test_a_pod_near_others_goes_where_they_are() -> None:
    site = a_site((a_guest("web", labels={"app": "web"}), "a1"))
    same_node = a_guest("x", affinity=affinity("podAffinity", about({"app": "web"})))
    same_zone = a_guest("y", affinity=affinity("podAffinity", about({"app": "web"}, "zone")))

    assert company(same_node, site) == [None, NEAR, NEAR]
    assert company(same_zone, site) == [None, None, NEAR]


def test_a_pod_apart_from_others_goes_where_they_are_not() -> None:
    site = a_site((a_guest("web", labels={"app": "web"}), "a1"))
    same_node = a_guest("x", affinity=affinity("podAntiAffinity", about({"app": "web"})))
    same_zone = a_guest("y", affinity=affinity("podAntiAffinity", about({"app": "web"}, "zone")))

    assert company(same_node, site) == [APART, None, None]
    assert company(same_zone, site) == [APART, APART, None]


def test_a_pod_that_is_there_keeps_away_those_whom_it_wants_to_be_apart_from() -> None:
    loner = a_guest("x", affinity=affinity("podAntiAffinity", about({"app": "web"}, "zone")))
    site = a_site((loner, "b1"))

    assert company(a_guest("web", labels={"app": "web"}), site) == [None, None, SHUNNED]
    assert company(a_guest("other", labels={"app": "db"}), site) == [None, None, None]

    site.remove(loner.key)

    assert company(a_guest("web", labels={"app": "web"}), site) == [None, None, None]


def test_the_first_of_a_group_that_wants_to_be_together_may_go_anywhere_and_the_next_follows() -> None:
    def member(name: str) -> PodInfo:
        return a_guest(name, labels={"g": "1"}, affinity=affinity("podAffinity", about({"g": "1"}, "zone")))

    site = a_site()
    assert company(member("first"), site) == [None, None, None]

    site.place(member("first"), "b1")

    assert company(member("second"), site) == [NEAR, NEAR, None]


def test_nobody_is_near_others_on_a_node_without_the_label_of_the_place() -> None:
    together = affinity("podAffinity", about({"g": "1"}, "rack"))

    assert company(a_guest("first", labels={"g": "1"}, affinity=together), a_site()) == [NEAR, NEAR, NEAR]


def test_terms_are_about_the_own_namespace_unless_they_name_others() -> None:
    site = a_site((a_guest("web", namespace="team", labels={"app": "web"}), "a1"))

    def apart(**more: Any) -> list[str | None]:
        term = about({"app": "web"}, HOSTNAME, **more)
        return company(a_guest("x", affinity=affinity("podAntiAffinity", term)), site)

    assert apart() == [None, None, None]
    assert apart(namespaces=["team"]) == [APART, None, None]
    assert apart(namespaceSelector={}) == [APART, None, None]
    assert apart(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team"}}) == [
        APART,
        None,
        None,
    ]


def test_label_keys_take_the_values_of_the_pod_itself() -> None:
    site = a_site((a_guest("web", labels={"app": "web", "version": "1"}), "a1"))

    def apart(version: str) -> list[str | None]:
        term = about({"app": "web"}, matchLabelKeys=["version"])
        labels = {"version": version}
        return company(a_guest("x", labels=labels, affinity=affinity("podAntiAffinity", term)), site)

    assert apart("1") == [APART, None, None]
    assert apart("2") == [None, None, None]


def test_a_selector_of_expressions_counts_those_who_were_there_before_it_was_asked_for() -> None:
    site = a_site((a_guest("a", labels={"app": "web"}), "a1"), (a_guest("b", labels={"app": "db"}), "b1"))
    term = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "topologyKey": HOSTNAME,
    }

    assert company(a_guest("x", affinity=affinity("podAntiAffinity", term)), site) == [APART, None, APART]


# What is told.


def test_the_verdict_counts_reasons_and_sorts_them() -> None:
    reasons = ["Insufficient cpu", NO_AFFINITY, NO_AFFINITY]

    assert unschedulable_message(3, reasons) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."
    )


def test_without_nodes_the_verdict_says_so() -> None:
    assert unschedulable_message(0, []) == "no nodes available to schedule pods"
