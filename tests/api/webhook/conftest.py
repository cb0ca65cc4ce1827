"""The webhook in a small application of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from launcher.api.http.server import make_runner
from launcher.api.http.status import errors_as_status
from launcher.api.webhook.handler import Webhook
from launcher.core.validation.admission_policy import Policy
from tests.api.client import Answer, Client

Json = dict[str, Any]


class Caller:
    """A kube-apiserver, as far as the webhook knows."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, path: str, body: Any) -> Answer:
        """Whatever comes back from there."""
        return await self._client.post(f"/admission/{path}", body)

    async def validate(self, review: Json) -> Json:
        """The response to *review*, of what there has to be one."""
        return await self._response("validate", review)

    async def mutate(self, review: Json) -> Json:
        return await self._response("mutate", review)

    async def _response(self, path: str, review: Json) -> Json:
        answer = await self.send(path, review)
        assert answer.status == 200, answer.body
        told = answer.json()
        assert (told["apiVersion"], told["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        assert told["response"]["uid"] == review["request"]["uid"]
        response: Json = told["response"]
        return response


@asynccontextmanager
async def calling(policy: Policy) -> AsyncIterator[Caller]:
    """Who calls a webhook of that policy."""
    app = web.Application(middlewares=[errors_as_status])
    Webhook(policy).add_to(app)
    runner = make_runner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession() as session:
            yield Caller(Client(session, f"http://127.0.0.1:{runner.addresses[0][1]}"))
    finally:
        await runner.cleanup()


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    """Who calls a webhook that allows everything."""
    async with calling(Policy()) as caller:
        yield caller
