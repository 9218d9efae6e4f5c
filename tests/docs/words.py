"""`python -m tests.docs.words`: the words of docs/ by room. What a program makes counts apart, also within a page."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

from demo.newcomer import PAGE as FIRST_SESSION
from tests.docs.pages import DOCS, PAGES
from tests.docs.pages.connectors import BY_HAND
from tests.release.bare import PAGE as BARE_DEBIAN

MOST: Final = 65_000  # of concepts, how-tos and the reference that people wrote
MADE: Final = re.compile(
    r"<!-- made by `make pages`: (?!end).*?<!-- made by `make pages`: end -->"
    r"|<!-- (?:spark )?rows: begin -->.*?<!-- (?:spark )?rows: end -->",  # by `bench --into`
    re.DOTALL,
)
MARKED: Final = "<!-- made by `make pages`:"
BY_PEOPLE: Final = ("concepts", "howto", "reference, by hand")


def written(page: Path) -> str:
    """Of a page what a person wrote."""
    name, text = str(page.relative_to(DOCS)), page.read_text("utf-8")
    if name in PAGES and MARKED not in text:
        return text.partition(BY_HAND)[2]
    return "" if page in (FIRST_SESSION, BARE_DEBIAN) else MADE.sub("", text)


def counted() -> Counter[str]:
    """Words between spaces, as `wc -w` counts them: examples, tables and links count too."""
    found: Counter[str] = Counter()
    for page in sorted(DOCS.rglob("*.md")):
        room = page.relative_to(DOCS).parts[0]
        every, hand = len(page.read_text("utf-8").split()), len(written(page).split())
        if room in ("decisions", "reference"):
            found["decisions" if room == "decisions" else "reference, by hand"] += hand
        else:
            found["howto" if room == "howto" else "concepts"] += (
                hand  # those at the top: index, tutorial, architecture
            )
        found["made by programs"] += every - hand
    return found


def by_people() -> int:
    found = counted()
    return sum(found[room] for room in BY_PEOPLE)


if __name__ == "__main__":
    for room, words in sorted(counted().items()):
        print(f"{words:7,} {room}")  # noqa: T201
    print(f"{by_people():7,} of at most {MOST:,}: {', '.join(BY_PEOPLE)}")  # noqa: T201
