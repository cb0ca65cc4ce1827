"""The simulated nodes."""

from typing import Any

_CAPACITY = {"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "4Ti", "pods": "2000"}


def node(number: int) -> dict[str, Any]:
    """Node *number*: capacity for 2,000 pods, and an address that does not respond."""
    name = f"node-{number}"
    # From the network that RFC 2544 reserves for tests.
    address = f"198.18.{number // 250}.{number % 250 + 1}"
    return {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "status": {
            "capacity": _CAPACITY,
            "allocatable": _CAPACITY,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
        },
    }


def is_ready(obj: Any) -> bool:
    """Whether pods can be scheduled to it."""
    conditions = {one["type"]: one["status"] for one in obj["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not obj["spec"].get("taints")
