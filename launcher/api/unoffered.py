"""What a cluster does with pods and this server does not: refused in words that tell what to do instead."""

from collections.abc import Mapping
from typing import NoReturn

from aiohttp import web

from launcher.api.resources import Act

_LOOK_YOURSELF = (
    "a container is a process of the machine that the launcher runs on: find it there with ps, look at what it "
    "sees with nsenter --target PID --mount, and read what it writes with kubectl logs"
)
#: Parts of a pod that clients ask for, and why they are not to be had.
UNOFFERED: Mapping[str, str] = {
    "attach": _LOOK_YOURSELF,
    "binding": "pods are placed by the launcher's own scheduler; a pod that sets spec.nodeName goes straight there",
    "ephemeralcontainers": _LOOK_YOURSELF,
    "eviction": "there are no disruption budgets to keep to; delete the pod",
    "exec": _LOOK_YOURSELF,
    "portforward": "a container listens on this machine itself: connect to its port at the IP in the pod's status",
    "proxy": "a container listens on this machine itself: connect to its port at the IP in the pod's status",
    "resize": "a container keeps the resources that it was started with; make a new pod",
}


def not_offered(part: str) -> Act:
    """What answers a request for that part of a pod: 405, with the reason, which kubectl prints."""

    async def refuse(request: web.Request, *_: str) -> NoReturn:
        raise web.HTTPMethodNotAllowed(
            request.method, (), text=f"{part} is not offered here: {UNOFFERED[part]}"
        )

    return refuse
