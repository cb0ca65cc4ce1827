"""Where the server may listen, given what protects it."""

from ipaddress import ip_address


def refusal(listen_host: str, *, token: bool, tls: bool) -> str | None:
    """Why the server must not listen there, and the way out; None when it may."""
    if _is_loopback(listen_host) or (token and tls):
        return None
    missing = " and ".join(what for what, given in (("a token", token), ("TLS", tls)) if not given)
    return (
        f"{listen_host or 'every address'} can be reached from other machines, and whoever reaches the server can run "
        f"commands here: set {missing}, or listen on 127.0.0.1"
    )


def cluster_refusal(listen_host: str, *, tls: bool) -> str | None:
    """As ``refusal``, where the cluster decides who may do what: only callers' credentials have to be kept safe."""
    if _is_loopback(listen_host) or tls:
        return None
    return (
        f"{listen_host or 'every address'} can be reached from other machines, and callers send their credentials: "
        "set --tls-cert and --tls-key, or --tls-secret, or listen on 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    # A name may lead anywhere tomorrow, so only the one that the standards tie to this machine counts.
    if host == "localhost":
        return True
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
