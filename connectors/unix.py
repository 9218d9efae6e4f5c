"""Unix domain sockets, for processes on one machine. The permissions of the socket file say who may connect."""

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from walflow import Claim, Guarantee, Inlet, Need, Outlet
from walflow.net import (
    SENT_TO_CLIENTS,
    ClientConnector,
    Connection,
    ServerConnector,
    StreamClient,
    StreamServer,
    UnixListener,
    acks_of,
    check_socket_path,
    to_make_socket,
    to_reach_socket,
)

LOOK: Final = 1.0  # seconds between looks at the socket file


def _possible(path: str) -> str:
    check_socket_path(path)
    return path


SocketPath = Annotated[str, AfterValidator(_possible)]


class UnixSocketServer(ServerConnector):
    """A source of what its clients send, and a sink that sends each client its own events back."""

    path: SocketPath = Field(
        description="The socket file, at most 107 bytes long. A socket file that a dead process left is replaced. If "
        "the file is removed, walflow makes it again within a second. walflow removes it when it stops.",
    )
    permissions: str = Field(
        default="=600", pattern=r"^(=|0o)?[0-7]{3,4}$", description="Permissions of the file: `=600`, or octal."
    )

    def claims(self) -> Sequence[Claim]:
        return (Claim("socket", os.path.realpath(self.path)),)

    def needs(self) -> Sequence[Need]:
        return (to_make_socket(self.path),)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="what a client has sent is safe once a log has acked it. The socket itself does not tell the "
            "client; an echo sent from below the log does",
            sink=SENT_TO_CLIENTS,
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        server = StreamServer(self, inlet, out, self._meta, place=f"unix_socket_server {self.path}")
        file = UnixListener(self.path, self.mode, self.backlog)
        out.log.info("listening", address=self.path)
        serving = asyncio.ensure_future(server.serve([file.socket]))
        try:
            await self._keep(file, server, serving, out)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            file.remove()

    async def _keep(
        self, file: UnixListener, server: StreamServer, serving: "asyncio.Future[None]", out: Outlet
    ) -> None:
        """Looks once a second whether clients can still find the socket, and makes the file again if they cannot.
        Raises CannotListen if the file cannot be made: then the run ends, and the daemon is not ready until the file
        is there."""
        before: socket.socket | None = None
        while not (await asyncio.wait([serving], timeout=LOOK))[0]:
            if before is not None and server.listener is not None:
                server.listener.drop(before)  # clients that waited there have been accepted since
                before = None
            if server.listener is not None and not file.is_there():
                out.log.warning(
                    "socket file is gone",
                    path=self.path,
                    advice="clients could not find it; walflow has made it again",
                )
                before = file.renew()
                server.listener.add(file.socket)
                out.log.info("listening", address=self.path)
        await serving

    @property
    def mode(self) -> int:
        return int(self.permissions.removeprefix("=").removeprefix("0o"), 8)

    def _meta(self, peer: object) -> Mapping[str, object]:
        return {"unix_socket_server": {"path": self.path}}


class UnixSocketClient(ClientConnector):
    """A sink that writes to a peer, and a source of what the peer writes: both halves of one connection."""

    path: SocketPath = Field(description="The peer's socket file. Its path has 107 bytes at most.")

    def needs(self) -> Sequence[Need]:
        return (to_reach_socket(self.path),)

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        async def connect(connection: Connection) -> None:
            await asyncio.get_running_loop().create_unix_connection(lambda: connection, self.path)

        meta = {"unix_socket_client": {"path": self.path}}
        acks = acks_of(self, inlet, out.scheduler.awake)
        await StreamClient(
            self, inlet, out, peer=self.path, meta=meta, connect=connect, acks=acks, reads_answers=self.ack == "echo"
        ).run()
