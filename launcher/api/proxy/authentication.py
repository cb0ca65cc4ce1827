"""
Authentication of callers to the API server.

A token is forwarded. A client certificate cannot be forwarded, since it authenticates one connection. The user of a
certificate that the cluster's authority has signed is therefore impersonated by the launcher, which needs only the
permission ``impersonate`` for that. No request is served with the launcher's own permissions.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import hdrs, web
from multidict import CIMultiDict

from launcher.api.middleware.access_guard import check_origin
from launcher.core.errors import BadRequest, Forbidden

_USER, _GROUP = "Impersonate-User", "Impersonate-Group"
_IMPERSONATE = "impersonate-"
#: The prefix of users and groups of Kubernetes itself.
_SYSTEM = "system:"
#: kube-apiserver adds this group to all authenticated users.
_AUTHENTICATED = "system:authenticated"

Certificate = Mapping[str, Any]


def client_certificate(request: web.BaseRequest) -> Certificate | None:
    """Returns the client certificate, which the TLS handshake has verified, or None."""
    return request.get_extra_info("peercert") or None


def check_token(headers: CIMultiDict[str]) -> None:
    """Raises HTTPUnauthorized if *headers* contain no credentials."""
    if not headers.get(hdrs.AUTHORIZATION, "").strip():
        # The message of kube-apiserver.
        raise web.HTTPUnauthorized(text="Unauthorized")


def impersonate(request: web.BaseRequest, headers: CIMultiDict[str], certificate: Certificate) -> None:
    """
    Adds headers that impersonate the user of the certificate.

    Raises BadRequest for a request with other credentials, and Forbidden for a system user.
    """
    # Unlike a token, browsers send a certificate with requests of any page.
    check_origin(request)
    if hdrs.AUTHORIZATION in headers:
        raise BadRequest(
            "the request has both a client certificate and an Authorization header; send only one of them"
        )
    if any(name.lower().startswith(_IMPERSONATE) for name in headers):
        raise BadRequest(
            "impersonation with a client certificate is not supported by the proxy; remove --as, or connect to the "
            "API server directly"
        )
    user, groups = _subject(certificate)
    headers[_USER] = user
    for group in groups:
        headers.add(_GROUP, group)


def _subject(certificate: Certificate) -> tuple[str, list[str]]:
    """Returns the user and the groups of the certificate, as in Kubernetes."""
    users, groups = list(_entries(certificate, "commonName")), list(_entries(certificate, "organizationName"))
    if len(users) != 1:
        raise Forbidden("the client certificate must have exactly one common name (CN)")
    groups = [group for group in dict.fromkeys(groups) if group != _AUTHENTICATED]
    for name in (*users, *groups):
        # Whitespace at the ends of a header is removed, which could result in another name.
        if not name or not name.isprintable() or name != name.strip():
            raise Forbidden("the client certificate has a user or group that cannot be sent in a header")
        if name.startswith(_SYSTEM):
            raise Forbidden(
                f"{name!r} is a system user or group, which the proxy does not impersonate; connect to the API server "
                "directly"
            )
    return users[0], groups


def _entries(certificate: Certificate, field: str) -> Iterator[str]:
    return (value for part in certificate.get("subject", ()) for key, value in part if key == field)
