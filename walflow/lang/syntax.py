"""A syntax error in plain words."""

from collections.abc import Sequence, Set as AbstractSet

from lark import Token
from lark.lexer import PatternStr

from walflow.diagnostics import Diagnostic, Source, Span, did_you_mean, error
from walflow.lang.foreign import begins_with_digit, example, foreign
from walflow.lang.grammar import grammar
from walflow.lang.mistakes import remedy
from walflow.lang.scan import DEEPEST, ILLEGAL, TOO_DEEP, words

_WORDS = {
    "IDENT": "a name",
    "STRING_START": "a string",
    "HEREDOC_START": "a string",
    "INT": "a number",
    "FLOAT": "a number",
    "EXTRACTOR": "a pattern between `|`",
    "STRING_END": '`"`',
    "$END": "the end of the file",
}
# Not listed where a statement may begin: there are too many.
_RARE = {"SEMICOLON", "COLONCOLON", "CONST", "FN", "INTRINSIC", "$END", "CONFIG_DIRECTIVE"}
# A place for a value accepts some thirty tokens, a place after a value twenty: these are not listed.
_VALUE = {"IDENT", "STRING_START", "INT", "LBRACE", "LSQB", "LPAR"}
_MINOR = {
    *("OR", "XOR", "AND", "BIT_OR", "BIT_XOR", "BIT_AND", "EQ", "NE", "LT", "LE", "GT", "GE", "SHL", "SHR", "USHR"),
    *("OPERATOR", "SCRIPT", "STREAM", "SLIDING", "TUMBLING"),
    *("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "DOT", "LSQB", "LPAR", "COLONCOLON"),
}

_AT_TOP = {
    "CREATE": "it belongs into a flow: `define flow main flow … end;`",
    "CONNECT": "it belongs into a flow: `define flow main flow … end;`",
    "SELECT": "it belongs into a pipeline: `define pipeline p pipeline … end;`",
    "END": "nothing is open here that it could end",
}
_BEGINS_ITEM = {"STRING_START", "HEREDOC_START", "INT", "FLOAT", "LBRACE", "LSQB"}
_STARTS = {"DEFINE", "CREATE", "CONNECT", "DEPLOY", "USE", "SELECT"}


def explain(source: Source, tokens: Sequence[Token], at: int, expected: AbstractSet[str]) -> Diagnostic:
    token = tokens[at]
    begin = token.start_pos or 0
    span = Span(source, begin, max(begin + len(token), begin))
    if token.type == TOO_DEEP:
        return error(f"nested more than {DEEPEST} deep", span)
    if token.type == ILLEGAL and token == "`":
        return error("this name is not closed", span, "its `` ` `` is missing")
    if known := foreign(source, tokens, at):
        return error(known.message, span, known.hint)
    if token.type == "CONFIG_DIRECTIVE":
        return error(
            "`#!config` does not stand here",
            span,
            "it stands at the head of a pipeline, right behind the word `pipeline`",
        )
    if token.type == ILLEGAL:
        return error(f"unexpected character {_shown(token)}", span)
    if token.type == "DEFINE" and tokens[at + 1].type == "FLOW" and "END" in expected:
        return error("no flow can begin within a flow", span, "is an `end;` missing before it?")
    if token.type == "DEFINE" and tokens[at + 1].type == "FLOW" and "SELECT" in expected:
        return error("a query declares no flow", span, "put it into a .troy file")
    message = f"expected {in_words(expected)}, found {_found(token)}"
    hint = _end_too_many(source, tokens, at) if "DEPLOY" in expected else None
    hint = (
        hint
        or remedy(tokens, at, expected)
        or begins_with_digit(tokens, at, expected)
        or _hint(token, expected)
        or example(tokens, at)
    )
    return error(message, span, hint or _elsewhere(token, expected))


def _elsewhere(token: Token, expected: AbstractSet[str]) -> str:
    if token.type == "END":
        return _AT_TOP["END"]
    if "DEPLOY" in expected:
        return "a file declares flows by `define flow NAME flow … end;` and starts them by `deploy flow NAME;`"
    if "SEMICOLON" in expected:
        return "is `;` missing before it?"
    return "the language is described at docs/reference/troy.md"


def _end_too_many(source: Source, tokens: Sequence[Token], at: int) -> str | None:
    """A hint, if an `end` followed a definition of a connector or an operator without `with`. Such an `end` closed
    the flow around it."""
    opens = True
    for here in range(at):
        kind = tokens[here].type
        if kind == "DEFINE":
            opens = tokens[here + 1].type not in {"CONNECTOR", "OPERATOR"}
        elif kind in {"WITH", "SEMICOLON"}:
            opens = True
        elif kind == "END" and not opens:
            line = source.position(tokens[here].start_pos or 0).line
            return f"the `end` in line {line} closed more than its statement, which has one only behind `with`"
    return None


def in_words(expected: AbstractSet[str]) -> str:
    if expected >= _VALUE:
        expected = expected & {"END", "RBRACE", "RSQB", "RPAR"}
        return _either(["a value", *sorted(_word(name) for name in expected)])
    major = expected - _MINOR
    if "DEFINE" in expected:
        major -= _RARE
    return _either(sorted({_word(name) for name in major or expected}, key=_rank))


def _either(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0] if words else "nothing"


def _rank(word: str) -> tuple[bool, str]:
    # names and strings first, then words and signs of the language
    return word.startswith("`"), word


def _word(name: str) -> str:
    if name in _WORDS:
        return _WORDS[name]
    for terminal in grammar().terminals:
        if terminal.name == name and isinstance(terminal.pattern, PatternStr):
            return f"`{terminal.pattern.value}`"
    return name


def _found(token: Token) -> str:
    match token.type:
        case "$END":
            return "the end of the file"
        case "STRING_START" | "HEREDOC_START":
            return "a string"
        case "IDENT":
            return f"`{token}`"
        case _:
            return _shown(token)


def _shown(token: Token) -> str:
    shown = token if len(token) <= 40 else f"{token[:40]}…"
    return f"`{shown}`" if shown.isprintable() else f"U+{ord(token[0]):04X}"


def _link_end(token: Token, expected: AbstractSet[str]) -> str | None:
    return f"write `/connector/{token}`, or `/pipeline/{token}`" if expected == {"SLASH"} else None


def _missing(expected: AbstractSet[str]) -> str | None:
    if expected >= _VALUE:
        return "a value"
    if "SEMICOLON" in expected and "DEFINE" not in expected:
        return "`;`"
    bodies = {"FLOW", "PIPELINE"} & expected
    return f"`{bodies.pop().lower()}`" if bodies and "ARGS" in expected else None


_MODULES = {"pipelines", "windows"}  # of tremor: words of the language, but for the last letter


def _hint(token: Token, expected: AbstractSet[str]) -> str | None:
    if token.type == "IDENT" and expected == {"FLOW"}:
        return did_you_mean(str(token), ["flow"]) or f"write `flow {token}`"
    if token.type == "IDENT":
        keywords = [_word(name).strip("`") for name in expected if _word(name).startswith("`")]
        wanted = [word for word in keywords if word.isalpha()]
        meant = did_you_mean(str(token), wanted) or ("is `with` missing?" if "with" in wanted else None)
        return meant or ("is `,` missing before it?" if "COMMA" in expected else None) or _link_end(token, expected)
    if token.type in _STARTS and (missing := _missing(expected)):
        return f"is {missing} missing before it?"
    if token.type == "SEMICOLON" and expected == {"COMMA", "END"}:
        return "`with` ends with `end`: write `end;`"
    if "COMMA" in expected and token.type in _BEGINS_ITEM:
        return "is `,` missing before it?"
    if "IDENT" in expected and token.type in words() and f"{token}s" in _MODULES:
        return f"did you mean `{token}s`?"
    if "IDENT" in expected and token.type in words():
        return f"`{token}` is a word of the language; as a name it is written `` `{token}` ``"
    if "DEPLOY" in expected:
        return _AT_TOP.get(token.type)
    return None
