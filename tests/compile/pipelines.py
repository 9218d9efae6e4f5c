"""Pipelines and events at random, as terms and values: what a differential test feeds to each way of running them."""

from dataclasses import dataclass
from random import Random

from tests.compile.interpreter import Interpreter
from tests.compile.world import read_script, term
from walflow.compile.program import ScriptOf, Term
from walflow.compile.region import Region, Rule, node_of
from walflow_kernel import json
from walflow_kernel.errors import CannotEvaluate
from walflow_kernel.moment import Moment
from walflow_kernel.values import TOO_DEEP, kind_of
from walflow_kernel.windows.groups import combined, with_text

KEYS = ["a", "b", "r", "l", "é", "x y"]
PATHS = [
    "event",
    "event.a",
    "event.b",
    "event.r",
    "event.r.a",
    "event.r.r.b",
    "event.l",
    "event.l[0]",
    "event.l[1:2]",
    "event.`é`",
    'event["x y"]',
    "event[event.b]",
    "event.r[event.a]",
    "event.l[event.a]",
    "$m",
    "$.n.a",
]
STATES = [
    "state", "state.a", "state.b", "state.r", "state.r.a", "state[event.b]", "state.r[event.a]", "state.l[0]",
    "state.l",
]  # fmt: skip
BEGINS = ["{}", '{"a": 1, "r": {"a": {"b": 2}}}', "event", '{"r": event, "b": "a"}', '{"l": [event, 1], "a": event}']
LITERALS = [
    "0",
    "1",
    "-1",
    "1.5",
    "0.3",
    "18446744073709551615",
    '"a"',
    '"b"',
    "true",
    "false",
    "null",
    "[]",
    "{}",
    '{"a": 1}',
]
OPERATORS = ["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>", "xor"]
INTO = [
    "",
    "",
    "into [] ",
    "into [1] use + ",
    "into {} ",
    "into 0 use + ",
    "into true use and ",
    "into false use or ",
    "into 1 use << ",
]


