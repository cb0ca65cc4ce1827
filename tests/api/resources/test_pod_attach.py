"""``pods/attach`` over real WebSockets, with real processes."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from tests.api.resources.exec_harness import ATTACH, SUCCESS, V4, V5, ExecHarness, exec_harness
from tests.eventually import eventually

ALL = f"{ATTACH}?stdin=1&stdout=1&stderr=1"
REPEAT = "while read line; do echo got $line; echo bad $line >&2; done; echo ended"


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ExecHarness]:
    async with exec_harness(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("protocol", [V4, V5])
async def test_input_is_passed_on_and_output_is_received_on_channels(
    harness: ExecHarness, protocol: str
) -> None:
    await harness.run_script(REPEAT, stdin=True)

    async with harness.connection(ALL, protocol) as client:
        await client.send(0, b"word\n")
        await client.until(b"got word\n")
        await client.until(b"bad word\n", channel=2)

    assert client.channels == {1: b"got word\n", 2: b"bad word\n"}


async def test_a_session_ends_with_its_input_and_the_container_continues(harness: ExecHarness) -> None:
    run = await harness.run_script(REPEAT, stdin=True)

    for word in (b"one", b"two"):
        async with harness.connection(ALL) as client:
            await client.send(0, word + b"\n")
            await client.until(b"got " + word)
            await client.send(255, b"\0")
            assert await client.end() == SUCCESS

    assert harness.runtime.list_containers()[run].ended is None


async def test_the_input_of_a_container_with_stdin_once_ends_with_that_of_the_client(
    harness: ExecHarness,
) -> None:
    await harness.run_script(REPEAT, stdin=True, stdinOnce=True)

    async with harness.connection(ALL) as client:
        await client.send(0, b"last\n")
        await client.send(255, b"\0")
        assert await client.end() == SUCCESS

    assert client.channels[1] == b"got last\nended\n"


async def test_the_input_of_a_container_with_stdin_once_ends_with_a_killed_client(
    harness: ExecHarness,
) -> None:
    run = await harness.run_script(REPEAT, stdin=True, stdinOnce=True)

    async with harness.connection(ALL) as client:
        await client.send(0, b"word\n")
        await client.until(b"got word")
        client.abort()
        await eventually(lambda: harness.runtime.list_containers()[run].ended, "its input has ended")


async def test_a_terminal_has_the_size_of_its_client(harness: ExecHarness) -> None:
    script = "until stty size | grep '33 77'; do sleep 0.05; done; read line; echo last $line"
    await harness.run_script(script, stdin=True, tty=True)

    async with harness.connection(f"{ALL}&tty=1") as client:
        await client.send(4, orjson.dumps({"Width": 77, "Height": 33}))
        await client.until(b"33 77\r\n")
        await client.send(0, b"word\n")
        assert await client.end() == SUCCESS

    assert client.channels[1].endswith(b"word\r\nlast word\r\n")
    assert 2 not in client.channels


async def test_input_for_a_container_without_stdin_is_ignored(harness: ExecHarness) -> None:
    script = "cat; echo ready; trap 'echo last; exit' TERM; while :; do echo again; sleep 0.05; done"
    run = await harness.run_script(script)

    async with harness.connection(ALL) as client:
        await client.send(0, b"dropped")
        await client.send(255, b"\0")
        await client.until(b"again")
        await harness.runtime.signal(run, 15)
        assert await client.end() == SUCCESS

    assert client.channels[1].endswith(b"last\n")
    assert b"dropped" not in client.channels[1]


async def test_input_that_is_not_read_is_not_received_and_the_session_ends_with_its_client(
    harness: ExecHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run = await harness.run_script("exec sleep 600", stdin=True)

    async with harness.connection(ALL) as client:
        # More than the buffers of the connection, the launcher, the relay and the pipe: the rest waits at the client.
        for _ in range(20):
            await client.send(0, b"x" * 65536)
        client.abort()
        await eventually(lambda: "session ended" in caplog.text, "the session has ended")

    assert harness.runtime.list_containers()[run].ended is None


async def test_the_streams_of_a_session_are_logged(
    harness: ExecHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await harness.run_script("read line", stdin=True)

    async with harness.connection(ALL) as client:
        await client.send(0, b"end\n")
        assert await client.end() == SUCCESS

    await eventually(lambda: "session ended" in caplog.text)
    (started,) = (record for record in caplog.records if record.getMessage() == "session started")
    assert (started.__dict__["subresource"], started.__dict__["stdin"]) == ("attach", True)


async def test_attach_to_a_container_that_has_just_ended_reports_it(harness: ExecHarness) -> None:
    await harness.create_pod()

    async with harness.connection(f"{ATTACH}?stdout=1") as client:
        status = await client.end()

    assert (status["reason"], status["code"]) == ("Conflict", 409)


@pytest.mark.parametrize(
    ("query", "word"),
    [
        pytest.param("container=one&stdin=1", "has no input: set stdin", id="only input"),
        pytest.param("container=one", "at least 1 of stdin, stdout, stderr", id="no stream"),
        pytest.param("container=three&stdout=1", "not valid", id="unknown container"),
        pytest.param("container=one&stdout=1", "Upgrade", id="plain HTTP"),
    ],
)
async def test_attach_is_rejected_with(harness: ExecHarness, query: str, word: str) -> None:
    await harness.create_pod("one", "two")

    failure = (await harness.api.get(f"{ATTACH}?{query}")).failure(400, "BadRequest")

    assert word in failure["message"]
