"""A launcher whose data directory disappears."""

import shutil

from tests.core.manifests import a_framework
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, until


def test_a_launcher_whose_data_directory_is_removed_is_not_ready_and_stores_nothing(serve: Serve) -> None:
    server = serve()
    until(lambda: server.curl("/readyz") == "ok" or None, "the server is ready")
    shutil.rmtree(server.data)

    answer = server.post(FRAMEWORKS, a_framework())

    assert (answer["code"], answer["reason"]) == (503, "ServiceUnavailable")
    assert "removed or replaced" in answer["message"]
    assert "restart" in answer["message"]
    assert "[-]store failed" in server.curl("/readyz")
    assert server.errors().count("a file of the store was removed or replaced") == 1
    assert "Traceback" not in server.errors()
    assert not server.data.exists()
