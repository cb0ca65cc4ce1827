"""TLS handshakes in memory."""

import ssl

from cryptography import x509


def shown(server: ssl.SSLContext, trusted: bytes | None = None, name: str | None = None) -> x509.Certificate:
    """
    The certificate that *server* shows to a client.

    With *trusted* authorities the client checks it, for the server of that *name*, and raises
    ssl.SSLCertVerificationError when it is no good.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = name is not None
    client.verify_mode = ssl.CERT_NONE if trusted is None else ssl.CERT_REQUIRED
    if trusted is not None:
        client.load_verify_locations(cadata=trusted.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    own = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (own, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = own.getpeercert(binary_form=True)
    assert der is not None, "the handshake has not come to its end"
    return x509.load_der_x509_certificate(der)
