"""Access reviews: whether the API server allows a request of the caller."""

from collections.abc import Mapping

import orjson
from aiohttp import hdrs
from multidict import CIMultiDict

from launcher.api.proxy.upstream import Upstream
from launcher.core.json_access import as_object

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_SECONDS = 20.0


async def review_access(
    upstream: Upstream, headers: CIMultiDict[str], attributes: Mapping[str, str]
) -> tuple[int, dict[str, object]]:
    """Returns the status code, and the API server's decision about a request with these resource *attributes*."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    headers = headers.copy()
    headers[hdrs.CONTENT_TYPE] = "application/json"
    body = orjson.dumps(review)
    return await upstream.call("POST", _PATH, headers, body, timeout_seconds=_SECONDS)


def is_allowed(review: Mapping[str, object]) -> bool:
    """Whether the decision allows the request."""
    return as_object(review.get("status")).get("allowed") is True
