"""Lookups in the Domain Name System, by dnspython (the extra `[dns]`).
`client` is the connector, `looking_up` one run of it."""

from walflow import WalflowError, lacks

try:
    from connectors.dns.connector import DnsClient
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "dns":
        raise
    raise WalflowError(lacks("it", "dns")) from missing

__all__ = ["DnsClient"]
