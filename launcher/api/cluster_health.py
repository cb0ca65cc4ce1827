"""Whether the cluster behind the launcher can be worked with: for ``/readyz``, and for those who wait until it can."""

import asyncio
import logging

from launcher.core.errors import Forbidden, LauncherError, NotServed, Unavailable
from launcher.store.interface import FRAMEWORKS, Store

log = logging.getLogger(__name__)

#: An answer counts for so many seconds: probes and strangers cost the cluster next to nothing.
_FRESH = 1.0
#: And has to come within so many.
_PATIENCE = 5.0
_CRD = "kubectl apply --server-side -f deploy/kubernetes/base/crd.yaml"
_RIGHTS = "kubectl apply -f deploy/kubernetes/base/rbac.yaml"


class ClusterHealth:
    """Asks the cluster for a Framework, which takes a connection, credentials, rights, and the CRD."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asking = asyncio.Lock()
        self._trouble: LauncherError | None = None
        self._asked: float | None = None

    async def cluster(self) -> None:
        """A check for ``/readyz``. Raises what keeps the launcher from working with the cluster."""
        trouble = await self._found()
        if trouble is not None and not isinstance(trouble, NotServed):
            raise trouble

    async def frameworks(self) -> None:
        """A check for ``/readyz``. Raises NotServed while the cluster does not know Frameworks."""
        if isinstance(trouble := await self._found(), NotServed):
            raise trouble

    async def granted(self) -> None:
        """Return as soon as the cluster can be worked with."""
        while await self._found() is not None:  # noqa: ASYNC110 - only asking tells, and asking takes a pause
            await asyncio.sleep(_FRESH)

    async def _found(self) -> LauncherError | None:
        """What is wrong, if anything; each trouble is told in the log when it begins."""
        loop = asyncio.get_running_loop()
        async with self._asking:
            if self._asked is None or loop.time() >= self._asked + _FRESH:
                trouble = await self._ask()
                if type(trouble) is not type(self._trouble):
                    _tell(trouble)
                self._trouble, self._asked = trouble, loop.time()
        return self._trouble

    async def _ask(self) -> LauncherError | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._store.list(FRAMEWORKS, limit=1)
        except LauncherError as error:
            return error
        except TimeoutError:
            return Unavailable(f"the cluster has not answered within {_PATIENCE:g} seconds")
        return None


def _tell(trouble: LauncherError | None) -> None:
    match trouble:
        case None:
            log.info("the cluster can be worked with")
        case NotServed():
            log.warning("the cluster does not know Frameworks yet", extra={"install_with": _CRD})
        case Forbidden():
            log.warning(
                "the launcher lacks rights in the cluster", extra={"why": str(trouble), "grant_with": _RIGHTS}
            )
        case _:
            log.warning("the cluster cannot be reached, trying again", extra={"why": str(trouble)})
