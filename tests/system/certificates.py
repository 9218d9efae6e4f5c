"""Authorities, certificates and keys for a test, in its directory."""

import ssl
from datetime import datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._ca = trustme.CA()
        self.file = str(directory / f"{name}.pem")
        self._ca.cert_pem.write_to_path(self.file)

    def issue(
        self,
        name: str,
        *identities: str,
        password: str | None = None,
        not_before: datetime | None = None,
        not_after: datetime | None = None,
    ) -> dict[str, str]:
        """`cert` and `key`, as flow files have them."""
        certificate = self._ca.issue_cert(*(identities or (name,)), not_before=not_before, not_after=not_after)
        cert, key = self._directory / f"{name}.cert", self._directory / f"{name}.key"
        cert.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        pem = certificate.private_key_pem.bytes()
        if password is not None:
            encrypted = BestAvailableEncryption(password.encode())
            private = load_pem_private_key(pem, None)
            pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encrypted)
        key.write_bytes(pem)
        return {"cert": str(cert), "key": str(key)}

    def client_context(self, own: dict[str, str] | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.file)
        if own is not None:
            context.load_cert_chain(own["cert"], own["key"])
        return context
