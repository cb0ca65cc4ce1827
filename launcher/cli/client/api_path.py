"""Paths of the API."""

from collections.abc import Mapping
from typing import NamedTuple

from launcher.cli.names import namespace_segment, path_segment


class ApiPath(NamedTuple):
    """A kind of object: its path in the API."""

    prefix: str
    plural: str

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """
        ``/api/v1/namespaces/default/pods/p/log``; without a namespace or a name, the path of all of them.

        Raises UsageError for an empty or malformed name, which would be the path of another object, or of all of them.
        """
        segments = [self.prefix, self.plural]
        if namespace is not None:
            segments.insert(1, f"namespaces/{namespace_segment(namespace)}")
        if name is not None:
            segments.append(path_segment(name))
        return "/".join(segments if subresource is None else [*segments, subresource])


FRAMEWORKS = ApiPath("/apis/launcher.microsoft.com/v1", "frameworks")
FRAMEWORK_ATTEMPTS = ApiPath(FRAMEWORKS.prefix, "frameworkattempts")
PODS = ApiPath("/api/v1", "pods")
POD_METRICS = ApiPath("/apis/metrics.k8s.io/v1beta1", "pods")
EVENTS = ApiPath("/api/v1", "events")
NODES = ApiPath("/api/v1", "nodes")
SERVICES = ApiPath("/api/v1", "services")
CONFIG_MAPS = ApiPath("/api/v1", "configmaps")


def selector_parameters(labels: str, fields: str) -> Mapping[str, str]:
    """The query parameters of the selectors that are not empty."""
    selectors = {"labelSelector": labels, "fieldSelector": fields}
    return {name: selector for name, selector in selectors.items() if selector}
