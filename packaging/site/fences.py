"""A fence may say more than its language (````
```troy body ````): that is for the tests of the pages. Markdown would take such a block for a paragraph."""

import re
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

FENCE: Final = re.compile(r"^([ ]*```[a-z]+)[ ]+[^`\n]+$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return FENCE.sub(r"\1", markdown)
