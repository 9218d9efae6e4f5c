from walflow.event import Node
from walflow.operators.operator import Operator, Place


class Passthrough(Operator):
    """Hands on what comes, as it is; it costs nothing."""

    def node(self, place: Place) -> Node:
        return place.exits["out"].to