class Writing:
    """An expression as it would be written."""

    def __init__(self, chance: Random, *, keeps: bool = False) -> None:
        """`keeps`: a script with state."""
        self._chance = chance
        self._keeps = keeps

    def condition(self, depth: int = 2) -> str:
        one = self._chance.random()
        if one < 0.15:
            made = f'{{"a": event.b, "b": [1, 2]}}[{self.path()}]'
            of = self.path() if self._chance.random() < 0.8 else made
            return f"{self._chance.choice(['present', 'absent'])} {of}"
        if one < 0.35 and depth:
            word = self._chance.choice([" and ", " or "])
            return "(" + word.join(self.condition(depth - 1) for _ in range(self._chance.randint(2, 3))) + ")"
        if one < 0.4 and depth:
            return f"not {self.condition(depth - 1)}"
        if one < 0.5:
            return self.path()
        return f"{self.value(1)} {self._chance.choice(OPERATORS[:6])} {self.value(1)}"

    def path(self) -> str:
        return self._chance.choice(STATES if self._keeps and self._chance.random() < 0.3 else PATHS)

    def value(self, depth: int = 2) -> str:
        chance = self._chance
        one = chance.random() if depth else chance.random() * 0.6
        if one < 0.45:
            return self.path()
        if one < 0.6:
            return chance.choice(LITERALS)
        if one < 0.72:
            return f"({self.value(depth - 1)} {chance.choice(OPERATORS)} {self.value(depth - 1)})"
        if one < 0.8:
            fields = [f'"{key}": {self.value(depth - 1)}' for key in chance.sample(KEYS[:4], chance.randint(1, 3))]
            return "{" + ", ".join(fields) + "}"
        if one < 0.84:
            return "[" + ", ".join(self.value(depth - 1) for _ in range(chance.randint(0, 3))) + "]"
        if one < 0.88:
            return f'"<#{{{self.value(depth - 1)}}}>"'
        if one < 0.93:
            return f"patch {chance.choice(['event', 'event.r'])} of {self.changes(depth)} end"
        if one < 0.95:
            spec = self.value(0) if chance.random() < 0.5 else '{"a": event.b}'
            return f"merge {chance.choice(['event', 'event.r'])} of {spec} end"
        if one < 0.965:
            return self.match(depth - 1)
        if one < 0.975:
            into = chance.choice(INTO)
            guard = chance.choice(["", 'when k == 0 or k == "a" '])
            body = chance.choice(["v", "[v]", "[k, v]", '{"#{k}": v}', "v == 1"])
            return f"for {self.path()} of case (k, v) {guard}=> {body} {into}end"
        call = chance.choice(["string::len", "array::len", "type::as_string", "json::encode", "random::integer", "!"])
        if call == "!":
            return f"(!{self.value(depth - 1)})"
        if call == "random::integer":
            return "random::integer(1000)"
        return f"{call}({self.path()})"

    def match(self, depth: int) -> str:
        cases = [
            f"case {self.pattern()} {self.guard()}=> {self.value(depth)}" for _ in range(self._chance.randint(1, 4))
        ]
        last = [f"default => {self.value(depth)}"] if self._chance.random() < 0.8 else []
        of = "event" if self._chance.random() < 0.5 else self.path()
        return f"(match {of} of {' '.join([*cases, *last])} end)"

    def guard(self) -> str:
        return f"when {self.condition(0)} " if self._chance.random() < 0.2 else ""

    def pattern(self, depth: int = 1) -> str:
        chance = self._chance
        one = chance.random()
        if one < 0.6:
            fields = ", ".join(self.field(depth) for _ in range(chance.randint(0 if depth == 0 else 1, 3)))
            return f"{'found = ' if depth and chance.random() < 0.2 else ''}%{{{fields}}}"
        if one < 0.7 and depth:
            return chance.choice(
                ["%[1, _]", "%[]", "%(_, ...)", "%(1, _)", "%[%{present a}]", "~ json||", "x = ~ base64||"]
            )
        if one < 0.75 and depth:
            return "_"
        return chance.choice([*LITERALS, "event.b"]) if depth else "%{}"

    def field(self, depth: int) -> str:
        key = self._chance.choice(["a", "b", "r", "`é`"])
        one = self._chance.random()
        if one < 0.2:
            return f"present {key}"
        if one < 0.3:
            return f"absent {key}"
        if one < 0.45 and depth:
            return f"{key} ~= {self.pattern(0)}"
        if one < 0.5:
            return f"{key} ~= json||"
        return f"{key} {self._chance.choice(OPERATORS[:6])} {self._chance.choice([*LITERALS, 'event.b'])}"

    def script(self) -> str:
        return "; ".join([*(self.statement(1) for _ in range(self._chance.randint(0, 4))), self.last()])

    def statement(self, depth: int) -> str:
        chance = self._chance
        one = chance.random()
        if one < 0.55:
            target = chance.choice(
                ["x", "x", "event.a", "event.r", "event.r.b", 'event["new"]', "$.m", "x.a", "event[event.b]"]
            )
            if self._keeps and chance.random() < 0.5:
                target = chance.choice(
                    [
                        "state",
                        "state.a",
                        "state.r",
                        "state.r.a",
                        "state[event.b]",
                        "state.r[event.a]",
                        "state[state.b]",
                    ]
                )
            return f"let {target} = {chance.choice(['x', 'x.a', self.value(1)])}"
        if one < 0.8 and depth:
            cases = [f"case {self.pattern()} {self.guard()}=> {self.effects()}" for _ in range(chance.randint(1, 3))]
            return (
                f"match {chance.choice(['event', 'x', self.path()])} of {' '.join(cases)} default => "
                f"{self.effects()} end"
            )
        if one < 0.9 and depth:
            return (
                f"for {chance.choice(['event', 'x', self.path()])} of case (k, "
                f"v) {self.guard()}=> {self.effects()} end"
            )
        return f"let event = {self.value(1)}"

    def effects(self) -> str:
        return "; ".join([*(self.statement(0) for _ in range(self._chance.randint(0, 1))), self.last()])

    def last(self) -> str:
        ends = ["event", "event", "emit", 'emit => "p"', "drop", "x", 'emit x => "p"', "let x = event", "null"]
        if self._keeps:
            ends += ["state", "emit state", "let x = state", "let state = x", "let state.a = state", "state.r"]
        return self._chance.choice([*ends, self.value(1)])

    def changes(self, depth: int) -> str:
        found: list[str] = []
        for _ in range(self._chance.randint(1, 3)):
            word = self._chance.choice(["insert", "update", "upsert", "erase", "default", "move", "copy", "merge"])
            key = self._chance.choice(['"a"', '"b"', '"new"', '"r"', '"#{event.b}"'])
            if word == "erase":
                found.append(f"erase {key}")
            elif word in {"move", "copy"}:
                found.append(f'{word} {key} => "{self._chance.choice(["c", "a", "new"])}"')
            elif word == "merge":
                found.append('merge "r" => {"q": event.a}')
            else:
                found.append(f"{word} {key} => {self.value(depth - 1)}")
        return "; ".join(found)


