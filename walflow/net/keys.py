"""Keys that several connectors have, with one text each. A connector gives the default:

tls: TlsToPeer = False
"""

from typing import Annotated

from pydantic import Field

from walflow.net.reconnect import Reconnect
from walflow.net.secrets import Secret
from walflow.net.sockets import SocketOptions
from walflow.net.tls import ClientTls

TlsToPeer = Annotated[
    bool | ClientTls,
    Field(
        description="TLS to the peer: `true` for the system's certificate authorities, or a record with the keys "
        "below. A `url` that says TLS (https://, wss://, mqtts://) needs no more than that."
    ),
]
TcpOptions = Annotated[SocketOptions, Field(description="Options of the socket, with tremor's names.")]
ReconnectKeys = Annotated[
    Reconnect,
    Field(
        description=(
            'How long to wait until the next try, with tremor\'s keys: `{"retry": {…}}`. Default: '
            "it tries without end."
        )
    ),
]
BearerToken = Annotated[
    Secret | None,
    Field(
        description='The bearer token of the header `Authorization: Bearer …`, as `{"file": …}`. A client sends it, '
        "a server requires it. It is read at each connection or request, so the file may change."
    ),
]
