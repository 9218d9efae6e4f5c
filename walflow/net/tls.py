"""TLS settings of a flow file as SSL contexts, and messages for handshakes that fail."""

import ipaddress
import math
import ssl
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from walflow.contract import Half
from walflow.errors import WalflowError
from walflow.net.files import LARGEST, held, read_plain, warn_if_open
from walflow.net.secrets import Secret
from walflow.net.validity import Validity, validity_of
from walflow.world import wall_ns

MinVersion = Literal["1.2", "1.3"]

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class BadCertificate(WalflowError):
    """A certificate or key of ours cannot be used. The line names the file."""


class _Tls(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    key_password: Secret | None = Field(default=None, description="The password of an encrypted private key.")
    min_version: MinVersion = Field(default="1.2", description="The oldest TLS version that is accepted.")


class ServerTls(_Tls):
    cert: str = Field(
        min_length=1, description="PEM file with the certificate, then the certificates that signed it."
    )
    key: str = Field(min_length=1, description="PEM file with its private key.")
    client_ca: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file with certificate authorities. Clients then need a certificate signed by one of them.",
    )
    client_names: tuple[str, ...] = Field(
        default=(),
        description="Accepts only clients whose certificate has one of these names as subjectAltName: a DNS name, or "
        "`URI:…`, `IP:…` or `email:…` for a name of that type.",
    )

    @model_validator(mode="after")
    def _names_need_certificates(self) -> Self:
        if self.client_names and self.client_ca is None:
            raise ValueError(
                "client_names needs client_ca: name the file of the authorities that sign the clients' certificates"
            )
        return self

    def context(self) -> ssl.SSLContext:
        """Raises WalflowError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _restrict(context, self.min_version)
        _load_pair(context, self.cert, self.key, self.key_password)
        if self.client_ca is not None:
            _load_authorities(context, self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


class ClientTls(_Tls):
    cafile: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file with certificate authorities that may have signed the peer's certificate. Default: the "
        "system's.",
    )
    domain: str | None = Field(
        default=None,
        min_length=1,
        description="The name that the peer's certificate must have. Default: the host in `url`.",
    )
    cert: str | None = Field(
        default=None, min_length=1, description="PEM file with walflow's own certificate, if the peer requires one."
    )
    key: str | None = Field(
        default=None, min_length=1, description="PEM file with its private key. Default: the key is in `cert`."
    )

    @model_validator(mode="after")
    def _key_has_a_certificate(self) -> Self:
        if self.key is not None and self.cert is None:
            raise ValueError("key needs cert: name the file of the certificate too")
        return self

    def context(self) -> ssl.SSLContext:
        """Raises WalflowError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.hostname_checks_common_name = False  # a name is a subjectAltName, or it is none (RFC 9525)
        _restrict(context, self.min_version)
        if self.cafile is not None:
            _load_authorities(context, self.cafile)
        else:
            context.load_default_certs()
        if self.cert is not None:
            _load_pair(context, self.cert, self.key or self.cert, self.key_password)
        return context


class Contexts:
    """`current` is the context for new connections. `reload` reads the files again. If they cannot be read, the
    context of before stays in use. Connections that are open keep theirs in any case. The connector's
    `families` need CERTIFICATE_FAMILIES."""

    def __init__(self, tls: ServerTls | ClientTls, half: Half) -> None:
        """Raises WalflowError."""
        self._tls = tls
        self._log = half.log
        self.reload()
        if tls.cert is not None:
            half.gauge("certificate_expiry_timestamp_seconds", lambda: self._expires)

    def reload(self) -> None:
        """Raises WalflowError; then nothing has changed."""
        self.current = self._tls.context()
        self._look_at_validity()
        key = self._tls.key or self._tls.cert
        if key is not None:
            warn_if_open(key, "private key", self._log, group=True)  # Debian's group ssl-cert reads keys
        if self._tls.key_password is not None and self._tls.key_password.file is not None:
            warn_if_open(self._tls.key_password.file, "key_password", self._log, group=True)

    def _look_at_validity(self) -> None:
        """A certificate that is not valid is used all the same: the peer may take it."""
        self._expires = math.nan
        if self._tls.cert is None or (validity := validity_of_file(self._tls.cert)) is None:
            return
        self._expires = validity.ends
        now = wall_ns() / 1e9
        trouble = validity.trouble(now)
        if trouble:
            self._log.warning("certificate not valid", file=self._tls.cert, reason=trouble)
        elif validity.ends_soon(now):
            self._log.warning(
                "certificate expires soon", file=self._tls.cert, days=round((validity.ends - now) / 86_400, 1)
            )

    def renew(self) -> None:
        """`reload`, and a log line with its result."""
        try:
            self.reload()
        except WalflowError as error:
            self._log.error("certificates not reloaded", error=str(error))
        else:
            self._log.info("certificates reloaded")


