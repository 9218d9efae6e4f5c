"""What recovery tells beside lost positions and torn writes."""

from typing import NamedTuple


class Note(NamedTuple):
    """`file` is empty where it is about the whole directory. `damage`: no crash explains it. `stays`: a start changes
    nothing about it, the next one will find it again."""

    file: str
    what: str
    damage: bool = True
    stays: bool = False

    def __str__(self) -> str:
        return f"{self.file} {self.what}" if self.file else self.what
