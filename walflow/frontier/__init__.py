"""The frontier: what a receiver with transactions has of a log. It stands in the receiver, and changes in the same
commit as the rows. So each position of a log is in the receiver once, whatever dies.

Read in this order:

    value.py       `Frontier`, what is stored, and how it grows with a commit
    keys.py        what the log's directory keeps of a receiver: the writer's tokens, and what it has confirmed
    judge.py       may a writer go on from it? Did the log or the receiver go back, is there another writer?
    acceptance.py  what the log sends once an operator accepts that
    writer.py      the steps of a writer, as a generator that asks: look, take, keep

The receiver of `connectors.sqlite` is the example. docs/decisions/0051-the-frontier.md has the reasons.
"""

from walflow.frontier.judge import Fits, LogView, LogWentBack, OtherWriter, ReceiverWentBack, judged
from walflow.frontier.keys import Accepts, KeptFrontiers, NotReadable, RefusedOpening, WriterKeys
from walflow.frontier.value import Confirmed, Frontier, FrontierBatch
from walflow.frontier.writer import (
    RENEWED,
    Begin,
    FrontierRefused,
    FrontierTaken,
    Keep,
    Put,
    ReadFrontier,
    Rest,
    Step,
    Take,
    after_lost_token,
    opening,
    refused,
    told,
)

__all__ = [
    "RENEWED",
    "Accepts",
    "Begin",
    "Confirmed",
    "Fits",
    "Frontier",
    "FrontierBatch",
    "FrontierRefused",
    "FrontierTaken",
    "Keep",
    "KeptFrontiers",
    "LogView",
    "LogWentBack",
    "NotReadable",
    "OtherWriter",
    "Put",
    "ReadFrontier",
    "ReceiverWentBack",
    "RefusedOpening",
    "Rest",
    "Step",
    "Take",
    "WriterKeys",
    "after_lost_token",
    "judged",
    "opening",
    "refused",
    "told",
]
