"""The launcher's own certificate: made, shared by all replicas, renewed in time, and told to kube-apiserver."""

import asyncio
import logging
import random
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256

from launcher.core.errors import AlreadyExists, Conflict, LauncherError, NotFound, RequestError, Unavailable
from launcher.store.backoff import ExponentialBackoff
from launcher.store.informer import Informer
from launcher.store.interface import (
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Key,
    Object,
    ResourceKind,
    Store,
)
from launcher.store.selectors import Selector
from launcher.tls.certificate_authority import time_of
from launcher.tls.certificate_secret import (
    ServingPem,
    changed_secret,
    found_in,
    is_foreign,
    new_secret,
    shown_in,
)
from launcher.tls.rotation import StoredCertificates, renewed
from launcher.tls.server_context import server_context, show

log = logging.getLogger(__name__)

#: The Secret, unless another is named.
KEPT_IN = "framework-launcher-tls"
#: The Service, and both configurations of the webhook.
NAME = "framework-launcher"
#: On a configuration that has been changed once more after it was told whom to trust: whom.
_TOLD = "launcher.microsoft.com/authority"
#: Seconds between two looks when nothing happens, more or less.
_LOOK_AGAIN = 300.0
#: How often others may get ahead of a look before it is given up, for a while.
_TRIES = 10


