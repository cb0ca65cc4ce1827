"""
Private names of aiohttp that the launcher uses.

If a test fails after an upgrade of aiohttp, the named code of the launcher must be changed.
"""

import asyncio
import inspect

import aiohttp
import pytest
from aiohttp import web
from aiohttp.client_proto import ResponseHandler


async def _ok(request: web.BaseRequest) -> web.Response:
    return web.Response()


async def test_a_client_session_has_the_switch_for_retries() -> None:
    async with aiohttp.ClientSession() as session:
        assert getattr(session, "_retry_connection", None) is True, (
            "aiohttp.ClientSession._retry_connection is gone or has another default: "
            "launcher/store/kubernetes/api_server_session.py must keep aiohttp from repeating writes in another way"
        )
    assert "self._retry_connection" in inspect.getsource(aiohttp.ClientSession._request), (
        "aiohttp.ClientSession._request does not read _retry_connection: see api_server_session.py"
    )


@pytest.mark.parametrize("name", ["_loop", "_kwargs"])
async def test_a_server_has_the_attributes_from_which_it_is_rebuilt(name: str) -> None:
    server = web.Server(_ok)

    assert hasattr(server, name), (
        f"aiohttp.web.Server.{name} is gone: launcher/api/http/server.py builds its own server from it"
    )


async def test_a_runner_makes_its_server_in_a_method() -> None:
    runner = web.AppRunner(web.Application())

    assert asyncio.iscoroutinefunction(getattr(runner, "_make_server", None)), (
        "aiohttp.web.AppRunner._make_server is gone: launcher/api/http/server.py overrides it"
    )


def test_a_request_handler_takes_the_options_of_a_server() -> None:
    parameters = inspect.signature(web.RequestHandler.handle_error).parameters

    assert list(parameters) == ["self", "request", "status", "exc", "message"], (
        "aiohttp.web.RequestHandler.handle_error has another signature: launcher/api/http/server.py overrides it"
    )


@pytest.mark.parametrize("protocol", [web.RequestHandler, ResponseHandler])
def test_a_protocol_takes_a_parser_of_upgraded_connections(protocol: type) -> None:
    assert hasattr(protocol, "set_parser"), (
        f"aiohttp's {protocol.__name__}.set_parser is gone: launcher/api/proxy/upgrade.py copies bytes with it"
    )


def test_a_response_writer_counts_what_it_has_sent() -> None:
    from aiohttp.http import StreamWriter

    assert hasattr(StreamWriter, "output_size"), (
        "aiohttp's StreamWriter.output_size is gone: error_responses.py and server.py in launcher/api read it"
    )
