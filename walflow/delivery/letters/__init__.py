"""Letters: what a sink of a log has rejected, kept beside the log, for that sink (decision 0058).

Letter        what a record of them says beside the event
LetterStore   rejected events -> a log of their own, within bounds
LetterRetry         letters that were asked for -> the same log once more, to go
LetterSender  those -> the sink, until each has an outcome
LetterBox     all of it, for one sink
"""

from walflow.delivery.letters.box import LetterBounds, LetterBox, directory_of
from walflow.delivery.letters.letter import LETTER, POSITION, Letter, numbers_of, ranges_of

__all__ = ["LETTER", "POSITION", "Letter", "LetterBounds", "LetterBox", "directory_of", "numbers_of", "ranges_of"]
