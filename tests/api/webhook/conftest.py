"""The webhook in a small application of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from launcher.api.http.server import make_runner
from launcher.api.middleware.error_responses import errors_as_status
from launcher.api.webhook.handler import Webhook
from launcher.core.validation.admission_policy import AdmissionPolicy
from tests.api.client import Client, HttpResponse

Json = dict[str, Any]


class WebhookClient:
    """A client that calls the webhook as kube-apiserver does."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, path: str, body: Any) -> HttpResponse:
        """Returns the response of the webhook."""
        return await self._client.post(f"/admission/{path}", body)

    async def validate(self, review: Json) -> Json:
        """The response to *review*, of what there has to be one."""
        return await self._response("validate", review)

    async def mutate(self, review: Json) -> Json:
        return await self._response("mutate", review)

    async def _response(self, path: str, review: Json) -> Json:
        answer = await self.send(path, review)
        assert answer.status == 200, answer.body
        published = answer.json()
        assert (published["apiVersion"], published["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        assert published["response"]["uid"] == review["request"]["uid"]
        response: Json = published["response"]
        return response


@asynccontextmanager
async def run_webhook(policy: AdmissionPolicy) -> AsyncIterator[WebhookClient]:
    """Runs a webhook with that policy, and yields its client."""
    app = web.Application(middlewares=[errors_as_status])
    Webhook(policy).add_to(app)
    runner = make_runner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession() as session:
            yield WebhookClient(Client(session, f"http://127.0.0.1:{runner.addresses[0][1]}"))
    finally:
        await runner.cleanup()


@pytest.fixture
async def webhook() -> AsyncIterator[WebhookClient]:
    """A client of a webhook without a policy."""
    async with run_webhook(AdmissionPolicy()) as webhook:
        yield webhook
