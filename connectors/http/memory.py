"""What all requests together may hold: bodies that are being read, and events that are not acked yet.

A client that sends its body slowly must not keep the others out. So where there is no room, the request that has been
read longest makes it: a good client's body is there soon.
"""

from collections.abc import Callable

from connectors.http.refusal import HttpRefusal


class RequestMemory:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._reading: dict[BodyReading, None] = {}  # oldest first

    def __repr__(self) -> str:
        return f"<RequestMemory {self.held} of {self.limit} bytes, {len(self._reading)} being read>"

    def begin(self, size: int, give_up: Callable[[HttpRefusal], None]) -> "BodyReading":
        """`size`: what the request holds from the start. `give_up`: called if it has to make room.
        Raises HttpRefusal."""
        reading = BodyReading(self, give_up)
        try:
            reading.add(size)
        except HttpRefusal:
            reading.release()
            raise
        self._reading[reading] = None
        return reading

    def make_room(self, reading: "BodyReading") -> None:
        """Raises HttpRefusal."""
        while self.held > self.limit:
            oldest = next(iter(self._reading), reading)
            if oldest is reading:
                raise _no_room()
            oldest.make_room()

    def is_read(self, reading: "BodyReading") -> None:
        self._reading.pop(reading, None)


class BodyReading:
    """One request's part. It ends with `release`."""

    __slots__ = ("_give_up", "_memory", "_size")

    def __init__(self, memory: RequestMemory, give_up: Callable[[HttpRefusal], None]) -> None:
        self._memory = memory
        self._size = 0
        self._give_up = give_up

    def add(self, size: int) -> None:
        """Raises HttpRefusal."""
        self._size += size
        memory = self._memory
        memory.held += size
        if memory.held > memory.limit:
            memory.make_room(self)

    def is_read(self) -> None:
        """It makes no room for others any more."""
        self._memory.is_read(self)

    def make_room(self) -> None:
        self.release()
        self._give_up(_no_room())

    def release(self) -> None:
        if self._size:
            self._memory.is_read(self)
            self._memory.held -= self._size
            self._size = 0


def _no_room() -> HttpRefusal:
    return HttpRefusal(
        503, "the requests that are being read or not acked yet take all of the window", later=True, closes=True
    )
