"""Whether the server lives and can work, and what it is."""

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


log = logging.getLogger(__name__)

#: Returns when all is well; whatever it raises tells what is not.
Check = Callable[[], Awaitable[None]]

#: Objects with errors that ``?verbose`` names.
_MAX_OBJECT_LINES = 100
#: The Kubernetes release that the API keeps to. kubectl warns when it is of quite another one.
_KUBERNETES = (1, 34)

#: Where a newcomer may look, as ``/`` lists it.
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
    """Answers for probes. Every check is part of ``/readyz``; ``/livez`` only shows that the server answers at all."""

    def __init__(
        self, checks: Mapping[str, Check], errors: Callable[[], Sequence[ObjectError]] = lambda: ()
    ) -> None:
        """*errors* are those of single objects: ``?verbose`` lists them, and no check fails for them."""
        self._ready = {"ping": _ping, **checks}
        self._errors = errors
        #: What the log has told of, and need not tell again.
        self._failing: set[str] = set()

    def add_to(self, app: web.Application) -> None:
        """Let *app* answer probes."""
        for name, handler in (("healthz", self.healthz), ("livez", self.livez), ("readyz", self.readyz)):
            app.router.add_get(f"/{name}", handler)
            app.router.add_get(f"/{name}/{{check}}", handler)

    async def healthz(self, request: web.Request) -> web.Response:
        """``GET /healthz[/{check}]``: the same as ``/readyz``, under its old name."""
        return await self._answer("healthz", self._ready, request)

    async def livez(self, request: web.Request) -> web.Response:
        """``GET /livez[/{check}]``: the process need not be restarted."""
        return await self._answer("livez", {"ping": _ping}, request)

    async def readyz(self, request: web.Request) -> web.Response:
        """``GET /readyz[/{check}]``: the server can do its work."""
        return await self._answer("readyz", self._ready, request)

    async def version(self, _: web.Request) -> web.Response:
        """``GET /version``: the release of Kubernetes that the API is like, and our own."""
        return web.Response(body=_version(), content_type="application/json")

    async def root(self, _: web.Request) -> web.Response:
        """``GET /``: where to look next."""
        return web.Response(
            body=orjson.dumps({"paths": _PATHS}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
            content_type="application/json",
        )

    async def _answer(self, endpoint: str, checks: Mapping[str, Check], request: web.Request) -> web.Response:
        if (name := request.match_info.get("check", "")) != "":
            if name not in checks:
                return _text(404, f"there is no check {name!r}; there are {', '.join(checks)}\n")
            endpoint, checks = f"{endpoint}/{name}", {name: checks[name]}
        excluded = set(request.query.getall("exclude", []))
        lines, well = [], True
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif await self._passes(name, check):
                lines.append(f"[+]{name} ok")
            else:
                lines.append(f"[-]{name} failed: reason withheld")
                well = False
        if unknown := sorted(excluded - set(checks)):
            lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
        if well and "verbose" not in request.query:
            return _text(200, "ok")
        if "verbose" in request.query:
            lines += _object_lines(self._errors())
        lines.append(f"{endpoint} check {'passed' if well else 'failed'}")
        return _text(200 if well else 500, "\n".join(lines) + "\n")

    async def _passes(self, name: str, check: Check) -> bool:
        try:
            await check()
        except Exception as error:  # whatever it is, the check has failed
            # The log says how, since the caller may be anybody; once, since callers come every few seconds.
            if name not in self._failing:
                unforeseen = None if isinstance(error, LauncherError) else error
                log.warning(
                    "health check failed", extra={"check": name, "why": str(error)}, exc_info=unforeseen
                )
            self._failing.add(name)
            return False
        self._failing.discard(name)
        return True


def _object_lines(errors: Sequence[ObjectError]) -> Iterator[str]:
    """One line for each object; the text of the error is in the log alone, since the caller may be anybody."""
    for each in errors[:_MAX_OBJECT_LINES]:
        yield f"warn: object cannot be handled and is skipped: {each.called}: {each.reason}"
    if (more := len(errors) - _MAX_OBJECT_LINES) > 0:
        yield f"warn: {more} more objects cannot be handled and are skipped"


async def _ping() -> None:
    """Nothing: to be asked is enough."""


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
