from collections.abc import AsyncIterator

import pytest

from launcher.api.system_endpoints import Reviews
from tests.api.client import Client
from tests.api.servers import make_application, running

#: The body of new versions of kubectl: a magic number and a protobuf message that is ignored.
PROTOBUF = b"k8s\x00\n\x32\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    reviews = Reviews()
    app = make_application()
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
async def test_check_113_every_access_review_is_allowed(
    client: Client, body: object, content_type: str | None
) -> None:
    response = await client.post("/access", body, content_type)

    assert response.status == 201
    assert response.headers["Content-Type"] == "application/json"
    assert response.json()["kind"] == "SelfSubjectAccessReview"
    assert response.json()["status"] == {"allowed": True}


async def test_the_rules_allow_everything(client: Client) -> None:
    status = (await client.post("/rules", {})).json()["status"]

    assert status["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    assert status["incomplete"] is False


async def test_there_is_one_user(client: Client) -> None:
    reported = (await client.post("/identity", {})).json()

    assert (reported["kind"], reported["status"]["userInfo"]["username"]) == ("SelfSubjectReview", "admin")
