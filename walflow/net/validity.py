"""From when to when a certificate of ours is valid. Python tells it of a peer's certificate alone."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

VERSION: Final = 0xA0  # of a certificate; version 1 has none
BEFORE_VALIDITY: Final = 3  # serial number, algorithm, issuer
UTC_TIME: Final = 0x17  # the other kind is GeneralizedTime
CENTURY: Final = 2050  # from here on years have four digits (RFC 5280, 4.1.2.5.1)
LONG_FORM: Final = 0x80
SOON: Final = 0.1  # of its whole time


class Validity(NamedTuple):
    """Seconds since 1970."""

    begins: float
    ends: float

    def trouble(self, now: float) -> str:
        """Why it is not valid now; "": it is."""
        if now < self.begins:
            return f"it is not valid before {_day(self.begins)}"
        if now >= self.ends:
            return f"it has expired on {_day(self.ends)}"
        return ""

    def ends_soon(self, now: float) -> bool:
        return self.ends - now < SOON * (self.ends - self.begins)


def validity_of(pem: str) -> Validity:
    """Of the first certificate of a PEM file (RFC 5280, 4.1: Certificate, TBSCertificate, Validity).
    Raises ValueError if it is none."""
    start = pem.find(ssl.PEM_HEADER)
    end = pem.find(ssl.PEM_FOOTER, start) + len(ssl.PEM_FOOTER)
    try:
        (_, certificate), *_ = _fields(ssl.PEM_cert_to_DER_cert(pem[start:end]))
        (_, signed), *_ = _fields(certificate)
        fields = list(_fields(signed))
        _, validity = fields[BEFORE_VALIDITY + (fields[0][0] == VERSION)]
        begins, ends = (_time(kind, text.decode("ascii")) for kind, text in _fields(validity))
    except (IndexError, ValueError):
        raise ValueError("it is no certificate") from None
    return Validity(begins, ends)


def _fields(der: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the content of each value (X.690, 8.1: identifier, length, contents)."""
    at = 0
    while at < len(der):
        kind, length, start = der[at], der[at + 1], at + 2
        if length & LONG_FORM:
            start += length & ~LONG_FORM
            length = int.from_bytes(der[at + 2 : start])
        at = start + length
        yield kind, der[start:at]


def _time(kind: int, text: str) -> float:
    time = datetime.strptime(text, "%y%m%d%H%M%SZ" if kind == UTC_TIME else "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    if kind == UTC_TIME and time.year >= CENTURY:
        time = time.replace(year=time.year - 100)
    return time.timestamp()


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
