"""
The log archive in an object store: a directory, or a bucket of S3, GCS or Azure.

The key of a log is ``NAMESPACE/POD/UID/CONTAINER/RESTART.log``, the path of a log in local mode. A reader knows all
parts but the last two, and lists these.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore, from_url

from launcher.core.errors import Forbidden, NotFound, Unavailable
from launcher.log_archive.interface import ArchivedPod, LogKey

#: Of one call. The caller repeats calls that failed, and reports why.
_MAX_RETRIES, _RETRY_TIMEOUT = 1, timedelta(seconds=10)
_MAX_MESSAGE_LENGTH = 300
_SUFFIX = ".log"
#: Only in the dump of the values of an error.
_NO_CERTIFICATES = "No CA certificates"
#: A single part of a path: names and uids of Kubernetes objects.
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}\Z")


def open_archive(url: str) -> "ObjectStoreArchive":
    """Returns the archive at *url*, without a request to it. Raises ValueError with the reason if that is invalid."""
    try:
        # No client options: with them, obstore would ignore those of the environment, such as AWS_ALLOW_HTTP.
        store = from_url(url, retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": _RETRY_TIMEOUT})
    except (BaseError, ValueError) as error:
        raise ValueError(_message(error)) from error
    return ObjectStoreArchive(store)


class ObjectStoreArchive:
    """A ``LogArchive`` in an object store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def create(self, key: LogKey, text: bytes) -> bool:
        with _our_errors():
            try:
                await obstore.put_async(self._store, _path(key), text, mode="create")
            except AlreadyExistsError:
                return False
            except FileNotFoundError as error:
                raise Unavailable(f"the directory or bucket does not exist: {_message(error)}") from error
            return True

    async def exists(self, key: LogKey) -> bool:
        try:
            with _our_errors():
                await obstore.head_async(self._store, _path(key))
        except NotFound:
            return False
        return True

    async def read(self, key: LogKey) -> bytes:
        with _our_errors():
            result = await obstore.get_async(self._store, _path(key))
            return bytes(await result.bytes_async())

    async def runs(self, pod: ArchivedPod) -> Mapping[str, Sequence[int]]:
        prefix = _directory(pod)
        with _our_errors():
            objects = await obstore.list(self._store, prefix=prefix).collect_async()
        runs: dict[str, list[int]] = {}
        for entry in objects:
            container, _, file = entry["path"].removeprefix(f"{prefix}/").partition("/")
            restart = file.removesuffix(_SUFFIX)
            if file.endswith(_SUFFIX) and restart.isascii() and restart.isdigit():
                runs.setdefault(container, []).append(int(restart))
        return {container: sorted(restarts) for container, restarts in sorted(runs.items())}


def _directory(pod: ArchivedPod) -> str:
    """Returns the prefix of the pod's logs. Raises NotFound for a name that no pod has: it could lead elsewhere."""
    parts = (pod.namespace, pod.name, pod.uid)
    if not all(map(_PART.match, parts)):
        raise NotFound(f'no archived log of pod "{pod.name}"')
    return "/".join(parts)


def _path(key: LogKey) -> str:
    if not _PART.match(key.container):
        raise NotFound(f'no archived log of container "{key.container}"')
    return f"{_directory(key.pod)}/{key.container}/{key.restart}{_SUFFIX}"


@contextmanager
def _our_errors() -> Iterator[None]:
    """Translates the errors of obstore, some of which are built-in exceptions."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(_message(error)) from error
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise Forbidden(_message(error)) from error
    except (BaseError, OSError) as error:
        raise Unavailable(_message(error)) from error


def _message(error: Exception) -> str:
    """Returns the first line; a dump of the library's values follows it."""
    if _NO_CERTIFICATES in str(error):
        return "there are no CA certificates; install them, or set SSL_CERT_FILE"
    return (str(error).splitlines() or [type(error).__name__])[0][:_MAX_MESSAGE_LENGTH]
