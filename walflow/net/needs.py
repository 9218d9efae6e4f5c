"""What connectors on a network need, tried before a start."""

import os
import socket
import ssl
from collections.abc import Sequence
from typing import Final

from walflow.needs import Need, NotAvailable
from walflow.net.address import Address
from walflow.net.secrets import Secret
from walflow.net.sockets import SocketOptions, listen_tcp
from walflow.net.tls import ClientTls, ServerTls, describe, validity_of_file
from walflow.world import handover, wall_ns

PATIENCE: Final = 5.0  # seconds for a peer to answer


def to_listen(address: Address, options: SocketOptions, tls: ServerTls | None = None) -> list[Need]:
    def listen() -> None:
        for sock in listen_tcp(address, 1, options):
            sock.close()

    return [*_certificates(tls), Need(f"listen on {address}", listen)]


def to_reach(address: Address, tls: ClientTls | None = None) -> list[Need]:
    def reach() -> None:
        with socket.create_connection(address, PATIENCE) as sock:
            if tls is not None:
                _shake_hands(sock, address, tls)

    return [*_certificates(tls), Need(f"connect to {address}{' with TLS' if tls else ''}", reach, peer=True)]


def to_reach_one(addresses: Sequence[Address]) -> Need:
    """The need to reach any one of the addresses, without TLS."""

    def reach() -> None:
        failed: list[str] = []
        for address in addresses:
            try:
                socket.create_connection(address, PATIENCE).close()
            except OSError as error:
                failed.append(f"{address}: {error.strerror or error}")
            else:
                return
        raise NotAvailable("; ".join(failed))

    return Need(f"connect to {' or '.join(map(str, addresses))}", reach, peer=True)


def to_reach_socket(path: str) -> Need:
    def reach() -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(path)

    return Need(f"connect to {path}", reach, peer=True)


def to_make_socket(path: str) -> Need:
    """A socket's file, which replaces one that a dead process left."""

    folder = os.path.dirname(os.path.abspath(path))

    def make() -> None:
        if not os.access(folder, os.W_OK | os.X_OK):
            missing = not os.path.isdir(folder)
            raise NotAvailable(
                f"there is no directory {folder}" if missing else f"this user may not write in {folder}"
            )
        handed = handover().handed(f"unix {path}")
        for sock in handed:
            sock.close()
        if handed:
            return
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            try:
                sock.connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                return
        raise NotAvailable("another process listens there")

    return Need(f"listen on {path}", make, folder)


def to_read(secret: Secret | None, what: str) -> list[Need]:
    if secret is None or secret.text is not None:
        return []
    return [Need(f"read the {what}", secret.read)]


def _certificates(tls: ServerTls | ClientTls | None) -> Sequence[Need]:
    if tls is None:
        return []
    files = tls.cert or (tls.cafile if isinstance(tls, ClientTls) else None) or "the system's authorities"

    def read() -> None:
        tls.context()
        validity = validity_of_file(tls.cert) if tls.cert is not None else None
        trouble = validity.trouble(wall_ns() / 1e9) if validity is not None else ""
        if trouble:
            raise NotAvailable(trouble)

    return [Need(f"read the certificates ({files})", read)]


def _shake_hands(sock: socket.socket, address: Address, tls: ClientTls) -> None:
    try:
        tls.context().wrap_socket(sock, server_hostname=tls.domain or address.host).close()
    except ssl.SSLError as error:
        raise NotAvailable(f"TLS: {describe(error)}") from None
