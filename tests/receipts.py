"""What tests ask of receipts."""

from walflow.receipt import Delivered, Receipt, all_of


def known(count: int, *names: str) -> Delivered | None:
    """That these receivers have all `count` events."""
    return Delivered(dict.fromkeys(names, all_of(count)), {}) if names else None


def had_by(receipt: Receipt) -> set[str]:
    """Who has all of its events; of a receipt that is settled."""
    return {name for name, bits in receipt.outcome().has.items() if bits == all_of(receipt.count)}
