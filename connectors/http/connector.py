"""The connectors: their keys, and what runs with them."""

from connectors.http.client import HttpClientKeys
from connectors.http.client_run import HttpClientRun
from connectors.http.server import HttpServerKeys
from connectors.http.server_run import HttpServerRun
from walflow import Inlet, Outlet
from walflow.net import Address, listen_tcp, warn_if_open


class HttpClient(HttpClientKeys):
    """A sink that sends each event, or a batch of events, as an HTTP request. With `responses` it is the source of
    the answers too. Redirects are not followed, and no proxy is used, also if the environment names one.

    What each answer means for the events is [below](#answers-that-http_client-gets)."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await HttpClientRun(self, inlet, out).run()


class HttpServer(HttpServerKeys):
    """A source of HTTP requests. The body of a POST, PUT or PATCH is one event or many, and is answered once they are
    acked: by the log behind the connector, or by every sink behind it if there is no log. The path, any, is metadata.

    Where something is linked to `in`, the flow makes the answers: an event that comes back is the answer of its
    request. Then GET and DELETE are taken too.

    [All answers](#answers-of-http_server) are below, with what each means for the events, and [the
    metadata](#metadata) of an event."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        for warning in self.guarantee(behind_log=False).warnings:
            out.log.warning("insecure", reason=warning)
        if self.token is not None:
            self.token.read()  # better now than at the first client
            if self.token.file is not None:
                warn_if_open(self.token.file, "token", out.log)
        out.max_event_bytes = self.max_event_bytes
        out.window = max(out.window, 2 * self.max_body_bytes)
        serving = HttpServerRun(self, inlet, out)
        sockets = listen_tcp(self.address, self.backlog, self.socket_options)
        listening = Address(self.address.host, int(sockets[0].getsockname()[1]))
        out.log.info("listening", address=str(listening), tls=self.tls is not None)
        await serving.run(sockets)
