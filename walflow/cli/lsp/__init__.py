"""`walflow lsp`: a language server for editors, over stdin and stdout.

`server` speaks the protocol, by pygls. What it asks is here without the protocol, so that a test needs no server:
`examine` is `walflow check` of a text that may not be saved, `edited` is that text with its tokens and its tree,
`pointed` says what stands at a place of it, and `hover`, `complete` and `goto` answer from that.
"""

import typer

from walflow.exit_codes import EX_UNAVAILABLE
from walflow.extras import lacks


def lsp() -> None:
    """Run a language server for flow files, on stdin and stdout. An editor starts it: see docs/howto/editor.md."""
    try:
        from walflow.cli.lsp.server import serve
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in {"pygls", "lsprotocol"}:
            raise
        typer.echo(f"walflow: {lacks('the language server', 'lsp')}", err=True)
        raise typer.Exit(EX_UNAVAILABLE) from None
    serve()
