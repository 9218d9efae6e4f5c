"""The connectors: their keys, and what runs with them."""

from connectors.ws.client import WsClientKeys
from connectors.ws.client_connection import WsConnection
from walflow import Inlet, Outlet
from walflow.net import Dial, StreamClient


class WsClient(WsClientKeys):
    """A client of one peer. As a sink, it sends events as messages. As a source, it reads the peer's messages from
    the same connection."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        tls = self._tls()
        acks = self._acks(inlet, out)
        dial = Dial(self.address, tls, self.socket_options, out)
        inlet.on_reopen(dial.reload)
        peer = {"host": self.address.host, "port": self.address.port}
        await StreamClient(
            self,
            inlet,
            out,
            peer=str(self.address),
            meta={"ws_client": {"tls": tls is not None, "peer": peer}},
            connect=dial.connect,
            acks=acks,
            reads_answers=self.ack != "written",
            connection=lambda client: WsConnection(client, self, acks),
        ).run()
