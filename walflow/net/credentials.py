"""Warnings of a connector's credentials: those that stand in the flow file,
and those that go over the network as text."""

from collections.abc import Iterable

from walflow.contract import Risk
from walflow.net.address import Address
from walflow.net.secrets import Secret


def credentials_written(headers: Iterable[str] = (), **secrets: Secret | None) -> list[str]:
    """One for each that stands in the flow file. `secrets`: by their keys.
    `headers`: names of headers that are written there."""
    found: list[str] = [
        Risk("credential", f"the {key} stands in the flow file; name a file, env or credential instead")
        for key, secret in secrets.items()
        if secret is not None and secret.inline
    ]
    if any(name.lower() == "authorization" for name in headers):
        found.append(Risk("credential", "headers contain an Authorization; name a file with it in `token` instead"))
    return found


def credential_in_the_open(key: str, address: Address) -> str:
    """For one that is sent without TLS to another machine."""
    return Risk(
        "open-to-network", f"the {key} goes to {address} without TLS, so every machine on the way can read it"
    )
