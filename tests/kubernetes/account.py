"""The launcher's own service account, with the rights that deploy/ gives it and no other."""

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.local.server import PROJECT

#: The launcher's namespace, and the name of everything in it.
HOME = "framework-launcher"
BASE = PROJECT / "deploy" / "kubernetes" / "base"
_FILES = ("namespace.yaml", "service-account.yaml", "rbac.yaml", "rbac-certificate.yaml")


def launcher_account(cluster: ControlPlane) -> User:
    """Who the launcher is in a cluster where it is installed, with a kubeconfig that is at home in its namespace."""
    cluster.kubectl("apply", *(f"--filename={BASE / name}" for name in _FILES))
    user = cluster.service_account(HOME, HOME)
    cluster.kubectl("config", "set-context", "--current", f"--namespace={HOME}", user=user)
    # One right of each of its roles: kube-apiserver hears of them a while later.
    for group, resource, at in (
        ("launcher.microsoft.com", "frameworks", {}),
        ("coordination.k8s.io", "leases", {"namespace": HOME, "name": HOME}),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", {"name": HOME}),
        ("", "secrets", {"namespace": HOME, "name": f"{HOME}-tls"}),
    ):
        cluster.until_allowed(user, verb="get", group=group, resource=resource, **at)
    return user