class CertificateManager:
    """
    A TLS context that always shows a certificate which kube-apiserver trusts.

    Any number of replicas keep it together: what one writes, the others take up. A Secret that somebody else keeps,
    such as cert-manager, is followed and never written.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        *,
        names: Iterable[str] = (),
        secret: str = KEPT_IN,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """*names* are those, and addresses, by which clients call us beside those of the Service."""
        self._store, self._namespace, self._name = store, namespace, secret
        self._names = frozenset({*service_names(namespace), *names})
        self._clock, self._chance = clock, chance
        self.context: ssl.SSLContext = server_context()
        self._shown: ServingPem | None = None
        self._first = asyncio.Event()
        self._changed = asyncio.Event()
        self._missing: set[ResourceKind] = set()

    async def authority(self) -> bytes:
        """Whose word on the certificate counts, as PEM, as soon as there is one; empty if its keeper does not say."""
        await self._first.wait()
        return self._shown.bundle if self._shown is not None else b""

    async def prepare(self) -> None:
        """Return when the context has a certificate to show: when the cluster can be reached, and grants the rights."""
        pauses = ExponentialBackoff(first=0.2, most=10.0)
        while True:
            try:
                await self.look()
            except LauncherError as error:
                log.warning("no certificate yet, trying again", extra={"why": str(error)})
            if self._shown is not None:
                return
            await asyncio.sleep(pauses.next_delay())

    async def run(self) -> None:
        """Keep the certificate fresh and known until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, namespace, name in (
                (SECRETS, self._namespace, self._name),
                (VALIDATING_WEBHOOKS, None, NAME),
                (MUTATING_WEBHOOKS, None, NAME),
            ):
                informer = Informer(self._store, kind, self, Selector.named(name), namespace=namespace)
                group.create_task(informer.run())
            await self._look_again_and_again()

    def on_upsert(self, key: Key, obj: Object) -> None:  # noqa: ARG002 - what an informer tells
        """Something has changed: look soon."""
        self._changed.set()

    def on_delete(self, key: Key) -> None:  # noqa: ARG002 - what an informer tells
        """Something is gone: look soon."""
        self._changed.set()

    async def _look_again_and_again(self) -> None:
        pauses = ExponentialBackoff(first=1.0, most=_LOOK_AGAIN)
        while True:
            self._changed.clear()
            try:
                await self.look()
            except LauncherError as error:
                log.warning("certificate not kept, trying again", extra={"why": str(error)})
                await asyncio.sleep(pauses.next_delay())
                continue
            pauses.reset()
            await self._until_changed(_LOOK_AGAIN * (0.5 + self._chance()))

    async def _until_changed(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def look(self) -> None:
        """Make, renew, take up and tell what is to be made, renewed, taken up and told now. Raises LauncherError."""
        for _ in range(_TRIES):
            try:
                await self._look()
            except (AlreadyExists, Conflict):
                continue  # another replica was faster: what it wrote is as good
            return
        raise Unavailable(f"others have changed the certificate or the webhook {_TRIES} times on end")

    async def _look(self) -> None:
        try:
            secret = await self._store.get(SECRETS, self._namespace, self._name)
        except NotFound:
            secret = None
        told = True
        if secret is not None:
            self._show(secret)
            told = await self._publish_ca_bundle(shown_in(secret).bundle)
            if is_foreign(secret):
                return
        if (saved := await self._renew(secret, told=told)) is not None:
            self._show(saved)
            await self._publish_ca_bundle(shown_in(saved).bundle)

    async def _renew(self, secret: Object | None, *, told: bool) -> Object | None:
        """The Secret as it now is, if anything about it was due."""
        found = StoredCertificates() if secret is None else found_in(secret)
        renewal = renewed(found, self._names, time_of(self._clock()), told=told)
        if secret is None:
            new = new_secret(self._namespace, self._name, renewal.ring)
            saved = await self._store.create(SECRETS, new)
            log.info("certificate made", extra={"secret": self._name})
            return saved
        if not renewal.because:
            return None
        saved = await self._store.update(SECRETS, changed_secret(secret, renewal.ring))
        level = logging.WARNING if found.faults else logging.INFO
        log.log(level, "certificate renewed", extra={"secret": self._name, "because": renewal.because})
        return saved

    def _show(self, secret: Object) -> None:
        shown = shown_in(secret)
        if shown == self._shown:
            return
        try:
            show(self.context, shown.certificate, shown.key)
        except ssl.SSLError as error:
            log.warning("certificate cannot be used", extra={"secret": self._name, "why": str(error)})
        else:
            self._shown = shown
            self._first.set()

    async def _publish_ca_bundle(self, bundle: bytes) -> bool:
        """Whether both webhook configurations that there are trust *bundle*, and only that. Raises Conflict."""
        if not bundle:
            return True
        text = b64encode(bundle).decode()
        kinds = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
        return all([await self._tell_one(kind, text) for kind in kinds])

    async def _tell_one(self, kind: ResourceKind, bundle: str) -> bool:
        try:
            stored = await self._store.get(kind, "", NAME)
            wanted = _trusting(stored, bundle)
            if wanted == stored:
                wanted = _marked(stored, bundle)
            if wanted != stored:
                await self._store.update(kind, wanted)
        except Conflict:
            raise
        except NotFound:
            self._note_missing(kind)
            return True  # there is nobody to be told
        except RequestError as error:
            log.warning("authority not told", extra={"kind": kind.kind, "object": NAME, "why": str(error)})
            return False
        self._missing.discard(kind)
        return True

    def _note_missing(self, kind: ResourceKind) -> None:
        if kind not in self._missing:
            self._missing.add(kind)
            log.info("no such webhook configuration", extra={"kind": kind.kind, "object": NAME})


def service_names(namespace: str) -> tuple[str, ...]:
    """The names by which the launcher's Service is called inside its cluster."""
    inside = f"{NAME}.{namespace}"
    return NAME, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"


def _trusting(configuration: Object, bundle: str) -> Object:
    """*configuration* with each of its webhooks known by *bundle*."""
    webhooks = [
        {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}}
        for webhook in configuration.get("webhooks", ())
    ]
    return {**configuration, "webhooks": webhooks} if webhooks else configuration


def _marked(configuration: Object, bundle: str) -> Object:
    """
    *configuration*, which trusts *bundle*, with a mark that says so.

    While kube-apiserver reads one version, it can miss the next, and works with the old one until there is another
    change. This is that change: should it be missed in turn, what is worked with trusts us already.
    """
    meta = configuration["metadata"]
    marks = {**(meta.get("annotations") or {}), _TOLD: sha256(bundle.encode()).hexdigest()}
    return {**configuration, "metadata": {**meta, "annotations": marks}}
