"""Paths and selectors of requests, and lines of watches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import NotFound
from launcher.store.interface import FRAMEWORKS, NODES, PODS, ResourceKind
from launcher.store.kubernetes.kube_store import LineBuffer, collection_path, object_path, selector_query
from launcher.store.selectors import EVERYTHING, parse

BASE = "/apis/launcher.microsoft.com/v1"


@pytest.mark.parametrize(
    ("kind", "namespace", "path"),
    [
        pytest.param(FRAMEWORKS, "team", f"{BASE}/namespaces/team/frameworks", id="one namespace"),
        pytest.param(FRAMEWORKS, None, f"{BASE}/frameworks", id="all namespaces"),
        pytest.param(PODS, "team", "/api/v1/namespaces/team/pods", id="the core group"),
        pytest.param(NODES, None, "/api/v1/nodes", id="a kind without namespaces"),
        pytest.param(PODS, "a/b?c", "/api/v1/namespaces/a%2Fb%3Fc/pods", id="escaped characters"),
    ],
)
def test_the_path_of_a_collection(kind: ResourceKind, namespace: str | None, path: str) -> None:
    assert collection_path(kind, namespace) == path


def test_the_path_of_an_object_and_its_subresources() -> None:
    assert object_path(FRAMEWORKS, "team", "mnist") == f"{BASE}/namespaces/team/frameworks/mnist"
    assert (
        object_path(FRAMEWORKS, "team", "mnist", "status")
        == f"{BASE}/namespaces/team/frameworks/mnist/status"
    )
    assert object_path(NODES, "", "node-1") == "/api/v1/nodes/node-1"


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("team", ".."), ("team", "a/b"), ("team", ""), ("team", "a?b"), ("", "a"), ("..", "a")],
)
def test_an_invalid_name_is_not_found_without_a_request(namespace: str, name: str) -> None:
    with pytest.raises(NotFound, match="not found"):
        object_path(PODS, namespace, name)


@pytest.mark.parametrize(
    "labels",
    ["a", "!a", "a=1", "a!=1", "a in (1,2)", "a notin (1,2)", "a in (,1)", "a=", "a>1", "a<1", "a,!b"],
)
def test_a_label_selector_is_formatted_for_the_api_server(labels: str) -> None:
    where = parse(labels)

    assert parse(selector_query(where)["labelSelector"]) == where


@pytest.mark.parametrize("fields", ["metadata.name=a", "a.b!=c", r"a=x\,y\=z\\", "a=,b="])
def test_a_field_selector_is_formatted_for_the_api_server(fields: str) -> None:
    where = parse(fields=fields)

    assert parse(fields=selector_query(where)["fieldSelector"]) == where


def test_an_empty_selector_has_no_query() -> None:
    assert selector_query(EVERYTHING) == {}


# Lines of watches


@given(st.lists(st.binary(max_size=6).map(lambda text: text.replace(b"a", b"\n")), max_size=30))
def test_chunks_of_any_size_result_in_the_same_lines(pieces: list[bytes]) -> None:
    lines = LineBuffer()

    found = [line for piece in pieces for line in lines.take(piece)]

    assert found == b"".join(pieces).split(b"\n")[:-1]


def test_a_line_may_be_longer_than_the_read_buffer() -> None:
    lines = LineBuffer()

    assert [lines.take(b"x" * 65536) for _ in range(200)] == [[]] * 200
    assert lines.take(b"y\nz") == [b"x" * 65536 * 200 + b"y"]
