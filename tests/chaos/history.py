"""Every version of every object of a namespace, read from etcd, so that no crash of another program hides one."""

import http.client
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from launcher.store.interface import FRAMEWORK_ATTEMPTS, FRAMEWORKS, PODS, ResourceKind
from tests.builders import Json
from tests.cluster.controlplane import ControlPlane

_TIMEOUT_SECONDS = 30.0
#: Kinds between Frameworks and pods are read too and ignored; events are not among them.
_FIRST_KEY, _END_KEY = "/registry/launcher.microsoft.com/", "/registry/pods0"
#: Options of kube-apiserver: pods in a readable encoding, and no compaction.
READABLE_ETCD_FLAGS = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")


@dataclass(frozen=True, slots=True)
class Write:
    """One change: the object after it, or before its deletion."""

    kind: ResourceKind
    deleted: bool
    obj: Json


class History:
    """The changes in one namespace from now on."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._start = self._write_marker()

    def writes(self) -> list[Write]:
        """Returns all changes so far, in order."""
        end = self._write_marker()
        kinds = {
            f"/registry/{PODS.plural}/{self._namespace}/": PODS,
            **{
                f"/registry/{kind.group}/{kind.plural}/{self._namespace}/": kind
                for kind in (FRAMEWORKS, FRAMEWORK_ATTEMPTS)
            },
        }
        writes = []
        for event in self._events(end):
            path = b64decode(event["kv"]["key"]).decode()
            kind = next((kind for prefix, kind in kinds.items() if path.startswith(prefix)), None)
            if kind is not None:
                writes.append(_write(kind, event))
        return writes

    def _write_marker(self) -> int:
        """Writes a marker and returns its revision."""
        path = f"/api/v1/namespaces/{self._namespace}"
        before = self._cluster.admin.get(path)["metadata"]["resourceVersion"]
        marker = {"metadata": {"annotations": {"launcher.test/marker": before}}}
        return int(self._cluster.admin.patch(path, marker)["metadata"]["resourceVersion"])

    def _events(self, end: int) -> Iterator[Any]:
        """Yields every change up to that revision, which is one of them."""
        request = {
            "key": b64encode(_FIRST_KEY.encode()).decode(),
            "range_end": b64encode(_END_KEY.encode()).decode(),
            "start_revision": str(self._start),
            "prev_kv": True,
        }
        url = urlsplit(self._cluster.etcd)
        with closing(
            http.client.HTTPConnection(str(url.hostname), url.port, timeout=_TIMEOUT_SECONDS)
        ) as etcd:
            etcd.request("POST", "/v3/watch", orjson.dumps({"create_request": request}))
            response = etcd.getresponse()
            assert response.status == 200, response.read()
            for line in response:
                for event in orjson.loads(line)["result"].get("events", ()):
                    yield event
                    if int(event["kv"]["mod_revision"]) >= end:
                        response.close()
                        return


def _write(kind: ResourceKind, event: Any) -> Write:
    deleted = event.get("type") == "DELETE"
    obj = orjson.loads(b64decode(event["prev_kv" if deleted else "kv"]["value"]))
    obj["metadata"]["resourceVersion"] = event["kv"]["mod_revision"]
    return Write(kind, deleted, obj)
