from collections.abc import AsyncIterator

import pytest

from launcher.api.system_endpoints import Reviews
from tests.api.around import application, running
from tests.api.client import Client

#: What new kubectl sends: four bytes of its own, then a message that nobody here reads.
PROTOBUF = b"k8s\x00\n\x32\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    reviews = Reviews()
    app = application()
    app.router.add_post("/access", reviews.access)
    app.router.add_post("/rules", reviews.rules)
    app.router.add_post("/identity", reviews.identity)
    async with running(app) as server:
        yield server.client


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param({"spec": {}}, "application/json", id="json"),
        pytest.param(PROTOBUF, "application/vnd.kubernetes.protobuf", id="protobuf"),
        pytest.param(b"", None, id="nothing"),
    ],
)
async def test_check_113_whoever_got_in_may_do_everything(
    client: Client, body: object, content_type: str | None
) -> None:
    answer = await client.post("/access", body, content_type)

    assert answer.status == 201
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["kind"] == "SelfSubjectAccessReview"
    assert answer.json()["status"] == {"allowed": True}


async def test_the_rules_allow_everything(client: Client) -> None:
    status = (await client.post("/rules", {})).json()["status"]

    assert status["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert status["incomplete"] is False


async def test_there_is_one_user(client: Client) -> None:
    told = (await client.post("/identity", {})).json()

    assert (told["kind"], told["status"]["userInfo"]["username"]) == ("SelfSubjectReview", "admin")
