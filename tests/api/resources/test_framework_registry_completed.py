"""Changes to a Framework that has ended are stored, with a warning that they have no effect."""

import pytest

from launcher.store.interface import FRAMEWORKS
from tests.api.conftest import Api
from tests.builders import a_framework, a_role

PATH = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"


@pytest.mark.parametrize(
    ("spec", "warned"),
    [
        ({"executionType": "Stop"}, True),
        ({"taskRoles": [a_role(tasks=5)]}, True),
        ({"description": "seen"}, False),
    ],
)
async def test_a_change_of_a_completed_framework_has_a_warning(
    api: Api, spec: dict[str, object], warned: bool
) -> None:
    await api.post(PATH, a_framework(a_role(tasks=2)))
    stored = await api.store.get(FRAMEWORKS, "default", "mnist")
    await api.store.update_status(FRAMEWORKS, {**stored, "status": {"state": "Completed"}})

    response = await api.patch(f"{PATH}/mnist", {"spec": spec})

    assert response.status == 200
    assert ["the Framework is completed" in each for each in response.warnings] == ([True] if warned else [])
