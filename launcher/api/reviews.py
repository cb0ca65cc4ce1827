"""
May I? Who am I? What ``kubectl auth`` asks.

Whoever gets as far as this may do everything: there is one token, or none. So the question is not even read, and that
it comes as JSON from older clients and as protobuf from newer ones makes no difference.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


#: What whoever got in is called.
_USER = {"username": "admin", "groups": ["system:authenticated"]}


class Reviews:
    """Answers about the caller."""

    async def access(self, _: web.Request) -> web.Response:
        """``POST …/authorization.k8s.io/v1/selfsubjectaccessreviews``: yes."""
        return _review("authorization.k8s.io/v1", "SelfSubjectAccessReview", {"allowed": True})

    async def rules(self, _: web.Request) -> web.Response:
        """``POST …/authorization.k8s.io/v1/selfsubjectrulesreviews``: everything."""
        return _review("authorization.k8s.io/v1", "SelfSubjectRulesReview", _EVERYTHING)

    async def identity(self, _: web.Request) -> web.Response:
        """``POST …/authentication.k8s.io/v1/selfsubjectreviews``: the one user there is."""
        return _review("authentication.k8s.io/v1", "SelfSubjectReview", {"userInfo": _USER})


def _review(api_version: str, kind: str, status: Mapping[str, Any]) -> web.Response:
    body = {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": {}, "status": status}
    return web.Response(
        status=201,
        body=orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE),
        content_type="application/json",
    )
