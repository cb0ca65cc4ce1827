"""The serving certificate: created, shared by all replicas, rotated, and published to kube-apiserver as a CA bundle."""

import asyncio
import logging
import random
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256

from launcher.core.errors import AlreadyExists, Conflict, LauncherError, NotFound, RequestError, Unavailable
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout
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
from launcher.tls.certificate_authority import utc_datetime
from launcher.tls.certificate_secret import (
    ServingPem,
    is_managed_by_other,
    new_secret,
    serving_pem,
    stored_certificates,
    updated_secret,
)
from launcher.tls.rotation import StoredCertificates, renew_certificates
from launcher.tls.server_context import load_pem_chain, server_context

log = logging.getLogger(__name__)

#: The default name of the Secret.
SECRET_NAME = "framework-launcher-tls"  # noqa: S105 - a name
#: The name of the Service and of both webhook configurations.
NAME = "framework-launcher"
#: An annotation of a webhook configuration that was updated a second time: the hash of its CA bundle.
_PUBLISHED = "launcher.microsoft.com/authority"
#: The mean interval of reconciles without an event.
_RESYNC_SECONDS = 300.0
#: Attempts of a reconcile that conflicts with other replicas.
_MAX_ATTEMPTS = 10


class CertificateManager:
    """
    A TLS context with a certificate that kube-apiserver trusts.

    All replicas share the Secret: one writes it, the others load it. A Secret of another owner, such as cert-manager,
    is loaded and never written.
    """

    def __init__(
        self,
        store: Store,
        namespace: str,
        *,
        names: Iterable[str] = (),
        secret: str = SECRET_NAME,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """*names* are further DNS names and addresses of the launcher, in addition to those of the Service."""
        self._store, self._namespace, self._name = store, namespace, secret
        self._names = frozenset({*service_names(namespace), *names})
        self._clock, self._jitter = clock, jitter
        self.context: ssl.SSLContext = server_context()
        self._loaded: ServingPem | None = None
        self._ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._missing: set[ResourceKind] = set()

    async def authority(self) -> bytes:
        """Returns the CA bundle as PEM when a certificate is loaded; empty if the Secret has none."""
        await self._ready.wait()
        return self._loaded.bundle if self._loaded is not None else b""

    async def prepare(self) -> None:
        """Returns when the context has a certificate, which requires the cluster and permissions."""
        backoff = ExponentialBackoff(initial=0.2, maximum=10.0)
        while True:
            try:
                await self.reconcile()
            except LauncherError as error:
                log.warning("certificate not available, retrying", extra={"error": str(error)})
            if self._loaded is not None:
                return
            await asyncio.sleep(backoff.next_delay())

    async def run(self) -> None:
        """Rotates and publishes the certificate until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, namespace, name in (
                (SECRETS, self._namespace, self._name),
                (VALIDATING_WEBHOOKS, None, NAME),
                (MUTATING_WEBHOOKS, None, NAME),
            ):
                informer = Informer(self._store, kind, Selector.for_name(name), namespace=namespace)
                informer.add_event_handler(self)
                group.create_task(informer.run())
            await self._reconcile_forever()

    def on_upsert(self, key: Key, obj: Object) -> None:  # noqa: ARG002 - an informer's event handler
        """Triggers a reconcile."""
        self._changed.set()

    def on_delete(self, key: Key) -> None:  # noqa: ARG002 - an informer's event handler
        """Triggers a reconcile."""
        self._changed.set()

    async def _reconcile_forever(self) -> None:
        backoff = ExponentialBackoff(initial=1.0, maximum=_RESYNC_SECONDS)
        while True:
            self._changed.clear()
            try:
                await self.reconcile()
            except LauncherError as error:
                log.warning("certificate reconcile failed, retrying", extra={"error": str(error)})
                await asyncio.sleep(backoff.next_delay())
                continue
            backoff.reset()
            await wait_or_timeout(self._changed, _RESYNC_SECONDS * (0.5 + self._jitter()))

    async def reconcile(self) -> None:
        """Creates, rotates, loads and publishes the certificate as needed. Raises LauncherError."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                await self._reconcile()
            except (AlreadyExists, Conflict):
                continue  # another replica was faster; its certificate is as good
            return
        raise Unavailable(f"the certificate or the webhook changed during {_MAX_ATTEMPTS} attempts")

    async def _reconcile(self) -> None:
        try:
            secret = await self._store.get(SECRETS, self._namespace, self._name)
        except NotFound:
            secret = None
        published = True
        if secret is not None:
            self._load(secret)
            published = await self._publish_ca_bundle(serving_pem(secret).bundle)
            if is_managed_by_other(secret):
                return
        if (saved := await self._rotate(secret, published=published)) is not None:
            self._load(saved)
            await self._publish_ca_bundle(serving_pem(saved).bundle)

    async def _rotate(self, secret: Object | None, *, published: bool) -> Object | None:
        """Returns the saved Secret, or None if nothing was due."""
        stored = StoredCertificates() if secret is None else stored_certificates(secret)
        renewal = renew_certificates(stored, self._names, utc_datetime(self._clock()), published=published)
        if secret is None:
            new = new_secret(self._namespace, self._name, renewal.certificates)
            saved = await self._store.create(SECRETS, new)
            log.info("certificate created", extra={"secret": self._name})
            return saved
        if not renewal.reasons:
            return None
        saved = await self._store.update(SECRETS, updated_secret(secret, renewal.certificates))
        level = logging.WARNING if stored.errors else logging.INFO
        log.log(level, "certificate rotated", extra={"secret": self._name, "reason": renewal.reasons})
        return saved

    def _load(self, secret: Object) -> None:
        pem = serving_pem(secret)
        if pem == self._loaded:
            return
        try:
            load_pem_chain(self.context, pem.certificate, pem.key)
        except ssl.SSLError as error:
            log.warning("certificate cannot be loaded", extra={"secret": self._name, "error": str(error)})
        else:
            self._loaded = pem
            self._ready.set()

    async def _publish_ca_bundle(self, bundle: bytes) -> bool:
        """Sets *bundle* in both webhook configurations; returns whether it is published. Raises Conflict."""
        if not bundle:
            return True
        text = b64encode(bundle).decode()
        kinds = (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS)
        return all([await self._publish_to(kind, text) for kind in kinds])

    async def _publish_to(self, kind: ResourceKind, bundle: str) -> bool:
        try:
            stored = await self._store.get(kind, "", NAME)
            desired = _with_bundle(stored, bundle)
            if desired == stored:
                desired = _with_annotation(stored, bundle)
            if desired != stored:
                await self._store.update(kind, desired)
        except Conflict:
            raise
        except NotFound:
            self._log_missing(kind)
            return True  # no client trusts it yet
        except RequestError as error:
            log.warning(
                "CA bundle not published", extra={"kind": kind.kind, "object": NAME, "error": str(error)}
            )
            return False
        self._missing.discard(kind)
        return True

    def _log_missing(self, kind: ResourceKind) -> None:
        if kind not in self._missing:
            self._missing.add(kind)
            log.info("webhook configuration not found", extra={"kind": kind.kind, "object": NAME})


def service_names(namespace: str) -> tuple[str, ...]:
    """Returns the DNS names of the launcher's Service in its cluster."""
    inside = f"{NAME}.{namespace}"
    return NAME, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"


def _with_bundle(configuration: Object, bundle: str) -> Object:
    """Returns *configuration* with *bundle* as the CA bundle of each webhook."""
    webhooks = [
        {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}}
        for webhook in configuration.get("webhooks", ())
    ]
    return {**configuration, "webhooks": webhooks} if webhooks else configuration


def _with_annotation(configuration: Object, bundle: str) -> Object:
    """
    Returns *configuration*, which has *bundle*, with an annotation of its hash.

    kube-apiserver can miss an update while it reads the previous version, and keeps the old one until the next update.
    The annotation is that next update: if it is missed in turn, the version in use already has the bundle.
    """
    meta = configuration["metadata"]
    annotations = {**(meta.get("annotations") or {}), _PUBLISHED: sha256(bundle.encode()).hexdigest()}
    return {**configuration, "metadata": {**meta, "annotations": annotations}}
