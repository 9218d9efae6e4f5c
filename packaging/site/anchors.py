"""No anchor begins with a digit: the theme's script takes anchors for CSS selectors, and ends on such a page."""

from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.mdx_configs.setdefault("toc", {})["slugify"] = _anchor
    return config


def _anchor(text: str, separator: str) -> str:
    anchor = slugify(text, separator)
    return anchor if anchor[:1].isalpha() else f"page{separator}{anchor}"
