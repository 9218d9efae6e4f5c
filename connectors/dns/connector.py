"""The connectors: their keys, and what runs with them."""

from connectors.dns.client import DnsClientKeys
from connectors.dns.client_run import DnsClientRun
from walflow import Inlet, Outlet


class DnsClient(DnsClientKeys):
    """A sink that looks up the name in `$dns.lookup` of each event, and the source of the answers."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await DnsClientRun(self, inlet, out).run()
