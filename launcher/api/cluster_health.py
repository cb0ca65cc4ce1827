"""Whether the launcher can work with its cluster, for ``/readyz`` and for tasks that wait until it can."""

import asyncio
import logging

from launcher.core.errors import Forbidden, LauncherError, NotServed, Unavailable
from launcher.store.interface import FRAMEWORKS, Store

log = logging.getLogger(__name__)

#: Results are cached for this time, so that frequent probes cost the cluster little.
_CACHE_SECONDS = 1.0
_TIMEOUT_SECONDS = 5.0
_INSTALL_CRD = "kubectl apply --server-side -f deploy/kubernetes/base/crd.yaml"
_INSTALL_RBAC = "kubectl apply -f deploy/kubernetes/base/rbac.yaml"


class ClusterHealth:
    """Lists a Framework, which requires a connection, credentials, permissions and the CRD."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._error: LauncherError | None = None
        self._checked_at: float | None = None

    async def cluster(self) -> None:
        """A check for ``/readyz``. Raises the error of the last request, except NotServed."""
        error = await self._check()
        if error is not None and not isinstance(error, NotServed):
            raise error

    async def frameworks(self) -> None:
        """A check for ``/readyz``. Raises NotServed while the CRD is not installed."""
        if isinstance(error := await self._check(), NotServed):
            raise error

    async def wait_until_healthy(self) -> None:
        """Returns as soon as a request succeeds."""
        while await self._check() is not None:  # noqa: ASYNC110 - the cluster must be polled
            await asyncio.sleep(_CACHE_SECONDS)

    async def _check(self) -> LauncherError | None:
        """Returns the current error, or None; logs when it changes."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if self._checked_at is None or loop.time() >= self._checked_at + _CACHE_SECONDS:
                error = await self._request()
                if type(error) is not type(self._error):
                    _log_change(error)
                self._error, self._checked_at = error, loop.time()
        return self._error

    async def _request(self) -> LauncherError | None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await self._store.list(FRAMEWORKS, limit=1)
        except LauncherError as error:
            return error
        except TimeoutError:
            return Unavailable(f"no response from the cluster within {_TIMEOUT_SECONDS:g}s")
        return None


def _log_change(error: LauncherError | None) -> None:
    match error:
        case None:
            log.info("cluster reachable")
        case NotServed():
            log.warning("CRD of Frameworks not installed", extra={"install_with": _INSTALL_CRD})
        case Forbidden():
            log.warning(
                "missing permissions in the cluster",
                extra={"error": str(error), "grant_with": _INSTALL_RBAC},
            )
        case _:
            log.warning("cluster unreachable, retrying", extra={"error": str(error)})
