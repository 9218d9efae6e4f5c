"""What a story must have come to: each event that a client got acked has the outcomes that the flow owes, once where
nothing was started again; and no good event was given up."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tests.simulation.flows import BROKERS, DEAD, NEAR, Shape
from tests.simulation.story import TROUBLES, Broken, Story
from walflow.testing.simulation.ends import ClientLedger, Outside
from walflow.testing.simulation.wires import WireClient
from walflow.testing.simulation.writers import CALM

CALM_STEPS: Final = {"wait", "until", "well", "clear", "reload"}


def unsynced(story: Story, peer: str) -> bool:
    """Without a log a file is not synced, and a power cut takes from it what it will."""
    cut = any(step.what == "cut" for step in story.steps)
    return story.shape.exit(peer) == "file" and not story.shape.has_log and cut


class Judge:
    """`lives`: how many processes there were. `dropped`: events that were rejected where nothing is linked to err.
    `warned`: a log has said that what it has may come twice. `kept`: letters, by sink, client and event. `given_up`:
    some of them were."""

    def __init__(
        self,
        story: Story,
        outside: Outside,
        lives: int,
        dropped: int,
        *,
        warned: bool = False,
        kept: Mapping[tuple[str, str, int], int] = MappingProxyType({}),
        given_up: bool = False,
    ) -> None:
        self.story = story
        self.outside = outside
        self.lives = lives
        self.dropped = dropped
        self.warned = warned
        self.kept = kept
        self.given_up = given_up

    def judge(self) -> None:
        shape = self.story.shape
        self._judge_letters()
        self._judge_what_clients_saw()
        if self.story.then is not None:
            self._judge_changed(shape, self.story.then)
            return
        uncounted = self.dropped if not shape.err and (self.given_up or not shape.keeps_letters) else 0
        if self.lives > 1 and "memory" in shape.between:  # what it had acked ended with the process
            return
        for name, client in self.outside.clients.items():
            for number in range(client.wants):
                for owed in shape.owes_alive(number) if self.lives == 1 else shape.owes(number):
                    if any(unsynced(self.story, peer) for peer in owed):
                        continue
                    self._judge_once(client, number, owed)
                    wanted = min(shape.times(peer) for peer in owed)
                    got = sum(self.outside.peers[peer].got[name, number] for peer in owed)
                    letters = self._letters(owed, name, number)
                    if got + letters * wanted >= wanted:  # a letter is about all that was made of the event
                        if self._once(client, number, owed) and (got > wanted or letters > wanted):
                            raise Broken(f"event {number} of {name} came to {owed} {got} times, {letters} as letters")
                    elif uncounted and self._may_be_given_up(number):
                        uncounted -= 1
                    else:
                        raise Broken(f"event {number} of {name} came to {owed} {got} times, and as no letter")

    def _judge_what_clients_saw(self) -> None:
        """Where nothing happens but that another process takes over, no client notices. A log that is full is
        something: then there is a 503."""
        story, shape = self.story, self.story.shape
        most = shape.times(NEAR) * shape.clients * story.events * (story.pad + 150)
        room = not (shape.between or "spark" in shape.exits) or shape.chunk * shape.chunks > 2 * most
        if room and not story.chokes and {step.what for step in story.steps} <= CALM_STEPS:
            for client in self.outside.clients.values():
                if isinstance(client, WireClient) and client.troubles:
                    raise Broken(f"{client.name} was refused, cut off or not answered {client.troubles} times")

    def _judge_changed(self, before: Shape, after: Shape) -> None:
        """What both flows owe a peer it has, or there is a letter."""
        if "memory" in before.between:
            return
        for name, client in self.outside.clients.items():
            for number in range(client.wants):
                owed = {peers for peers in before.owes(number) if peers in after.owes(number) and DEAD not in peers}
                for peers in owed:
                    got = sum(self.outside.peers[peer].got[name, number] for peer in peers)
                    letters = self._letters(peers, name, number)
                    dropped = self._may_be_given_up(number) and not (before.err and after.err)
                    if (
                        not got
                        and not letters
                        and not dropped
                        and not any(unsynced(self.story, peer) for peer in peers)
                    ):
                        raise Broken(f"event {number} of {name} never came to {peers}, before or after the change")

    def _judge_once(self, client: ClientLedger, number: int, owed: Sequence[str]) -> None:
        """After kill -9 none comes twice, and to a table whatever dies, if its log has it once."""
        if self._sent_twice(client, number) or self.warned:
            return
        shape, cut = self.story.shape, any(step.what == "cut" for step in self.story.steps)
        for peer in shape.once.intersection(owed):
            if cut and (shape.exit(peer) != "table" or shape.follows):
                continue
            got = self.outside.peers[peer].got[client.name, number]
            if got > 1:
                raise Broken(f"event {number} of {client.name} is {got} times in {peer}")

    def _sent_twice(self, client: ClientLedger, number: int) -> bool:
        """By its client, and not known as the same: a restart forgets the keys of what is delivered."""
        shape = self.story.shape
        keyed = shape.door == "http" and number not in client.doubtful
        known = self.lives == 1 and (keyed or shape.pipeline == "dedupe")
        return (client.sent[number] > 1 and not known) or self._stood_as_files_were_cut or self._came_again

    @property
    def _came_again(self) -> bool:
        """A broker hands on again what has no answer as a connection ends."""
        steps = {step.what for step in self.story.steps}
        return self.story.shape.door in BROKERS and (self.lives > 1 or not steps.isdisjoint(TROUBLES))

    @property
    def _stood_as_files_were_cut(self) -> bool:
        """Twice, while the process was frozen, or its log full: which copy has which lines cannot be told then."""
        frozen = any(step.what == "freeze" and step.value > CALM for step in self.story.steps)
        return self.story.shape.follows and (frozen or bool(self.story.chokes))

    def _once(self, client: ClientLedger, number: int, owed: Sequence[str]) -> bool:
        """Whether each peer gets this event once, at most."""
        shape, steps = self.story.shape, {step.what for step in self.story.steps}
        if self._sent_twice(client, number):
            return False
        wires = any(shape.exit(peer) in ("tcp", "http", "table", *BROKERS) for peer in owed)
        troubled = bool(self.story.chokes) or not steps.isdisjoint({*TROUBLES, "fail"})
        return self.lives == 1 and bool(shape.between) and not (wires and troubled)

    def _judge_letters(self) -> None:
        """What is given up is what no peer could ever take: an outage makes no letter of a good event."""
        for peer in self.outside.peers.values():
            for about, client, number in peer.letters:
                if about and not self._may_be_given_up(number):
                    raise Broken(f"event {number} of {client} was good, and {' and '.join(about)} has given it up")

    def _may_be_given_up(self, number: int) -> bool:
        story = self.story
        # what is under way alone as its peer goes away cannot be told from what ends the connection: of one attempt
        # a coincidence takes all (docs/howto/echo-client.md)
        # so can what failed with a bad one, and then again as its peer had no time
        hasty = any(one and one.attempts == 1 for one in (story.shape, story.then))
        troubles = TROUBLES if "tcp" in story.shape.exits else {"busy"} if story.chokes else set[str]()
        coincides = hasty and any(step.what in troubles for step in story.steps)
        return coincides or number in (*story.poison, *story.chokes)

    def _letters(self, peers: Sequence[str], client: str, number: int) -> int:
        """How often it was told that one of these peers lacks the event."""
        if DEAD not in self.outside.peers:
            return sum(self.kept.get((peer, client, number), 0) for peer in peers)
        letters = self.outside.peers[DEAD].letters
        return sum(
            count
            for (sinks, of, event), count in letters.items()
            if (of, event) == (client, number) and (not sinks or not sinks.isdisjoint(peers))
        )
