"""The nodes between a sink and the letters of a log before it. An event that the sink rejects comes to the log. A
letter that a user sends again comes to the sink."""

from typing import Final

from walflow.contract import LetterKeeper
from walflow.errors import LettersShut
from walflow.event import Block, Codec, Node
from walflow.nodes.rejects import ErrPort
from walflow.nodes.run_context import RunContext
from walflow.nodes.source import RunOutlet, SourceNode
from walflow.plan import NodeId

LETTERS: Final = "letters"


class SinkLetters:
    """It outlives the runs of its log. `to`: the sink, whose port `err` is."""

    def __init__(
        self, log: str, sink: NodeId, to: Node, err: ErrPort, codec: Codec, *, gives_up: bool, straight: bool
    ) -> None:
        self.id = sink
        self.receiver = str(sink)
        self.gives_up = gives_up
        self.straight = straight
        self.sink = sink.name
        self.name = f"{log}/{LETTERS}/{sink.name}"
        self.source = SourceNode(self.name, to, err, codec, transactional=True)
        self.keeper: LetterKeeper | None = None  # of the log's present run

    def __repr__(self) -> str:
        return f"<SinkLetters {self.name}>"

    @property
    def out(self) -> RunOutlet:
        """Of the present run."""
        assert self.source.outlet is not None
        return self.source.outlet

    def begin(self, context: RunContext) -> None:
        self.source.begin(context)

    def serve(self, keeper: LetterKeeper) -> None:
        self.keeper = keeper

    def end(self) -> None:
        self.keeper = None
        self.source.end()

    def takes(self, log: str) -> bool:
        """Whether the events of that log belong here."""
        return self.keeper is not None and log in self.keeper.logs

    def accept(self, block: Block) -> None:
        """A copy of a block that was rejected, as `LetterKeeper.keep` has it."""
        for part in block.lacked_by(self.name):
            if self.keeper is None:
                part.receipt.fail(LettersShut(f"{self.name} are not open"), sink=self.name)
            else:
                self.keeper.keep(part)
