"""Volume is a cost: what people wrote in docs/ stays below a number of words."""

from tests.docs.pages import DOCS
from tests.docs.pages.connectors import BY_HAND
from tests.docs.words import MOST, by_people, counted, written


def test_the_pages_keep_to_their_words() -> None:
    assert by_people() <= MOST, f"{counted()}: cut or merge a page; `python -m tests.docs.words` counts"


def test_only_what_a_person_wrote_counts() -> None:
    assert "make pages" not in written(DOCS / "reference" / "metrics.md")
    page = DOCS / "reference" / "connectors" / "null.md"
    assert written(page).split() == page.read_text("utf-8").partition(BY_HAND)[2].split() != []
    text = written(DOCS / "reference" / "codecs.md")
    assert "**Preprocessors**" in text
    assert "| `msgpack` |" not in text
