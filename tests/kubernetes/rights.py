"""What the manifests let the launcher do, compared with what it does."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from tests.cluster.audit import Request
from tests.kubernetes.account import BASE, HOME
from tests.kubernetes.launcher import USER_AGENT


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource; without a namespace or a name, in all of them or on any of them."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        words = (self.verb, f"{self.group}/{self.resource}".lstrip("/"), self.name)
        return " ".join(filter(None, words)) + (f" in {self.namespace}" if self.namespace else "")

    def covers(self, request: Request) -> bool:
        """Whether this is what the request takes."""
        resource = "/".join(filter(None, (request.resource, request.subresource)))
        return (
            (self.verb, self.group, self.resource) == (request.verb, request.group, resource)
            and self.namespace in {"", request.namespace}
            and self.name in {"", request.name}
        )


#: No request shows it: kube-apiserver asks for it when a pod says that it holds up the deletion of its Framework.
UNSEEN = Right("update", "launcher.microsoft.com", "frameworks/finalizers")
#: Of those who place gangs, none of whom is in a plain cluster: the tests of gangs show that these are used.
ELSEWHERE = frozenset({"scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.k8s.io", "kueue.x-k8s.io"})


def rights(*files: str) -> frozenset[Right]:
    """Every right in the roles of these files of the base."""
    return frozenset(right for name in files for right in _rights_in(name))


def launcher_rights() -> frozenset[Right]:
    """All that the launcher has, as it comes."""
    return rights("rbac.yaml", "rbac-certificate.yaml")


def beyond(granted: Iterable[Right], requests: Iterable[Request]) -> set[str]:
    """What was asked for without a right of these, in words."""
    granted = list(granted)
    return {
        f"{request.verb} {request.group}/{request.resource}/{request.subresource} {request.name}"
        for request in requests
        if request.resource and not any(right.covers(request) for right in granted)
    }


def refused(requests: Iterable[Request]) -> set[str]:
    """
    What was asked for and never allowed, in words: an API server that has just started says no to everything.

    Without names: the log has none for a creation that was refused.
    """
    answers: dict[str, bool] = {}
    for r in requests:
        words = f"{r.verb} {r.group}/{r.resource} in {r.namespace}"
        answers[words] = answers.get(words, False) or r.allowed
    return {words for words, allowed in answers.items() if not allowed}


def of_launcher(requests: Iterable[Request]) -> list[Request]:
    """What it asked for as its service account, in its own name."""
    who = (f"system:serviceaccount:{HOME}:{HOME}", USER_AGENT, "")
    return [
        request for request in requests if (request.user, request.user_agent, request.impersonated) == who
    ]


def _rights_in(file: str) -> Iterator[Right]:
    for role in yaml.safe_load_all((BASE / file).read_text()):
        if role["kind"] in {"Role", "ClusterRole"}:
            for rule in role["rules"]:
                yield from (
                    Right(verb, group, resource, role["metadata"].get("namespace", ""), name)
                    for verb in rule["verbs"]
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for name in rule.get("resourceNames", [""])
                )