def region(chance: Random) -> Region:
    """One to four selects, in a row, beside each other, or meeting again. Errors of some of them go on, as those of a
    pipeline within do."""
    written = Writing(chance)

    def rule(to: str) -> Rule:
        what = None if chance.random() < 0.4 else term_of(written.value())
        where = term_of(written.condition()) if chance.random() < 0.6 else None
        having = term_of(written.condition(1)) if chance.random() < 0.2 else None
        return Rule(what, where, having, to)

    streams = ["s", "t"][: chance.choice([0, 0, 1, 2])]
    places: dict[str, list[Rule]] = {}
    for at, name in enumerate(["in", *streams]):
        further = [*streams[at:], "out", "other"]
        places[name] = [rule(chance.choice(further)) for _ in range(chance.randint(1, 3))]
    scripts: dict[str, ScriptOf] = {}
    for name in ["k", "j"][: chance.choice([0, 0, 1, 2])]:
        keeps = chance.random() < 0.5
        first = (
            f"match state of case null => let state = {chance.choice(BEGINS)} default => null end; " if keeps else ""
        )
        inner = Writing(chance, keeps=keeps)
        found = script_of(f"{first}let x = {inner.value(0)}; {inner.script()}")
        if found is None:
            continue
        scripts[name] = found
        for port in found.ports:
            further = [
                *(other for other in streams[1:] if other != name),
                "out",
                "other",
                *(["j"] if name == "k" else []),
            ]
            places[f"{name}/{port}"] = [rule(chance.choice(further)) for _ in range(chance.randint(0, 2))]
        if chance.random() < 0.3:
            places[f"{name}/err"] = [rule("other")]
        places["in"].append(rule(name))
    for name in [*places]:
        missing = [one for one in places[name] if one.to == "j" and "j" not in scripts]
        places[name] = [one for one in places[name] if one not in missing]
    errs: dict[str, str] = {}
    if chance.random() < 0.4:
        errs = {name: "n/err" for name in [*places, *scripts] if chance.random() < 0.6}
        places["n/err"] = [rule(chance.choice(["out", "other"])) for _ in range(chance.randint(1, 2))]
    if scripts:
        return Region("random", "in", places, scripts, errs)
    reached = {"in", *errs.values()} | {one.to for rules in places.values() for one in rules}
    return Region("random", "in", {name: rules for name, rules in places.items() if name in reached}, errs=errs)


def term_of(text: str) -> Term | None:
    """None for what is a mistake at load."""
    try:
        return term(text)
    except AssertionError:
        return None


def script_of(text: str) -> ScriptOf | None:
    found, _ = read_script(text)
    return None if found is None else found.script


SCALARS = [
    "0", "1", "2", "-1", "1.5", "-0.0", "0.30000000000000004", '"a"', '"b"', '"\\u0061"', '""', "true", "false",
    "null",
    "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
    "-9223372036854775808", "-9223372036854775809", "1790000000123456789", "1e400", "-1e400", "1e-400",
    "123456789012345678901234567890",
    '"\\ud83d\\ude00"', "1E2", "[]", "{}",
]  # fmt: skip
SPELLED = {
    "a": '"\\u0061"',
    "b": '"b"',
    "r": '"r"',
    "l": '"l"',
    "é": '"\\u00e9"',
    "x y": '"x\\u0020y"',
    "new": '"new"',
}


def event(chance: Random, depth: int = 3) -> str:
    """As text of JSON, with what only text can say: escapes in keys, doubled keys, numbers out of range."""
    one = chance.random()
    if depth and one < (0.85 if depth == 3 else 0.25):
        keys = chance.choices([*KEYS, "new"], k=chance.randint(0, 6))
        fields = [f"{_key(chance, key)}:{event(chance, depth - 1)}" for key in keys]
        return "{" + ("," if chance.random() < 0.9 else " , ").join(fields) + "}"
    if depth and one < 0.93 and depth < 3:
        return "[" + ",".join(event(chance, depth - 1) for _ in range(chance.randint(0, 3))) + "]"
    if one > 0.995:
        levels = chance.choice([3, 100, 500, 512 - 4])
        return '{"a":' * levels + "1" + "}" * levels
    return chance.choice(SCALARS)


