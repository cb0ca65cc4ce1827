"""Whatever the API accepts, the launcher starts again with it, and runs the next Framework to its end."""

from pathlib import Path

import pytest

from tests.fuzz.campaign import campaign


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_accepted_objects_never_stop_the_launcher_or_its_next_start(seed: int, tmp_path: Path) -> None:
    outcome = campaign(tmp_path, seed, batches=3, requests=400, seconds=300)

    assert outcome.requests >= 1200
    # The requests reach the objects: some are accepted, some are rejected.
    assert outcome.statuses[201] > 50
    assert outcome.statuses[422] > 50
