"""`python -m tests.docs.pages` makes each page anew that is not as the code has it, and names it."""

from tests.docs.pages import DOCS, made, stale

for name in stale():
    (DOCS / name).parent.mkdir(exist_ok=True)
    (DOCS / name).write_text(made(name), "utf-8")
    print(f"docs/{name}")  # noqa: T201  # what was done
