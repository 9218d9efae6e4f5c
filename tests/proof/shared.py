"""`python -m tests.proof.shared`: how much of what a soak calls distinct is the same in several stories. Stories
differ by their events, so what is there before the first one they have in common."""

from random import Random
from typing import Annotated, Final

import typer

from tests.proof.proof import Proof
from tests.proof.soak import sources_of

SOURCES: Final = {
    "generated": ("tests.proof.stories", 240, 60),
    "scripted": ("tests.proof.scripts", 240, 60),
    "laned": ("tests.proof.laned", 240, 60),
    "import": ("tests.proof.imports", 240, 60),
    "sidecar": ("tests.proof.sidecar", 24, 12),
}


def shared(only: Annotated[str, typer.Option(help="This source alone.")] = "") -> None:
    """Of the last stories' images, how many had been seen in those before."""
    for source, (module, before, then) in SOURCES.items():
        if only in ("", source):
            seen: set[int] = set()
            for seed in range(before):
                seen |= _images(module, source, seed)
            last = [_images(module, source, seed) for seed in range(before, before + then)]
            share = sum(len(images & seen) for images in last) / sum(map(len, last))
            typer.echo(f"{source}: {share:.1%} of {then} stories' images had been seen in {before} others")


def _images(module: str, source: str, seed: int) -> set[int]:
    images: set[int] = set()
    Proof(sources_of(module)[source](seed), Random(seed), images).run()
    return images


if __name__ == "__main__":
    typer.run(shared)
