from typing import Final

from walflow.warnings import WarningKind

OPEN_TO_NETWORK: Final = WarningKind(
    "open-to-network", "A listener has no TLS, or a token goes over the network without TLS."
)
