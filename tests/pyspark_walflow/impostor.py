"""A daemon that proves its token and then says what a test wants: what no sound one ever does."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from pyspark_walflow import wire
from pyspark_walflow.wire import FrameKind, WireKey

LOG = "0" * 32
Answers = Callable[[FrameKind, dict[str, object]], bytes]  # frames
TOKEN = "a token"
HANG_UP = b"(and hangs up)"  # at the end of an answer


@contextmanager
def impostor(answer: Answers) -> Iterator[int]:
    """The port."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, answer, ended))
        thread.start()
        port = int(listener.getsockname()[1])
        try:
            yield port
        finally:
            ended.set()
            socket.create_connection(("127.0.0.1", port)).close()
            thread.join()


def _serve(listener: socket.socket, answer: Answers, ended: threading.Event) -> None:
    threads: list[threading.Thread] = []
    while True:
        peer, _ = listener.accept()
        if ended.is_set():
            peer.close()
            break
        threads.append(threading.Thread(target=_converse, args=(peer, answer)))
        threads[-1].start()
    for thread in threads:
        thread.join()


def _converse(peer: socket.socket, answer: Answers) -> None:
    with peer, peer.makefile("rb") as received:
        try:
            received.read(len(wire.PREFACE))
            _, hello = _frame(received)
            right = str(hello["right"])
            key = WireKey.of_token(TOKEN) if right == "full" else WireKey.of_token(TOKEN).ticket(right, LOG)
            peer.sendall(wire.control(FrameKind.CHALLENGE, {"nonce": "b" * 32}))
            _frame(received)
            proof = wire.prove(key, "server", "b" * 32, str(hello["nonce"]))
            peer.sendall(wire.control(FrameKind.WELCOME, {"log": LOG, "proof": proof}))
            while not (frames := answer(*_frame(received))).endswith(HANG_UP):
                peer.sendall(frames)
            peer.sendall(frames.removesuffix(HANG_UP))
        except (EOFError, ConnectionError):
            pass


def _frame(received: IO[bytes]) -> tuple[FrameKind, dict[str, object]]:
    header = received.read(wire.HEADER.size)
    if len(header) < wire.HEADER.size:
        raise EOFError
    size, _, kind = wire.HEADER.unpack(header)
    return FrameKind(kind), wire.fields_of(received.read(size))
