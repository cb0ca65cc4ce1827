"""System endpoints: health, version and access reviews."""

import logging
import platform
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version as installed_version
from typing import Any

import orjson
from aiohttp import web

from launcher.core.errors import LauncherError
from launcher.store.object_errors import ObjectError

log = logging.getLogger(__name__)

_ALL_RULES = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


#: The only user of local mode.
_USER = {"username": "admin", "groups": ["system:authenticated"]}


class Reviews:
    """Handles self subject reviews."""

    async def access(self, _: web.Request) -> web.Response:
        """``POST …/authorization.k8s.io/v1/selfsubjectaccessreviews``: allowed."""
        return _review("authorization.k8s.io/v1", "SelfSubjectAccessReview", {"allowed": True})

    async def rules(self, _: web.Request) -> web.Response:
        """``POST …/authorization.k8s.io/v1/selfsubjectrulesreviews``: all rules."""
        return _review("authorization.k8s.io/v1", "SelfSubjectRulesReview", _ALL_RULES)

    async def identity(self, _: web.Request) -> web.Response:
        """``POST …/authentication.k8s.io/v1/selfsubjectreviews``: the only user."""
        return _review("authentication.k8s.io/v1", "SelfSubjectReview", {"userInfo": _USER})


def _review(api_version: str, kind: str, status: Mapping[str, Any]) -> web.Response:
    body = {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": {}, "status": status}
    return web.Response(
        status=201,
        body=orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE),
        content_type="application/json",
    )


#: A health check; it raises an error if it fails.
Check = Callable[[], Awaitable[None]]

#: The number of objects with errors that ``?verbose`` lists.
_MAX_OBJECT_LINES = 100
#: The Kubernetes release of the API. kubectl warns if its own release differs by much.
_KUBERNETES = (1, 34)

#: The paths that ``/`` lists.
_PATHS = (
    "/api",
    "/api/v1",
    "/apis",
    "/apis/launcher.microsoft.com",
    "/apis/launcher.microsoft.com/v1",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
)


class Health:
    """Handles probes. Every check is part of ``/readyz``; ``/livez`` only shows that the server responds."""

    def __init__(
        self, checks: Mapping[str, Check], errors: Callable[[], Sequence[ObjectError]] = lambda: ()
    ) -> None:
        """*errors* returns the errors of single objects: ``?verbose`` lists them, and no check fails."""
        self._ready = {"ping": _ping, **checks}
        self._errors = errors
        #: Checks whose failure has been logged.
        self._failing: set[str] = set()

    def add_to(self, app: web.Application) -> None:
        """Adds the routes of probes to *app*."""
        for name, handler in (("healthz", self.healthz), ("livez", self.livez), ("readyz", self.readyz)):
            app.router.add_get(f"/{name}", handler)
            app.router.add_get(f"/{name}/{{check}}", handler)

    async def healthz(self, request: web.Request) -> web.Response:
        """``GET /healthz[/{check}]``: the deprecated name of ``/readyz``."""
        return await self._respond("healthz", self._ready, request)

    async def livez(self, request: web.Request) -> web.Response:
        """``GET /livez[/{check}]``: the process need not be restarted."""
        return await self._respond("livez", {"ping": _ping}, request)

    async def readyz(self, request: web.Request) -> web.Response:
        """``GET /readyz[/{check}]``: the server can serve requests."""
        return await self._respond("readyz", self._ready, request)

    async def failure(self, name: str) -> str:
        """Returns why the check of that name fails; empty if it passes or does not exist."""
        try:
            await self._ready.get(name, _ping)()
        except LauncherError as error:
            return str(error)
        return ""

    async def version(self, _: web.Request) -> web.Response:
        """``GET /version``: the Kubernetes release of the API, and the launcher's version."""
        return web.Response(body=_version(), content_type="application/json")

    async def root(self, _: web.Request) -> web.Response:
        """``GET /``: the available paths."""
        return web.Response(
            body=orjson.dumps({"paths": _PATHS}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
            content_type="application/json",
        )

    async def _respond(
        self, endpoint: str, checks: Mapping[str, Check], request: web.Request
    ) -> web.Response:
        if (name := request.match_info.get("check", "")) != "":
            if name not in checks:
                return _text(404, f"check {name!r} not found; available checks: {', '.join(checks)}\n")
            endpoint, checks = f"{endpoint}/{name}", {name: checks[name]}
        excluded = set(request.query.getall("exclude", []))
        lines, passed = [], True
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif await self._passes(name, check):
                lines.append(f"[+]{name} ok")
            else:
                lines.append(f"[-]{name} failed: reason withheld")
                passed = False
        if unknown := sorted(excluded - set(checks)):
            lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
        if passed and "verbose" not in request.query:
            return _text(200, "ok")
        if "verbose" in request.query:
            lines += _object_lines(self._errors())
        lines.append(f"{endpoint} check {'passed' if passed else 'failed'}")
        return _text(200 if passed else 500, "\n".join(lines) + "\n")

    async def _passes(self, name: str, check: Check) -> bool:
        try:
            await check()
        except Exception as error:  # any error means that the check failed
            # The reason is only logged, since probes are not authenticated; and once, since they are frequent.
            if name not in self._failing:
                unexpected = None if isinstance(error, LauncherError) else error
                log.warning(
                    "health check failed", extra={"check": name, "error": str(error)}, exc_info=unexpected
                )
            self._failing.add(name)
            return False
        self._failing.discard(name)
        return True


def _object_lines(errors: Sequence[ObjectError]) -> Iterator[str]:
    """Yields one line for each object, without the message of the error, since probes are not authenticated."""
    for error in errors[:_MAX_OBJECT_LINES]:
        yield f"warn: object cannot be handled and is skipped: {error.description}: {error.reason}"
    if (more := len(errors) - _MAX_OBJECT_LINES) > 0:
        yield f"warn: {more} more objects cannot be handled and are skipped"


async def _ping() -> None:
    """Always passes."""


def _text(status: int, text: str) -> web.Response:
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
    return web.Response(status=status, text=text, headers=headers)


@cache
def _version() -> bytes:
    major, minor = _KUBERNETES
    return orjson.dumps(
        {
            "major": str(major),
            "minor": str(minor),
            "gitVersion": f"v{major}.{minor}.0+launcher.{installed_version('framework-launcher')}",
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "",
            "goVersion": "",
            "compiler": platform.python_implementation().lower(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        },
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )
