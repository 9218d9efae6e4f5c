"""What `walflow check` prints: as text for people, as one document for programs."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from walflow.cli.promises import PathPromises, Promise, chain
from walflow.contract import risk_name
from walflow.diagnostics import Diagnostic, error, first_of, render
from walflow.exit_codes import EX_CONFIG, EX_FINDINGS
from walflow.lang.allow import WORD
from walflow.plan import Assembly

LONG = 160  # letters of a sentence that is printed once, though several paths have it
_COLOURS = {"error": "bold red", "warning": "bold yellow"}


def sources(assembly: Assembly) -> Iterator[str]:
    """The Python source of each pipeline's selects."""
    for plan in assembly.pipelines:
        for region in plan.regions:
            yield plan.regions.compiled(region.entry).listing


def probe(assembly: Assembly) -> list[Diagnostic]:
    """Mistakes that only a trial finds."""
    return [
        error(
            f"connector `{plan.id}`: {found.message}", plan.settings.get(found.key, plan.defined), found.hint or None
        )
        for plan in assembly.connectors
        for found in plan.connector.probe()
    ]


def exit_code(
    assembly: Assembly | None, diagnostics: Sequence[Diagnostic], promised: PathPromises | None, *, strict: bool
) -> int:
    if assembly is None:
        return EX_CONFIG
    warned = bool(diagnostics) or bool(promised and promised.warnings)
    return EX_FINDINGS if strict and warned else 0


def report(diagnostics: Sequence[Diagnostic], promised: PathPromises | None, *, strict: bool = False) -> list[Text]:
    """The report as lines: coloured on a terminal, with the same words everywhere. `strict`: with the name that
    permits each warning."""
    shown, more = first_of(diagnostics)
    lines = [line for diagnostic in shown for line in (_coloured(diagnostic), *_permit(diagnostic.name, strict))]
    if more:
        lines.append(Text(more))
    if promised:
        said: dict[str, str] = {}
        lines += [line for promise in promised.paths for line in _path(promise, said)]
        if promised.more:
            lines.append(Text(f"and more paths: these are the first {len(promised.paths)}"))
        lines += [Text(sentence) for sentence in promised.stops]
        lines += [
            line
            for node, words in promised.warnings
            for line in (_warning(f"{node}: {words}"), *_permit(risk_name(words), strict))
        ]
        lines += [Text(f"note: {note}") for note in promised.notes]
    lines.append(_summary(diagnostics, promised))
    return lines


def _coloured(diagnostic: Diagnostic) -> Text:
    text = Text(render(diagnostic))
    text.highlight_regex(rf"(?<!\w){diagnostic.severity}:", _COLOURS[diagnostic.severity])
    text.highlight_regex(r"(?m)^ +\| +\^+$", _COLOURS[diagnostic.severity])
    text.highlight_regex(r"(?m)^      = .*$", "cyan")
    return text


def _path(promise: Promise, said: dict[str, str]) -> list[Text]:
    """`said`: long sentences of the paths above, each with the first connector that it was said of."""
    path = promise.path
    lines = [Text.assemble((f"{path.source.flow}: {chain(path)}", "bold"))]
    if promise.source:
        lines.append(Text(f"    {path.source.name}: {_once(promise.source, path.source.name, said)}"))
    if promise.sink:
        lines.append(Text(f"    {path.sink.name}: {_once(promise.sink, path.sink.name, said)}"))
    if promise.once:
        lines.append(Text(f"    {path.sink.name}: {_once(promise.once, path.sink.name, said)}"))
    if promise.dead_letters:
        lines.append(Text(f"    {path.sink.name}: {promise.dead_letters}"))
    lines += [Text(f"    {path.sink.name}: an event may still come twice: {why}") for why in promise.repeats]
    if promise.ends_in:
        lines.append(Text(f"    {path.sink.name} {promise.ends_in}: here one ack domain ends and the next begins"))
    return lines


def _once(sentence: str, name: str, said: dict[str, str]) -> str:
    if len(sentence) < LONG:
        return sentence
    if sentence not in said:
        said[sentence] = name
        return sentence
    return "as above" if said[sentence] == name else f"as {said[sentence]} above"


def _warning(words: str) -> Text:
    return Text.assemble(("warning:", _COLOURS["warning"]), f" {words}")


def _permit(name: str, strict: bool) -> list[Text]:
    return [Text(f"      = to permit it in this line: `# {WORD} {name}`", "cyan")] if strict and name else []


def _summary(diagnostics: Sequence[Diagnostic], promised: PathPromises | None) -> Text:
    errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
    warnings = len(diagnostics) - errors + len(promised.warnings if promised else ())
    counts = [_count(errors, "error"), _count(warnings, "warning")]
    return Text(", ".join(count for count in counts if count) or "ok")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}" if number else ""


def document(diagnostics: Sequence[Diagnostic], promised: PathPromises | None) -> dict[str, object]:
    return {
        "diagnostics": [_diagnostic(diagnostic) for diagnostic in diagnostics],
        "paths": [_promise(promise) for promise in promised.paths] if promised else [],
        "more_paths": bool(promised and promised.more),
        "stops": promised.stops if promised else [],
        "notes": promised.notes if promised else [],
        "warnings": [
            {"connector": str(node), "name": risk_name(words), "message": words} for node, words in promised.warnings
        ]
        if promised
        else [],
    }


def _diagnostic(diagnostic: Diagnostic) -> dict[str, object]:
    known: dict[str, object] = {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "name": diagnostic.name or None,
    }
    if diagnostic.span:
        source = diagnostic.span.source
        begin, end = source.position(diagnostic.span.start), source.position(diagnostic.span.end)
        known |= {"file": source.name, "line": begin.line, "column": begin.column}
        known |= {"end_line": end.line, "end_column": end.column}
    return known


def _promise(promise: Promise) -> dict[str, object]:
    path = promise.path
    return {
        "flow": path.source.flow,
        "chain": chain(path),
        "source": {"connector": str(path.source), "port": path.links[0].source_port, "guarantee": promise.source},
        "sink": {"connector": str(path.sink), "port": path.links[-1].target_port, "guarantee": promise.sink},
        "may_come_twice": promise.repeats,
        "appended_once": promise.once,
        "dead_letters": promise.dead_letters,
        "short_of": {level.value: [*reasons] for level, reasons in promise.short_of.items()},
        "ends_in_log": bool(promise.ends_in),
    }
