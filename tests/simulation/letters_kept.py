"""The letters of the logs of a simulated machine."""

from collections import Counter
from collections.abc import Iterable

from walflow.delivery.letters.outside import LetterGap, seen_letters, sinks_with_letters


def letters_kept(logs: Iterable[str]) -> Counter[tuple[str, str, int]]:
    """By sink, client and number of the event; those that go to their sink again are letters still."""
    found: Counter[tuple[str, str, int]] = Counter()
    for log in logs:
        for sink, directory in sinks_with_letters(log).items():
            for letter in seen_letters(sink, directory):
                if isinstance(letter, LetterGap):
                    continue
                event = letter.value()
                assert isinstance(event, dict)
                numbers = event.get("ns", [event["n"]] if "n" in event else [])
                found.update((sink, str(event["from"]), number) for number in numbers)
    return found
