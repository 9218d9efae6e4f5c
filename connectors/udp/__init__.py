"""UDP: best effort by its nature. What can be known of the datagrams that are lost is counted and said."""

from connectors.udp.client import UdpClient
from connectors.udp.server import UdpServer

__all__ = ["UdpClient", "UdpServer"]
