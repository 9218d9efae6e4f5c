"""When our own certificate ends, against what the library `cryptography` reads."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given, strategies as st

from tests.system.certificates import Authority
from walflow.net.validity import Validity, validity_of

AUTHORITIES = ssl.get_default_verify_paths().capath or "/etc/ssl/certs"
DAY = 86_400.0
PEM = """\
-----BEGIN CERTIFICATE-----
MIICLjCCAdOgAwIBAgIUNioU4/zoihmLbscnYE8qR2ocoUQwCgYIKoZIzj0EAwIw
QDEXMBUGA1UECgwOdHJ1c3RtZSB2MS4yLjExJTAjBgNVBAsMHFRlc3RpbmcgQ0Eg
I3I3dTJXNjRUWFM2VDdDMDAwIBcNMDAwMTAxMDAwMDAwWhgPMzAwMDAxMDEwMDAw
MDBaMEIxFzAVBgNVBAoMDnRydXN0bWUgdjEuMi4xMScwJQYDVQQLDB5UZXN0aW5n
IGNlcnQgI1d5WkFUTURCSTlCWDNqWDQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AATlzIEmyAmorbiRANFz28XS3cfzrSR5ITrDqTLWYKcOrOEURx5hBNyYVvtqxa8b
oRoY2x/t1pfCA/eOPUPJe26ho4GmMIGjMB0GA1UdDgQWBBQnxzqIfIJN0pQKMfFL
eB8OmsKILDAMBgNVHRMBAf8EAjAAMB8GA1UdIwQYMBaAFE8xyc+PWCNJUiXioX7W
neKx2U5jMBcGA1UdEQEB/wQNMAuCCWxvY2FsaG9zdDAOBgNVHQ8BAf8EBAMCBaAw
KgYDVR0lAQH/BCAwHgYIKwYBBQUHAwIGCCsGAQUFBwMBBggrBgEFBQcDAzAKBggq
hkjOPQQDAgNJADBGAiEAlB/e5+RQd0HSZrLXKFMweO/AY2Qh5sjvAHVZALasAqgC
IQC+chqcwmrZM6GvvLzxGFVcwB5kCGLlTsZj7rYocNJg9Q==
-----END CERTIFICATE-----
"""

pytestmark = pytest.mark.quick


def known(pem: str) -> Validity:
    certificate = load_pem_x509_certificate(pem.encode())
    return Validity(certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def of_authority(file: Path) -> Validity | None:
    """Python tells it of these. None: it is a certificate of another kind."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(file)
    for one in context.get_ca_certs():
        return Validity(*(ssl.cert_time_to_seconds(str(one[name])) for name in ("notBefore", "notAfter")))
    return None


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        ("2020-01-01", "2021-01-01"),
        ("1999-12-31T23:59:59", "2049-12-31T23:59:59"),  # the last one with two digits
        ("2030-02-28", "2050-01-01"),
        ("1950-01-01", "9999-12-31T23:59:59"),  # the first and the last one that there may be
    ],
)
def test_a_certificate_of_each_way_to_write_a_year(tmp_path: Path, begins: str, ends: str) -> None:
    from_, to = datetime.fromisoformat(begins), datetime.fromisoformat(ends)
    made = Authority(tmp_path).issue("localhost", not_before=from_, not_after=to)
    pem = Path(made["cert"]).read_text()
    assert validity_of(pem) == known(pem)
    assert validity_of(pem).ends == to.replace(tzinfo=UTC).timestamp()


def test_the_authorities_of_this_system() -> None:
    known_of = {file: of_authority(file) for file in Path(AUTHORITIES).glob("*.pem")}
    of_authorities = {file: validity for file, validity in known_of.items() if validity is not None}
    assert of_authorities, "apt install ca-certificates"
    assert {file: validity_of(file.read_text()) for file in of_authorities} == of_authorities


@given(st.integers(0, 2000), st.integers(0, 255))
def test_what_is_damaged_is_a_value_error_or_another_time(at: int, byte: int) -> None:
    der = bytearray(ssl.PEM_cert_to_DER_cert(PEM))
    der[at % len(der)] = byte
    with suppress(ValueError):
        validity_of(ssl.DER_cert_to_PEM_cert(bytes(der)))


@given(st.one_of(st.text(), st.binary().map(ssl.DER_cert_to_PEM_cert), st.just(ssl.PEM_HEADER)))
def test_what_is_none_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="it is no certificate"):
        validity_of(text)


@pytest.mark.parametrize(
    ("days", "says", "soon"),
    [
        (-1, "it is not valid before 1970-01-01 00:00 UTC", False),
        (0, "", False),
        (89, "", False),
        (91, "", True),
        (100, "it has expired on 1970-04-11 00:00 UTC", True),
    ],
)
def test_trouble(days: float, says: str, soon: bool) -> None:
    validity = Validity(0, 100 * DAY)
    assert (validity.trouble(days * DAY), validity.ends_soon(days * DAY)) == (says, soon)
