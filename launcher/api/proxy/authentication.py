"""
Who calls, as the API server is told it.

A token speaks for its sender and is passed on as it is. A client certificate cannot be: it proves something about one
connection alone. Whoever shows one that the cluster's authority has signed is therefore named by the launcher, with
rights of its own that are lent for just this (``impersonate``). Nobody is ever served with the launcher's rights.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import hdrs, web
from multidict import CIMultiDict

from launcher.api.middleware.access_guard import check_origin
from launcher.core.errors import BadRequest, Forbidden

_USER, _GROUP = "Impersonate-User", "Impersonate-Group"
_IMPERSONATE = "impersonate-"
#: Kubernetes' own: of its parts, and of those whom it believes everything.
_SYSTEM = "system:"
#: Every user of a certificate is a member, and kube-apiserver adds it by itself.
_EVERYBODY = "system:authenticated"

Certificate = Mapping[str, Any]


def certificate_of(request: web.BaseRequest) -> Certificate | None:
    """What the caller's certificate says; None without one. It was verified when the connection was made."""
    return request.get_extra_info("peercert") or None


def check_token(headers: CIMultiDict[str]) -> None:
    """Raise HTTPUnauthorized when nothing in *headers* says who calls."""
    if not headers.get(hdrs.AUTHORIZATION, "").strip():
        # What kube-apiserver says.
        raise web.HTTPUnauthorized(text="Unauthorized")


def name_caller(request: web.BaseRequest, headers: CIMultiDict[str], certificate: Certificate) -> None:
    """
    Tell in *headers* whom the certificate names.

    Raises BadRequest for a request that says in other ways, too, who it is from, and Forbidden for one whom nobody
    may name but the cluster itself.
    """
    # Browsers show a certificate to any page that asks, unlike a token.
    check_origin(request)
    if hdrs.AUTHORIZATION in headers:
        raise BadRequest(
            "the request has a client certificate and an Authorization header: send one of them, "
            "so that it is clear who calls"
        )
    if any(name.lower().startswith(_IMPERSONATE) for name in headers):
        raise BadRequest(
            "whoever calls with a client certificate cannot act as somebody else here; leave out --as and the like, "
            "or call the API server itself"
        )
    user, groups = _subject(certificate)
    headers[_USER] = user
    for group in groups:
        headers.add(_GROUP, group)


def _subject(certificate: Certificate) -> tuple[str, list[str]]:
    """The user and the groups that the certificate is for, as Kubernetes reads it."""
    users, groups = list(_entries(certificate, "commonName")), list(_entries(certificate, "organizationName"))
    if len(users) != 1:
        raise Forbidden("the client certificate names no single user (CN)")
    groups = [group for group in dict.fromkeys(groups) if group != _EVERYBODY]
    for name in (*users, *groups):
        # The ends of a header are cut on its way, and the rest could become another name.
        if not name or not name.isprintable() or name != name.strip():
            raise Forbidden("the client certificate names a user or group that no header can carry")
        if name.startswith(_SYSTEM):
            raise Forbidden(
                f"{name!r} is the cluster's own, and nobody else may speak for it: call the API server itself"
            )
    return users[0], groups


def _entries(certificate: Certificate, field: str) -> Iterator[str]:
    return (value for part in certificate.get("subject", ()) for key, value in part if key == field)
