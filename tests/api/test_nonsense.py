"""Whatever is thrown at the server, it answers: well-formed, and never that it is its own fault."""

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from email.parser import BytesHeaderParser
from unittest.mock import patch

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.api.api_resources import SERVED
from launcher.store.embedded.memory_store import MemoryStore
from tests.api.around import Running
from tests.api.conftest import memory_store, parts_of, serving
from tests.api.nonsense import OBJECTS, Request, requests

#: Answers of these are not for programs that know a Status.
_PLAIN = ("/openapi/", "/healthz", "/livez", "/readyz")


@settings(max_examples=60, derandomize=True)
@given(st.lists(requests(), min_size=1, max_size=30))
def test_every_answer_is_well_formed_and_no_error_is_the_servers(thrown: list[Request]) -> None:
    with patch("launcher.api.resources.reads.PATIENCE", 0.0):
        answered = asyncio.run(answers(thrown))

    for request, answer in zip(thrown, answered, strict=True):
        check(request, answer)


async def answers(thrown: Sequence[Request]) -> list[bytes]:
    """What a server with one object of each kind says to each."""
    store = memory_store()
    await fill(store)
    async with serving(parts_of(store)) as api:
        running = Running(api, int(api.url.rpartition(":")[2]))
        return [await running.raw(bytes(request)) for request in thrown]


async def fill(store: MemoryStore) -> None:
    for served in SERVED:
        if (obj := deepcopy(OBJECTS.get(served.kind.plural))) is not None:
            obj["metadata"] |= {"namespace": "default"} if served.kind.namespaced else {}
            await store.create(served.kind, obj)


def check(request: Request, answer: bytes) -> None:
    """The answer is one, and its body what its head promises."""
    head, _, body = answer.partition(b"\r\n\r\n")
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
        told = orjson.loads(body)
        assert (told["kind"], told["status"], told["code"]) == ("Status", "Failure", status), request
        assert told["message"], request
        assert told["reason"], request
    elif headers["Content-Type"] == "application/json":
        orjson.loads(body)
