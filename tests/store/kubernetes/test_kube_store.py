"""Paths and selectors as a cluster reads them."""

import pytest

from launcher.core.errors import NotFound
from launcher.store.interface import FRAMEWORKS, NODES, PODS, ResourceKind
from launcher.store.kubernetes.kube_store import collection, item, selectors
from launcher.store.selectors import EVERYTHING, parse

BASE = "/apis/launcher.microsoft.com/v1"


@pytest.mark.parametrize(
    ("kind", "namespace", "path"),
    [
        pytest.param(FRAMEWORKS, "team", f"{BASE}/namespaces/team/frameworks", id="one namespace"),
        pytest.param(FRAMEWORKS, None, f"{BASE}/frameworks", id="all namespaces"),
        pytest.param(PODS, "team", "/api/v1/namespaces/team/pods", id="the core group"),
        pytest.param(NODES, None, "/api/v1/nodes", id="a kind without namespaces"),
        pytest.param(PODS, "a/b?c", "/api/v1/namespaces/a%2Fb%3Fc/pods", id="no way out of the path"),
    ],
)
def test_a_kind_stands_at_its_path(kind: ResourceKind, namespace: str | None, path: str) -> None:
    assert collection(kind, namespace) == path


def test_an_object_stands_below_its_kind_and_its_parts_below_it() -> None:
    assert item(FRAMEWORKS, "team", "mnist") == f"{BASE}/namespaces/team/frameworks/mnist"
    assert item(FRAMEWORKS, "team", "mnist", "status") == f"{BASE}/namespaces/team/frameworks/mnist/status"
    assert item(NODES, "", "node-1") == "/api/v1/nodes/node-1"


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("team", ".."), ("team", "a/b"), ("team", ""), ("team", "a?b"), ("", "a"), ("..", "a")],
)
def test_a_name_that_nothing_can_have_is_not_found_without_a_question(namespace: str, name: str) -> None:
    with pytest.raises(NotFound, match="not found"):
        item(PODS, namespace, name)


@pytest.mark.parametrize(
    "labels",
    ["a", "!a", "a=1", "a!=1", "a in (1,2)", "a notin (1,2)", "a in (,1)", "a=", "a>1", "a<1", "a,!b"],
)
def test_a_selector_of_labels_means_the_same_to_a_cluster(labels: str) -> None:
    where = parse(labels)

    assert parse(selectors(where)["labelSelector"]) == where


@pytest.mark.parametrize("fields", ["metadata.name=a", "a.b!=c", r"a=x\,y\=z\\", "a=,b="])
def test_a_selector_of_fields_means_the_same_to_a_cluster(fields: str) -> None:
    where = parse(fields=fields)

    assert parse(fields=selectors(where)["fieldSelector"]) == where


def test_everything_is_selected_by_saying_nothing() -> None:
    assert selectors(EVERYTHING) == {}
