"""Arena's config file: a key and a value on each line."""

from collections.abc import Mapping

ROLE_SEQUENCE, PULL_SECRETS, NAMESPACE = "tfjob_role_sequence", "imagePullSecrets", "namespace"


def read_config(text: str) -> Mapping[str, str]:
    """What the file says, the last word on each key; lines without ``=`` say nothing, as Arena reads them."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}
