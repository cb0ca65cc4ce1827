"""With all objects that the API accepts, the launcher restarts and completes the next Framework."""

from pathlib import Path

import pytest

from tests.fuzz.campaign import campaign


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "batches", "requests"),
    [(1, 2, 150), *(pytest.param(seed, 3, 400, marks=pytest.mark.slow) for seed in (1, 2))],
)
def test_accepted_objects_never_stop_the_launcher_or_its_next_start(
    seed: int, batches: int, requests: int, tmp_path: Path
) -> None:
    outcome = campaign(tmp_path, seed, batches=batches, requests=requests, seconds=300)

    assert outcome.requests >= batches * requests
    # The requests reach the objects: some are accepted, some are rejected.
    assert outcome.statuses[201] > batches * requests / 24
    assert outcome.statuses[422] > batches * requests / 24
