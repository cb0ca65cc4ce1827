"""The launcher's service account with the permissions of deploy/."""

from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.launcher_process import PROJECT

#: The name of the launcher's objects, and of their namespace.
LAUNCHER_NAME = LAUNCHER_NAMESPACE = "framework-launcher"
BASE = PROJECT / "deploy" / "kubernetes" / "base"
_FILES = ("namespace.yaml", "service-account.yaml", "rbac.yaml", "rbac-certificate.yaml")


def launcher_account(cluster: ControlPlane) -> User:
    """Installs the account and returns its kubeconfig."""
    cluster.kubectl("apply", *(f"--filename={BASE / name}" for name in _FILES))
    user = cluster.service_account(LAUNCHER_NAMESPACE, LAUNCHER_NAME)
    cluster.kubectl("config", "set-context", "--current", f"--namespace={LAUNCHER_NAMESPACE}", user=user)
    # One permission of each role: kube-apiserver applies them with a delay.
    for group, resource, at in (
        ("launcher.microsoft.com", "frameworks", {}),
        ("coordination.k8s.io", "leases", {"namespace": LAUNCHER_NAMESPACE, "name": LAUNCHER_NAME}),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", {"name": LAUNCHER_NAME}),
        ("", "secrets", {"namespace": LAUNCHER_NAMESPACE, "name": f"{LAUNCHER_NAME}-tls"}),
    ):
        cluster.until_allowed(user, verb="get", group=group, resource=resource, **at)
    return user