def _key(chance: Random, key: str) -> str:
    return SPELLED[key] if chance.random() < 0.2 else f'"{key}"'


@dataclass
class Ran:
    """What came of one block: the events of each exit with their numbers, as text; and the errors."""

    out: dict[str, list[tuple[int, object]]]
    refused: list[tuple[int, str]]
    dropped: int


def interpret(region: Region, payloads: list[bytes], metas: list[dict[str, object]], made: frozenset[str]) -> Ran:
    """Event by event, depth first. `made`: exits whose events are written anew, if not all of them."""
    ran = Ran({exit: [] for exit in region.exits}, [], 0)
    kept = {node_of(place): [script.begins] for place, script in region.scripts.items()}
    for number, payload in enumerate(payloads):
        moment = Moment(7, 3)
        moment.seed(number)
        _Walk(region, ran, number, payload, metas[number], moment, made, kept).at(
            region.entry, json.value(payload), None
        )
    ran.refused.sort(key=lambda one: one[0])
    return ran


class _Walk:
    def __init__(
        self,
        region: Region,
        ran: Ran,
        number: int,
        payload: bytes,
        meta: dict[str, object],
        moment: Moment,
        made: frozenset[str],
        kept: dict[str, list[object]],
    ) -> None:
        self._kept = kept
        self._group: object = None
        self._region, self._ran, self._number, self._payload = region, ran, number, payload
        self._meta, self._moment, self._made = meta, moment, made

    def at(self, place: str, event: object, anew: object) -> None:
        """`anew` is True once the event is no longer as it came."""
        if place in self._region.scripts:
            self._run(place, event, anew)
            return
        taken = False
        for rule in self._region.places[place]:
            try:
                if not self._holds("where", rule.where, event):
                    continue
                for group in self._groups(rule, event):
                    self._group = group
                    made = event if rule.what is None else self._value(rule.what, event)
                    if self._holds("having", rule.having, made):
                        taken = True
                        self._deliver(rule.to, made, anew or rule.what is not None)
            except (CannotEvaluate, RecursionError) as refused:
                taken = True
                self._refuse(place, event, refused)
        self._ran.dropped += not taken

    def _groups(self, rule: Rule, event: object) -> list[object]:
        """Without windows: those have a model of their own, in windows.py."""
        if rule.windows is None:
            return [None]
        parts = [(self._value(key.value, event), key.each) for key in rule.windows.keys]
        return [with_text(group) for group in combined(parts)]

    def _run(self, place: str, event: object, anew: object) -> None:
        interpreter = Interpreter(event, self._meta, self._moment, self._kept[node_of(place)])
        before = self._meta
        try:
            port, value, kept = interpreter.run(self._region.scripts[place])
            self._meta = interpreter.meta
        except (CannotEvaluate, RecursionError) as refused:
            if self._region.err_of(place) is not None:
                self._meta = interpreter.meta
            self._refuse(place, interpreter.event, refused)
            self._meta = before
            return
        if port is None:
            self._ran.dropped += 1
        else:
            self.at(f"{node_of(place)}/{port}", event if kept else value, anew if kept else True)
        self._meta = before

    def _refuse(self, place: str, event: object, refused: CannotEvaluate | RecursionError) -> None:
        reason = TOO_DEEP if isinstance(refused, RecursionError) else str(refused)
        err = self._region.err_of(place)
        if err is None:
            self._ran.refused.append((self._number, reason))
        else:
            self.at(err, {"error": reason, "event": event}, True)

    def _deliver(self, to: str, value: object, anew: object) -> None:
        if self._region.has(to):
            self.at(to, value, anew)
        elif not anew:
            self._ran.out[to].append((self._number, self._payload))
        elif (reason := json.refusals([value])[0]) is not None:
            self._ran.refused.append((self._number, f"not JSON: {reason}"))
        else:
            self._ran.out[to].append((self._number, json.encoded(value)))

    def _value(self, term: Term, event: object) -> object:
        return Interpreter(event, self._meta, self._moment, group=self._group).value(term)

    def _holds(self, word: str, condition: Term | None, event: object) -> bool:
        if condition is None:
            return True
        verdict = self._value(condition, event)
        if not isinstance(verdict, bool):
            raise CannotEvaluate(f"`{word}` takes true or false, not {kind_of(verdict)}")
        return verdict
