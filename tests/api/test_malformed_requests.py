"""The server responds to every request with a well-formed response, and never with a server error."""

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from email.parser import BytesHeaderParser
from unittest.mock import patch

import orjson
from hypothesis import given
from hypothesis import strategies as st

from launcher.api.api_resources import STORED_API_RESOURCES
from launcher.store.embedded.memory_store import MemoryStore
from tests.api.conftest import api_dependencies, memory_store, serving
from tests.api.malformed_requests import OBJECTS, MalformedRequest, requests
from tests.api.servers import RunningServer
from tests.hypothesis_examples import examples

#: Paths whose errors are plain text.
_PLAIN = ("/openapi/", "/healthz", "/livez", "/readyz")


@examples(60, derandomize=True)
@given(st.lists(requests(), min_size=1, max_size=30))
def test_every_response_is_well_formed_and_none_is_a_server_error(sent: list[MalformedRequest]) -> None:
    with patch("launcher.api.resources.reads.FRESHNESS_SECONDS", 0.0):
        answered = asyncio.run(answers(sent))

    for request, response in zip(sent, answered, strict=True):
        check(request, response)


async def answers(sent: Sequence[MalformedRequest]) -> list[bytes]:
    """Returns the responses of a server with one object of each kind."""
    store = memory_store()
    await fill(store)
    async with serving(api_dependencies(store)) as api:
        running = RunningServer(api, int(api.url.rpartition(":")[2]))
        return [await running.raw(bytes(request)) for request in sent]


async def fill(store: MemoryStore) -> None:
    for served in STORED_API_RESOURCES:
        if (obj := deepcopy(OBJECTS.get(served.kind.plural))) is not None:
            obj["metadata"] |= {"namespace": "default"} if served.kind.namespaced else {}
            await store.create(served.kind, obj)


def check(request: MalformedRequest, response: bytes) -> None:
    """The answer is one, and its body what its head promises."""
    head, _, body = response.partition(b"\r\n\r\n")
    line, _, fields = head.partition(b"\r\n")
    status = int(line.split()[1])
    headers = BytesHeaderParser().parsebytes(fields)
    # A version that lies ahead is waited for in vain.
    assert status < 500 or status == 504, request
    if request.method == "HEAD" or status == 304:
        assert body == b"", request
    elif headers["Transfer-Encoding"] == "chunked":
        assert body.endswith(b"0\r\n\r\n"), request
    elif status >= 400 and not request.path.startswith(_PLAIN):
        assert headers["Content-Type"] == "application/json", request
        reported = orjson.loads(body)
        assert (reported["kind"], reported["status"], reported["code"]) == ("Status", "Failure", status), (
            request
        )
        assert reported["message"], request
        assert reported["reason"], request
    elif headers["Content-Type"] == "application/json":
        orjson.loads(body)
