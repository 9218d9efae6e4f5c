"""What all requests together may hold: bodies that are being read, and events that are not acked yet.

A client that sends its body slowly must not keep the others out. So where there is no room, the request that has been read
longest makes it: a good client's body is there soon.
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

    @property
    def full(self) -> bool:
        """No request that is being read could make room."""
        return self.held >= self.limit and not self._reading

    def begin(self, size: int, give_up: Callable[[HttpRefusal], None]) -> "BodyReading":
        """`size`: what it holds from the start. `give_up`: ends the reading. Raises HttpRefusal."""
        reading = BodyReading(self, give_up)
        reading.add(size)
        self._reading[reading] = None
        return reading

    def make_room(self, reading: "BodyReading") -> None:
        """Raises HttpRefusal."""
        while self.held > self.limit:
            oldest = next(iter(self._reading), reading)
            if oldest is reading:
                raise _no_room()
            self._reading.pop(oldest)
            oldest.release()
            oldest.give_up(_no_room())

    def is_read(self, reading: "BodyReading") -> None:
        self._reading.pop(reading, None)


class BodyReading:
    """One request's part. It ends with `release`."""

    def __init__(self, memory: RequestMemory, give_up: Callable[[HttpRefusal], None]) -> None:
        self.give_up = give_up
        self._memory = memory
        self._size = 0
        self._released = False

    def add(self, size: int) -> None:
        """Raises HttpRefusal."""
        if self._released:  # it made room for others
            raise _no_room()
        self._size += size
        self._memory.held += size
        if self._memory.held > self._memory.limit:
            self._memory.make_room(self)

    def is_read(self) -> None:
        """It makes no room for others any more."""
        self._memory.is_read(self)

    def release(self) -> None:
        self._memory.is_read(self)
        self._released = True
        self._memory.held -= self._size
        self._size = 0


def _no_room() -> HttpRefusal:
    return HttpRefusal(
        503, "the requests that are being read or not acked yet take all of the window", later=True, closes=True
    )
