"""Every version of every object of a namespace, from etcd itself: no crash of any other program hides one."""

import http.client
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson

from launcher.store.interface import FRAMEWORKS, PODS, ResourceKind
from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import Json

_SECONDS = 30.0
#: All that lies between Frameworks and pods comes along, and is passed over; events do not lie there.
_FIRST, _BEHIND = "/registry/launcher.microsoft.com/", "/registry/pods0"
#: What kube-apiserver has to be told for its pods to be legible there, and for all of them to stay.
LEGIBLE = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")


@dataclass(frozen=True, slots=True)
class Write:
    """One change that took effect: the object as it was from then on, or before it was gone."""

    kind: ResourceKind
    gone: bool
    obj: Json


class History:
    """What happens in one namespace from now on."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._begin = self._mark()

    def writes(self) -> list[Write]:
        """All so far, in order."""
        end = self._mark()
        places = {
            f"/registry/{PODS.plural}/{self._namespace}/": PODS,
            f"/registry/{FRAMEWORKS.group}/{FRAMEWORKS.plural}/{self._namespace}/": FRAMEWORKS,
        }
        found = []
        for event in self._events(end):
            path = b64decode(event["kv"]["key"]).decode()
            kind = next((kind for place, kind in places.items() if path.startswith(place)), None)
            if kind is not None:
                found.append(_write(kind, event))
        return found

    def _mark(self) -> int:
        """The revision of a write of ours, which has no meaning."""
        path = f"/api/v1/namespaces/{self._namespace}"
        before = self._cluster.admin.get(path)["metadata"]["resourceVersion"]
        mark = {"metadata": {"annotations": {"launcher.test/looked-at": before}}}
        return int(self._cluster.admin.patch(path, mark)["metadata"]["resourceVersion"])

    def _events(self, end: int) -> Iterator[Any]:
        """Every change of any object up to that revision, which is one of them."""
        wanted = {
            "key": b64encode(_FIRST.encode()).decode(),
            "range_end": b64encode(_BEHIND.encode()).decode(),
            "start_revision": str(self._begin),
            "prev_kv": True,
        }
        place = urlsplit(self._cluster.etcd)
        with closing(http.client.HTTPConnection(str(place.hostname), place.port, timeout=_SECONDS)) as etcd:
            etcd.request("POST", "/v3/watch", orjson.dumps({"create_request": wanted}))
            answer = etcd.getresponse()
            assert answer.status == 200, answer.read()
            for line in answer:
                for event in orjson.loads(line)["result"].get("events", ()):
                    yield event
                    if int(event["kv"]["mod_revision"]) >= end:
                        answer.close()
                        return


def _write(kind: ResourceKind, event: Any) -> Write:
    gone = event.get("type") == "DELETE"
    obj = orjson.loads(b64decode(event["prev_kv" if gone else "kv"]["value"]))
    obj["metadata"]["resourceVersion"] = event["kv"]["mod_revision"]
    return Write(kind, gone, obj)
