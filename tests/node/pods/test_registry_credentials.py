"""Credentials of Docker's config.json."""

import base64
from typing import Any

import pytest

from launcher.node.container_runtime import RegistryCredentials
from launcher.node.pods.image_reference import parse_image
from launcher.node.pods.registry_credentials import (
    credential_helper,
    matching_credentials,
    secret_config,
)

ADA = {"auth": base64.b64encode(b"ada:a:b").decode()}


@pytest.mark.parametrize(
    ("server", "image", "matches"),
    [
        pytest.param("https://index.docker.io/v1/", "ada/tf:1", True, id="Docker's registry"),
        pytest.param("https://index.docker.io/v1/", "quay.io/ada/tf:1", False, id="another registry"),
        pytest.param("quay.io", "quay.io/ada/tf:1", True, id="host"),
        pytest.param("quay.io/ada", "quay.io/ada/tf:1", True, id="path"),
        pytest.param("quay.io/ada", "quay.io/adam/tf:1", False, id="another path"),
        pytest.param("*.example.org", "r.example.org/x:1", True, id="pattern"),
        pytest.param("http://127.0.0.1:5000", "127.0.0.1:5000/x:1", True, id="port"),
        pytest.param("127.0.0.1", "127.0.0.1:5000/x:1", False, id="another port"),
    ],
)
def test_credentials_are_used_for_their_registry(server: str, image: str, matches: bool) -> None:
    found = list(matching_credentials({"auths": {server: ADA}}, parse_image(image)))

    assert found == ([RegistryCredentials("ada", "a:b")] if matches else [])


def test_the_most_specific_credentials_are_tried_first() -> None:
    auths = {"quay.io": {"username": "any", "password": "x"}, "quay.io/ada": {"identitytoken": "t"}}

    found = matching_credentials({"auths": auths}, parse_image("quay.io/ada/tf:1"))

    assert list(found) == [RegistryCredentials(identity_token="t"), RegistryCredentials("any", "x")]


@pytest.mark.parametrize("auth", [{}, {"auth": "?"}, {"auth": base64.b64encode(b"no colon").decode()}])
def test_credentials_that_cannot_be_read_are_skipped(auth: Any) -> None:
    assert list(matching_credentials({"auths": {"quay.io": auth}}, parse_image("quay.io/a:1"))) == []


def test_a_pull_secret_has_one_of_two_formats() -> None:
    new = base64.b64encode(b'{"auths": {"r": {}}}').decode()
    old = base64.b64encode(b'{"r": {}}').decode()

    assert secret_config({"data": {".dockerconfigjson": new}}) == {"auths": {"r": {}}}
    assert secret_config({"data": {".dockercfg": old}}) == {"auths": {"r": {}}}
    with pytest.raises(ValueError, match=r"no key \.dockerconfigjson"):
        secret_config({"data": {}})


def test_a_helper_is_that_of_the_registry_or_of_all() -> None:
    config = {"credHelpers": {"gcr.io": "gcloud"}, "credsStore": "desktop"}

    assert credential_helper(config, "gcr.io") == ("gcloud", "gcr.io")
    assert credential_helper(config, "docker.io") == ("desktop", "https://index.docker.io/v1/")
    assert credential_helper({}, "gcr.io") is None
