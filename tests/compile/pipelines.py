"""Pipelines and events at random, as terms and values: what a differential test feeds to each way of running them."""

from dataclasses import dataclass
from random import Random

from tests.compile.interpreter import Interpreter
from tests.compile.world import term
from walflow.compile.program import Term
from walflow.compile.region import Region, Rule
from walflow_kernel import json
from walflow_kernel.errors import CannotEvaluate
from walflow_kernel.moment import Moment
from walflow_kernel.values import TOO_DEEP, kind_of

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


class Writing:
    """An expression as it would be written."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def condition(self, depth: int = 2) -> str:
        one = self._chance.random()
        if one < 0.15:
            return f"{self._chance.choice(['present', 'absent'])} {self.path()}"
        if one < 0.35 and depth:
            word = self._chance.choice([" and ", " or "])
            return "(" + word.join(self.condition(depth - 1) for _ in range(self._chance.randint(2, 3))) + ")"
        if one < 0.4 and depth:
            return f"not {self.condition(depth - 1)}"
        if one < 0.5:
            return self.path()
        return f"{self.value(1)} {self._chance.choice(OPERATORS[:6])} {self.value(1)}"

    def path(self) -> str:
        return self._chance.choice(PATHS)

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
        call = chance.choice(["string::len", "array::len", "type::as_string", "json::encode", "random::integer", "!"])
        if call == "!":
            return f"(!{self.value(depth - 1)})"
        if call == "random::integer":
            return "random::integer(1000)"
        return f"{call}({self.path()})"

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
    """One to four selects, in a row, beside each other, or meeting again."""
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
    reached = {"in"} | {one.to for rules in places.values() for one in rules}
    return Region("random", "in", {name: rules for name, rules in places.items() if name in reached})


def term_of(text: str) -> Term | None:
    """None for what is a mistake at load."""
    try:
        return term(text)
    except AssertionError:
        return None


SCALARS = [
    "0", "1", "2", "-1", "1.5", "-0.0", "0.30000000000000004", '"a"', '"b"', '"\\u0061"', '""', "true", "false", "null",
    "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
    "-9223372036854775808", "-9223372036854775809", "1790000000123456789", "1e400", "-1e400", "1e-400", "123456789012345678901234567890",
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
    for number, payload in enumerate(payloads):
        moment = Moment(7, 3)
        moment.seed(number)
        _Walk(region, ran, number, payload, metas[number], moment, made).at(region.entry, json.value(payload), None)
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
    ) -> None:
        self._region, self._ran, self._number, self._payload = region, ran, number, payload
        self._meta, self._moment, self._made = meta, moment, made

    def at(self, place: str, event: object, anew: object) -> None:
        """`anew` is True once the event is no longer as it came."""
        taken = False
        for rule in self._region.places[place]:
            try:
                if self._holds("where", rule.where, event):
                    made = event if rule.what is None else self._value(rule.what, event)
                    if self._holds("having", rule.having, made):
                        taken = True
                        self._deliver(rule.to, made, anew or rule.what is not None)
            except CannotEvaluate as refused:
                taken = True
                self._ran.refused.append((self._number, str(refused)))
            except RecursionError:
                taken = True
                self._ran.refused.append((self._number, TOO_DEEP))
        self._ran.dropped += not taken

    def _deliver(self, to: str, value: object, anew: object) -> None:
        if to in self._region.places:
            self.at(to, value, anew)
        elif not anew:
            self._ran.out[to].append((self._number, self._payload))
        elif (reason := json.refusals([value])[0]) is not None:
            self._ran.refused.append((self._number, f"not JSON: {reason}"))
        else:
            self._ran.out[to].append((self._number, json.encoded(value)))

    def _value(self, term: Term, event: object) -> object:
        return Interpreter(event, self._meta, self._moment).value(term)

    def _holds(self, word: str, condition: Term | None, event: object) -> bool:
        if condition is None:
            return True
        verdict = self._value(condition, event)
        if not isinstance(verdict, bool):
            raise CannotEvaluate(f"`{word}` takes true or false, not {kind_of(verdict)}")
        return verdict
