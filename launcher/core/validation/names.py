"""Formats of names, labels and keys. Each function returns the error, or None."""

import re
from functools import lru_cache

MAX_NAME = 253
MAX_LABEL = 63
MAX_PORT_NAME = 15

# Unlike $, \Z does not match before a newline at the end.
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z")
_VARIABLE = re.compile(r"[ -<>-~]+\Z")
_ENTRY_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")


def name_error(name: str) -> str | None:
    """The error of an object's name (a DNS-1123 subdomain)."""
    if len(name) > MAX_NAME:
        return f"must be no more than {MAX_NAME} characters"
    if not _SUBDOMAIN.match(name):
        return (
            "must consist of lower case letters, digits, '-' and '.', and start and end with a letter or a digit,"
            " such as 'my-name' or 'a.b'"
        )
    return None


# Cached, as below: the same few values occur in thousands of objects.
@lru_cache(maxsize=4096)
def dns_label_error(name: str) -> str | None:
    """The error of the name of a container, a volume or a Service (a DNS-1123 label)."""
    if len(name) > MAX_LABEL:
        return f"must be no more than {MAX_LABEL} characters"
    if not _DNS_LABEL.match(name):
        return (
            "must consist of lower case letters, digits and '-', and start and end with a letter or a digit"
        )
    return None


@lru_cache(maxsize=4096)
def namespace_error(name: str) -> str | None:
    """The error of a namespace's name (a DNS-1123 label)."""
    return dns_label_error(name)


@lru_cache(maxsize=4096)
def label_key_error(key: str) -> str | None:
    """The error of the key of a label or an annotation."""
    prefix, slash, name = key.rpartition("/")
    if slash and (error := name_error(prefix)):
        return f"prefix {error}"
    if len(name) > MAX_LABEL:
        return f"name must be no more than {MAX_LABEL} characters"
    if not _LABEL_NAME.match(name):
        return (
            "name must consist of letters, digits, '-', '_' and '.', and start and end with a letter or a digit,"
            " such as 'role' or 'example.com/role'"
        )
    return None


@lru_cache(maxsize=4096)
def label_value_error(value: str) -> str | None:
    """The error of the value of a label, which may be empty."""
    if len(value) > MAX_LABEL:
        return f"must be no more than {MAX_LABEL} characters"
    if value and not _LABEL_NAME.match(value):
        return "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or a digit"
    return None


@lru_cache(maxsize=4096)
def port_name_error(name: str) -> str | None:
    """The error of the name of a container's port (an IANA service name)."""
    if len(name) > MAX_PORT_NAME:
        return f"must be no more than {MAX_PORT_NAME} characters"
    if not _DNS_LABEL.match(name) or "--" in name or not re.search("[a-z]", name):
        return (
            "must consist of lower case letters, digits and single '-', with at least one letter, and start and end "
            "with a letter or a digit, such as 'http'"
        )
    return None


@lru_cache(maxsize=4096)
def variable_error(name: str) -> str | None:
    """The error of the name of an environment variable."""
    if not _VARIABLE.match(name):
        return "must consist of printable ASCII characters other than '='"
    return None


def entry_key_error(key: str) -> str | None:
    """The error of a key in a ConfigMap or Secret, which may become a file name."""
    if len(key) > MAX_NAME:
        return f"must be no more than {MAX_NAME} characters"
    if not _ENTRY_KEY.match(key) or key == "." or key.startswith(".."):
        return "must consist of letters, digits, '-', '_' and '.', and be neither '.' nor start with '..'"
    return None
