"""The most important finding for a Framework, for commands that print it once."""

from typing import Any

from launcher.cli.client.api_client import ApiClient
from launcher.cli.output.diagnosis_text import top_finding
from launcher.cli.output.framework_summary import succeeded
from launcher.core.errors import LauncherError

Json = dict[str, Any]


def read_top_finding(api: ApiClient, framework: Json) -> str:
    """
    The most important finding; empty if there is none, or the server does not diagnose.

    Nothing is requested for a Framework that succeeded, unless it is being deleted.
    """
    if succeeded(framework) and not framework["metadata"].get("deletionTimestamp"):
        return ""
    try:
        return top_finding(api.diagnosis(framework["metadata"]["name"]))
    except LauncherError:
        return ""
