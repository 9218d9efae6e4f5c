"""What connectors on a network share."""

from walflow.net.address import Address, parse_address

__all__ = ["Address", "parse_address"]
