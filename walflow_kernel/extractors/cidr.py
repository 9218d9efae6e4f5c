"""`cidr|10.0.0.0/8, fd00::/8|`: an address in one of these networks. Without an argument: any address or network."""

from functools import partial
from ipaddress import AddressValueError, IPv4Address, IPv6Address, NetmaskValueError, ip_address, ip_network
from typing import Final, NamedTuple

from walflow_kernel.extractors.contract import NO_MATCH, BadExtractor, Extract, of_string, shown

_LONGEST: Final = 50  # characters of the longest address with a length: 0000:…:255.255.255.255/128
_PARTS: Final = {4: 8, 6: 16}  # bits of a number in an address: [192, 168, 0, 1]

Address = IPv4Address | IPv6Address


class _Network(NamedTuple):
    version: int
    prefix: int
    mask: int

    def holds(self, address: Address) -> bool:
        return self.version == address.version and int(address) & self.mask == self.prefix


def extractor(argument: str) -> Extract:
    networks = [_network(text.strip()) for text in argument.split(",")] if argument.strip() else []
    return of_string(partial(_within, networks) if networks else _any)


def _network(text: str) -> _Network:
    if not _is_plain(text):
        raise BadExtractor(f"`{shown(text)}` is no network: write `10.0.0.0/8` or `fd00::/8`")
    try:
        found = ip_network(text)
    except (AddressValueError, NetmaskValueError):
        raise BadExtractor(f"`{shown(text)}` is no network: write `10.0.0.0/8` or `fd00::/8`") from None
    except ValueError:
        try:
            whole = ip_network(text, strict=False)
        except ValueError:
            raise BadExtractor(f"`{shown(text)}` is no network: write `10.0.0.0/8` or `fd00::/8`") from None
        raise BadExtractor(f"`{text}` is an address within a network: do you mean `{whole}`?") from None
    return _Network(found.version, int(found.network_address), int(found.netmask))


def _within(networks: list[_Network], text: str) -> object:
    if not _is_plain(text):
        return NO_MATCH
    try:
        address = ip_address(text)
    except ValueError:
        return NO_MATCH
    if not any(network.holds(address) for network in networks):
        return NO_MATCH
    return _record(address.version, int(address), (1 << address.max_prefixlen) - 1)


def _any(text: str) -> object:
    if not _is_plain(text):
        return NO_MATCH
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        return NO_MATCH
    return _record(found.version, int(found.network_address), int(found.netmask))


def _is_plain(text: str) -> bool:
    """Python also accepts a mask instead of a length, and the name of an interface."""
    if len(text) > _LONGEST or "%" in text or not text.isascii():
        return False
    _, slash, length = text.partition("/")
    return not slash or (length.isdecimal() and len(length) <= 3)


def _record(version: int, prefix: int, mask: int) -> dict[str, object]:
    return {"prefix": _parts(version, prefix), "mask": _parts(version, mask)}


def _parts(version: int, number: int) -> list[int]:
    bits = _PARTS[version]
    whole = 32 if version == 4 else 128
    return [number >> at & (1 << bits) - 1 for at in range(whole - bits, -1, -bits)]
