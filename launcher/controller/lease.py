"""What stands in a Lease: who leads, since when, and how long that holds without another word."""

import math
from datetime import UTC, datetime

from launcher.core.checking.podrules import part
from launcher.core.replicas import whole
from launcher.store.port import LEASES, Object


def new_lease(namespace: str, name: str) -> Object:
    """A lease that nobody holds."""
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {},
    }


def holder_of(lease: Object) -> str:
    """Who holds the lease; empty when nobody does."""
    return str(_spec(lease).get("holderIdentity") or "")


def seconds_of(lease: Object, default: float) -> float:
    """For how long the holder's word counts: the holder says so itself, since it gives up by its own settings."""
    seconds = _spec(lease).get("leaseDurationSeconds") or default
    return seconds if isinstance(seconds, int | float) else default


def held(lease: Object, identity: str, seconds: float, now: float) -> Object:
    """The lease in the hands of *identity*, from now on or still."""
    before = _spec(lease)
    mine = before.get("holderIdentity") == identity
    began = before.get("acquireTime") if mine else None
    changes = whole(before.get("leaseTransitions"))
    first = not before.get("acquireTime")
    return lease | {
        "spec": before
        | {
            "holderIdentity": identity,
            "leaseDurationSeconds": max(1, math.ceil(seconds)),
            "acquireTime": began or _spelt(now),
            "renewTime": _spelt(now),
            "leaseTransitions": changes if mine or first else changes + 1,
        }
    }


def given_back(lease: Object, now: float) -> Object:
    """The lease without a holder, for anybody to take at once."""
    # A second is the least that Kubernetes allows, and whoever comes does not wait for an empty name.
    return lease | {
        "spec": _spec(lease) | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _spelt(now)}
    }


def _spec(lease: Object) -> Object:
    return part(lease.get("spec"))


def _spelt(now: float) -> str:
    """``2026-01-31T12:00:00.000000Z``: Kubernetes reads these times in no other spelling."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
