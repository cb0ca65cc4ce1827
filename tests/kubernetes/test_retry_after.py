"""After a response with Retry-After, no pod is created before that time has passed."""

from itertools import pairwise
from pathlib import Path

from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.busy_proxy import busy_proxy, kubeconfig_for
from tests.kubernetes.conftest import Launch
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod

#: The header of the responses.
RETRY_AFTER_SECONDS = 3
#: Requests with a smaller distance were sent before the first response.
CONCURRENT_SECONDS = 1.0


def test_pods_are_created_again_after_retry_after(
    cluster: ControlPlane, account: User, ns: NamespaceClient, launch: Launch, tmp_path: Path
) -> None:
    with busy_proxy(cluster) as proxy:
        proxy.busy = RETRY_AFTER_SECONDS
        launcher = launch(kubeconfig=kubeconfig_for(proxy.url, account.kubeconfig, tmp_path))
        # A rejection of one Framework applies to the other.
        ns.submit(a_framework(a_role(tasks=4, pod=a_task_pod()), name="one"))
        ns.until(lambda: proxy.pods or None, "the first pod creation is sent")
        ns.submit(a_framework(a_role(tasks=1, pod=a_task_pod()), name="two"))
        ns.until(lambda: _request_rounds(proxy.pods) > 2 or None, "pod creations are sent for the third time")
        proxy.busy = None
        ns.until(lambda: len(ns.pods()) == 5 or None, "all pods exist")
        requests = proxy.pods
        launcher.end()

    rejected_at = [time for time, code in requests if code == 429]
    early_retries = [
        delay
        for time in rejected_at
        for later, _ in requests
        if CONCURRENT_SECONDS < (delay := later - time) < RETRY_AFTER_SECONDS - 0.1
    ]
    assert early_retries == []
    assert sum(code == 201 for _, code in requests) == 5, "no pod was created twice"


def _request_rounds(requests: list[tuple[float, int]]) -> int:
    """The number of rounds of concurrent requests."""
    times = [time for time, _ in requests]
    return sum(later - earlier > CONCURRENT_SECONDS for earlier, later in pairwise([0.0, *times]))