def validity_of_file(cert: str) -> Validity | None:
    """Of a file whose certificate OpenSSL has taken. None: it is not known."""
    try:
        return validity_of(read_plain(cert, LARGEST).decode(errors="replace"))
    except (OSError, ValueError):
        return None


def _restrict(context: ssl.SSLContext, oldest: MinVersion) -> None:
    context.minimum_version = _VERSIONS[oldest]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _load_pair(context: ssl.SSLContext, cert: str, key: str, password: Secret | None) -> None:
    # without a callable OpenSSL asks for the password of an encrypted key on the terminal
    secret = password.read().get_secret_value() if password else ""
    with _held(cert) as cert_file, _held(key) as key_file:
        try:
            context.load_cert_chain(cert_file, key_file, lambda: secret)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise BadCertificate(f"cannot use certificate {cert} with key {key}: {_of_pair(error)}") from None


def _of_pair(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "they do not belong together"
    if reason in {None, "BAD_DECRYPT", "BAD_PASSWORD_READ", "PEM_LIB"}:
        return "one of them is damaged, or the key_password is wrong or missing"
    return _words(str(reason))


def _load_authorities(context: ssl.SSLContext, path: str) -> None:
    with _held(path) as file:
        try:
            context.load_verify_locations(file)
        except (ssl.SSLError, OSError):
            raise BadCertificate(f"{path} holds no certificates") from None


@contextmanager
def _held(path: str) -> Generator[str]:
    """Names the file in the error, because OpenSSL's own errors do not."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(held(path))
        except OSError as error:
            raise BadCertificate(f"cannot read {path}: {error.strerror}") from None
        yield file


# what `getpeercert` calls the types of subjectAltNames, and what stands before one in `client_names`
_PREFIXES: Final = {"DNS": "", "URI": "URI:", "IP Address": "IP:", "email": "email:"}


def check_name(peer: ssl.SSLObject, allowed: tuple[str, ...]) -> str | None:
    """The reason why this client is refused although its certificate is valid. None: the client is accepted."""
    names = _alternative_names(peer)
    if not allowed or not names.isdisjoint(map(_canonical, allowed)):
        return None
    return f"its certificate is for {', '.join(sorted(names)) or 'no name'}, which is not among client_names"


def _alternative_names(peer: ssl.SSLObject) -> set[str]:
    certificate = peer.getpeercert() or {}
    found = certificate.get("subjectAltName", ())
    assert isinstance(found, tuple)
    return {_canonical(f"{_PREFIXES[kind]}{name}") for kind, name, *_ in found if kind in _PREFIXES}


def _canonical(name: str) -> str:
    """A name of one type never equals one of another: who may ask a CA for an e-mail address of theirs may not call
    itself a host by it."""
    prefix, _, rest = name.partition(":")
    if prefix == "IP":
        try:
            return f"IP:{ipaddress.ip_address(rest)}"
        except ValueError:
            return name
    return name if prefix in {"URI", "email"} else name.removeprefix("DNS:").lower()


_PLAIN: Final = {
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "WRONG_VERSION_NUMBER",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
}
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate, and client_ca requires one",
    "UNSUPPORTED_PROTOCOL": "its TLS is older than min_version",
    "NO_PROTOCOLS_AVAILABLE": "its TLS is older than min_version",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it requires another version of TLS",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the authority that signed our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refuses our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it refuses our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "to it, our certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "to it, our certificate is revoked",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it refuses certificates of our kind",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "it has no cipher in common with us, or requires something that we lack",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it requires a client certificate from us",
    "TLSV1_ALERT_ACCESS_DENIED": "it refuses our certificate",
}


def describe(error: ssl.SSLError) -> str:
    """The reason why a handshake failed, for one log line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    reason = error.reason or ""
    if reason in _PLAIN:
        return "it does not speak TLS"
    return _REASONS.get(reason) or (_words(reason) if reason else str(error))


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
