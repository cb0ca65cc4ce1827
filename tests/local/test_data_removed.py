"""A launcher whose data directory disappears."""

import shutil

from tests.builders import a_framework
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS


def test_a_launcher_whose_data_directory_is_removed_is_not_ready_and_stores_nothing(serve: Serve) -> None:
    server = serve()
    until(lambda: server.curl("/readyz") == "ok" or None, "the server is ready")
    shutil.rmtree(server.data)

    response = server.post(FRAMEWORKS, a_framework())

    assert (response["code"], response["reason"]) == (503, "ServiceUnavailable")
    assert "removed or replaced" in response["message"]
    assert "restart" in response["message"]
    assert "[-]store failed" in server.curl("/readyz")
    assert server.errors().count("a file of the store was removed or replaced") == 1
    assert "Traceback" not in server.errors()
    assert not server.data.exists()
