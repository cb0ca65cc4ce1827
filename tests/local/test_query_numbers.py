"""Large numbers and long names in a URL get a client error, never a 500."""

from pathlib import Path

from tests.builders import a_framework, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS

LONG = "a" * 300
NUMBERS = ("2147483648", "9223372036854775807", "9223372036854775808", "-1", "1e3", "9" * 5000)


def test_large_numbers_and_long_names_in_a_url_never_cause_a_500(serve: Serve, tmp_path: Path) -> None:
    server = serve(at=tmp_path)
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1), name="done"))
    server.completed("done")
    log = f"{PODS}/done-worker-0/log"
    paths = [
        *(
            f"{log}?{name}={number}"
            for name in ("sinceSeconds", "tailLines", "limitBytes")
            for number in NUMBERS
        ),
        f"{log}?sinceTime=0001-01-01T00:00:00Z",
        f"{log}?sinceTime=9999-12-31T23:59:59-23:00",
        f"{log}?uid={LONG}",
        f"{log}?container={LONG}",
        f"{PODS}/{LONG}/log",
        *(f"{PODS}?limit={number}" for number in NUMBERS),
        *(f"{PODS}?watch=1&resourceVersion={number}" for number in NUMBERS),
        *(f"{PODS}?timeoutSeconds={number}" for number in NUMBERS),
        f"{FRAMEWORKS}/{LONG}",
        f"{FRAMEWORKS}/{LONG}/scale",
        f"/api/v1/namespaces/{LONG}/pods/x/log",
        f"/api/v1/namespaces/{LONG}/pods/x",
    ]

    def code(path: str, *options: str) -> int:
        words = ("--output", "/dev/null", "--max-time", "10", "--write-out", "%{http_code}")
        return int(server.curl(path, *words, *options))

    reads = {path[:200]: code(path) for path in paths if "watch" not in path or "resourceVersion=-" in path}
    deletes = {
        number[:40]: code(f"{FRAMEWORKS}/none?gracePeriodSeconds={number}", "-X", "DELETE")
        for number in NUMBERS
    }

    assert {path: status for path, status in reads.items() if status >= 500} == {}
    assert {number: status for number, status in deletes.items() if status >= 500} == {}
    assert code(f"{FRAMEWORKS}/{LONG}") == code(f"{PODS}/{LONG}/log") == 404
    assert code(f"{FRAMEWORKS}/{LONG}", "-X", "DELETE") == 404
    assert code(f"{log}?sinceSeconds=2147483648") == 200
