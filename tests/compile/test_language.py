"""The language of expressions as a list: what is written, the event, and what comes of it.

A `Refused` is why the event goes to `err`, a `Mistake` what is said when the file is read.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.compile.world import read
from walflow_kernel.errors import CannotEvaluate

HUGE = "a number out of range: whole numbers reach from -2^63 to 2^64-1"


class Refused(NamedTuple):
    why: str


class Mistake(NamedTuple):
    said: str


E: dict[str, object] = {
    "n": 5,
    "x": 1.5,
    "t": "héllo",
    "yes": True,
    "none": None,
    "l": [1, 2, 3, 4],
    "r": {"a": 1, "b": {"c": 2, "d": [3]}},
}
R = {"a": 1, "b": {"c": 2, "d": [3]}}

CASES: list[tuple[str, object, object]] = [
    # literals
    ("1_000", None, 1000),
    ("0xff", None, 255),
    ("0b101", None, 5),
    ("-7", None, -7),
    ("1.5e3", None, 1500.0),
    ("true", None, True),
    ("null", None, None),
    ('"a\\n\\"\\u00e9\\u{1F600}\\#"', None, 'a\n"é😀#'),
    ('"a#{1 + 1}b#{[null]}"', None, "a2b[null]"),
    ('"#{event}"', {"k": ["v", 1.0]}, '{"k":["v",1.0]}'),
    ('"#{event.t}#{event.x}"', E, "héllo1.5"),
    ('"""\n    one #{event.n}\n      two\n    """', E, "    one 5\n      two\n    "),
    ('"""\r\n  one #{event}\r\n\r\n    two\r\n  """', 1, "  one 1\n\n    two\n  "),
    ('"""\n  a\0b\ue000#{event}\0\n"""', 1, "  a\0b\ue0001\0\n"),
    ("[]", None, []),
    ("[1, [2, event], ]", 3, [1, [2, 3]]),
    ('{"a": {"#{event}": null}}', "k", {"a": {"k": None}}),
    ('{"a": 1, "a": 2}', None, Mistake("the key `a` stands twice in this record")),
    ("<<>>", None, b""),
    ("<< 1:4 >>", None, b"\x01"),
    ("<< 1:2, 1:6/little >>", None, b"A"),
    ("<< 258:16, 258:16/little, 4328719365:32/big_unsigned_integer >>", None, b"\1\2\2\1\2\3\4\5"),
    ("<< (-2):16/little_signed_integer >>", None, b"\xfe\xff"),
    ("<< (-2):16/little-signed-integer >>", None, b"\xfe\xff"),
    ("<< 1:4, << 1, 2, 3, 4 >>/binary >>", None, b"\x10\x10\x20\x30\x04"),
    ("<< event.t/binary, event.n >>", E, "héllo\x05".encode()),
    ("<< event.t:2/binary >>", E, b"h\xc3"),
    ("<< event.n:9/binary >>", E, Refused("`<< … >>` takes binary data or a string, not a whole number")),
    ("<< event.t:9/binary >>", E, Refused("`<< … >>`: 6 bytes where 9 are taken")),
    ("<< event.x >>", E, Refused("`<< … >>` takes a whole number, not a decimal number")),
    ("<< event >>", -1, Refused("`<< … >>`: an unsigned number is not negative")),
    ("<< event/binary >>", "\ud800", Refused("`<< … >>`: a character that UTF-8 cannot hold")),
    ("<< event:65 >>", 1, Mistake("a number has 1 to 64 bits, not 65")),
    ("<< event:12/little >>", 1, Mistake("a little-endian number has whole bytes, not 12 bits")),
    ("<< event/odd >>", 1, Mistake("`odd` is no type of binary data")),
    # operators, the loosest first
    ("false or event", True, True),
    ("true or event.no", E, True),
    ("true xor event", True, False),
    ("event and true", 1, Refused("`and` cannot be applied to a whole number")),
    ("event xor true", 1, Refused("`xor` cannot be applied to a whole number and true")),
    ("1 | event", 6, 7),
    ("3 ^ event", 1, 2),
    ("6 & event", 3, 2),
    ("true & event", False, False),
    ("event == 1.0", 1, True),
    ("event == 0.3", 0.1 + 0.2, True),
    ("event == 0.3", 0.30000001, False),
    ("event == [0.3]", [0.1 + 0.2], True),
    ("event == << event/binary >>", "é", True),
    ('<< event/binary >> != "e"', "é", True),
    ('<< event/binary >> < << 200 >>', "é", True),
    ('<< event/binary >> < "z"', "é", False),
    ("event == null", None, True),
    ("event == true", 1, False),
    ("event != [1, {}]", [1, {}], False),
    ('event == {"a": [1]}', {"a": [1.0]}, True),
    ("event < 2", 1.5, True),
    ('event >= "b"', "a", False),
    ("event < 1", "a", Refused("`<` cannot be applied to a string and a whole number")),
    ("1 << event", 4, 16),
    ("1 << event", 64, Refused("`<<` shifts by 0 to 63 bits, not by 64")),
    ("-16 >> event", 2, -4),
    ("16 >>> event", 2, 4),
    ("event >>> 2", -16, 2**62 - 4),
    ("event >>> 0", -16, -16),
    ("1 << event", 63, 2**63),
    ("3 << event", 63, 2**63),
    ("-1 << event", 63, -(2**63)),
    ("-3 << event", 63, -(2**63)),
    ("!event", 2**63, 2**63 - 1),
    ("!event", 0, 2**64 - 1),
    ("!!event", 12, 12),
    ("!event", -1, 0),
    ("!(event == 1)", 1, False),
    ("event + 1", 2**64 - 2, 2**64 - 1),
    ("event + 1", 2**64 - 1, Refused("the result of `+` is out of range")),
    ("event + 1", 2**64, Refused(HUGE)),
    ("event + 0.5", 1, 1.5),
    ('event + "b"', "a", "ab"),
    ("event + [2]", [1], [1, 2]),
    ("event + 1", "a", Refused("`+` cannot be applied to a string and a whole number")),
    ("event + {\"a\": 2, \"b\": 3}", {"c": 0, "a": {}}, {"c": 0, "a": 2, "b": 3}),
    ("event + {}", [], Refused("`+` cannot be applied to an array and a record")),
    ("event - 1 - 1", 5, 3),
    ("event * 2", 2.5, 5.0),
    ("6 / event", 3, 2.0),
    ("1 / event", 2, 0.5),
    ("1 / event", 0, Refused("division by zero")),
    ("1 / 0 + event", 0, Mistake("division by zero")),
    ("event % 3", -7, -1),
    ("event % 3", 7.5, Refused("`%` cannot be applied to a decimal number and a whole number")),
    ("not event", False, True),
    ("not event", None, Refused("`not` cannot be applied to null")),
    ("!event", 5, 2**64 - 6),
    ("-event", 1.5, -1.5),
    ("+event", 1, 1),
    ("1 + 2 * event", 3, 7),
    ("(1 + 2) * event", 3, 9),
    ("not event == 1", 1, Refused("`not` cannot be applied to a whole number")),
    ("1 < event and event < 3 or false", 2, True),
    ("1 | 2 == event", 3, Refused("`|` cannot be applied to a whole number and false")),
    # paths and slices
    ("event.r.b.d[0]", E, 3),
    ('event["r"]["b"].c', E, 2),
    ("event.l[event.r.a]", E, 2),
    ("event.`r`.a", E, 1),
    ("event.l[4]", E, Refused("`event.l[4]`: an array without `4`")),
    ("event.r.z", E, Refused("`event.r.z`: a record without `z`")),
    ("event.none.a", E, Refused("`event.none.a`: null without `a`")),
    ("event.l[-1]", E, Mistake("a key is a string, an index a whole number from 0 on")),
    ("event.l[1:3]", E, [2, 3]),
    ("event.l[event.r.a:event.n - 1]", E, [2, 3, 4]),
    ("event.l[4:4]", E, []),
    ("event.l[1:3][1]", E, 3),
    ("[1, 2, 3][1:3]", None, [2, 3]),
    ("[1, {}][1:2][0].a", None, Mistake("a record without `a`")),
    ("event.l[3:1]", E, Refused("`event.l[3:1]`: an array without `[3:1]`")),
    ("event.l[2:5]", E, Refused("`event.l[2:5]`: an array without `[2:5]`")),
    ("[1][0:2]", None, Mistake("an array without `[0:2]`")),
    ("event.t[0:1]", E, Refused("`event.t[0:1]`: a string without `[0:1]`")),
    ("event.l[0:event.x]", E, Refused("`event.l[0:event.x]`: where a slice begins and ends is a whole number from 0 on")),
    ("event.l[0:true]", E, Mistake("where a slice begins and ends is a whole number from 0 on")),
    ("present event.l[1:3]", E, True),
    ("present event.l[1:9]", E, False),
    ("absent event.none", E, False),
    ("absent event.r.z.y", E, True),
    ("present 1", None, Mistake("`present` takes a path")),
    # patch
    ('patch event of insert "b" => event.a + 1 end', {"a": 1}, {"a": 1, "b": 2}),
    ('patch event of insert "a" => 2 end', {"a": 1}, Refused("`insert`: a record with `a` already")),
    ('patch event of insert "a" => 2 end', {"a": None}, Refused("`insert`: a record with `a` already")),
    ('patch event of upsert "a" => null; upsert "b" => 2 end', {"a": 1}, {"a": None, "b": 2}),
    ('patch event of update "a" => [event] end', {"a": 1}, {"a": [{"a": 1}]}),
    ('patch event of update "b" => 2 end', {"a": 1}, Refused("`update`: a record without `b`")),
    ('patch event of erase "a"; erase "z" end', {"a": 1, "b": 2}, {"b": 2}),
    ('patch event of move "a" => "b" end', {"a": None, "c": 3}, {"c": 3, "b": None}),
    ('patch event of move "z" => "b" end', {"a": 1}, {"a": 1}),
    ('patch event of move "a" => "b" end', {"a": 1, "b": 2}, Refused("`move`: a record with `b` already")),
    ('patch event of move "a" => "a" end', {"a": 1}, Refused("`move`: a record with `a` already")),
    ('patch event of copy "a" => "b" end', {"a": [1]}, {"a": [1], "b": [1]}),
    ('patch event of copy "a" => "b" end', {"a": 1, "b": 2}, Refused("`copy`: a record with `b` already")),
    ('patch event of copy "z" => "b" end', {"a": 1}, {"a": 1}),
    ('patch event of merge "r" => {"b": {"c": null, "e": 1}} end', E, E | {"r": {"a": 1, "b": {"c": None, "d": [3], "e": 1}}}),
    ('patch event of merge "z" => {"a": {}} end', {}, {"z": {"a": {}}}),
    ('patch event of merge "a" => {} end', {"a": 1}, Refused("`merge`: `a` is a whole number, not a record")),
    ('patch event of merge "a" => event.a end', {"a": 1}, Refused("`merge` takes a record, not a whole number")),
    ('patch event of merge "a" => 1 end', {}, Mistake("`merge` takes a record, not a whole number")),
    ('patch event of merge => {"r": {"b": 2}} end', {"r": R}, {"r": {"a": 1, "b": 2}}),
    ("patch event of merge => event.r end", {"r": {"r": 1}}, {"r": 1}),
    ('patch event of default "a" => 1 / 0 end', {"a": 1}, Mistake("division by zero")),
    ('patch event of default "a" => 1 / event.z end', {"a": 1}, {"a": 1}),
    ('patch event of default "b" => 2 end', {"a": 1}, {"a": 1, "b": 2}),
    ('patch event of default => {"a": 2, "r": {"a": 9, "z": 1, "b": {"y": 0}}} end', {"a": None, "r": R},
     {"a": None, "r": {"a": 1, "b": {"c": 2, "d": [3], "y": 0}, "z": 1}}),
    ("patch event of default => event.l end", E, Refused("`default` takes a record, not an array")),
    (('patch event of insert "b" => event.a; erase "a"; move "b" => "a"; '
'insert "b" => event.a end'), {"a": 1}, {"a": 1, "b": 1}),
    ('patch event of insert "b" => {"c": 1}; merge "b" => {"d": 2} end', {}, {"b": {"c": 1, "d": 2}}),
    ('patch event of insert "#{event.k}" => 1; move "k" => "#{event.k}2" end', {"k": "x"}, {"x": 1, "x2": "x"}),
    ('(patch event of erase "a" end).b', {"a": 1, "b": 2}, 2),
    ('patch patch event of erase "a" end of insert "a" => 2; end', {"a": 1}, {"a": 2}),
    ('patch event.r of erase "a" end', E, {"b": {"c": 2, "d": [3]}}),
    ('patch event of erase "a" end', [1], Refused("`patch` takes a record, not an array")),
    ('patch "a" of erase "a" end', None, Mistake("`patch` takes a record, not a string")),
    ('patch {"a": 1} of insert "a" => 2 end', None, Mistake("`insert`: a record with `a` already")),
    ('(patch {"a": {}} of merge "a" => {"b": 1} end).a.b', None, 1),
    # merge
    ('merge event of {"r": {"b": {"c": 3}}, "n": null} end', E, E | {"n": None, "r": {"a": 1, "b": {"c": 3, "d": [3]}}}),
    ("merge event of {} end", {"a": 1}, {"a": 1}),
    ('merge event of {"a": {"b": 1}} end', {"a": 1}, {"a": {"b": 1}}),
    ('merge {"a": {"x": 1}} of event end', {"a": [1]}, {"a": [1]}),
    ("merge event of 1 end", {}, Mistake("`merge` takes a record, not a whole number")),
    ("merge event of event.a end", {"a": None}, Refused("`merge` takes a record, not null")),
    ('merge {"a": {"b": 1}} of {"a": {"c": 2}} end', None, {"a": {"b": 1, "c": 2}}),
    # functions, but for what their own examples say
    ("string::len(event)", "héé", 3),
    ("string::len(event)", 1, Refused("`string::len`: it takes a string, not a whole number")),
    ("string::len(1 + 1)", None, Mistake("`string::len`: it takes a string, not a whole number")),
    ("string::contains(event, 1)", "a", Mistake("`string::contains`: `string` takes a string, not a whole number")),
    ("string::len()", None, Mistake("`string::len` takes 1 argument, not 0")),
    ("string::lenn(event)", "a", Mistake("unknown function `lenn` in module `string`")),
    ("strin::len(event)", "a", Mistake("unknown module `strin`")),
    ('string::format("{}, {{}}: {}", event, 1)', [None], "[null], {}: 1"),
    ('string::format("{}", event, 1)', 1, Refused("`string::format`: it has 1 `{}` for 2 values")),
    ('string::format("}", event)', 1, Mistake("`string::format`: a `}` of its own is written `}}`")),
    ("string::format(event)", "{1}", Refused("`string::format`: a `{` of its own is written `{{`")),
    ("string::format()", None, Mistake("`string::format` takes at least 1 argument, not 0")),
    ('string::replace(event, "", "-")', "ab", "-a-b-"),
    ("string::trim(event)", "\u2003\u0085 a\x1f", "a\x1f"),
    ("string::substr(event, 2, 99)", "abc", "c"),
    ("string::substr(event, 5, 7)", "abc", ""),
    ("string::substr(event, 2, 1)", "abc", Refused("`string::substr`: there is nothing from 2 to 1")),
    ('string::split(event, "")', "ab", ["", "a", "b", ""]),
    ("string::capitalize(event)", "", ""),
    ("string::from_utf8_lossy(base64::decode(event))", "/2E=", "\ufffda"),
    ("array::zip(event, [1])", [], Refused("`array::zip`: the arrays have 0 and 1 elements")),
    ("array::unzip(event)", [[1]], Refused("`array::unzip`: it takes an array of pairs, and one element has 1 elements")),
    ("array::unzip(event)", [1], Refused("`array::unzip`: it takes an array of pairs, and one element is a whole number")),
    ("array::contains(event, true)", [1], False),
    ('array::join(event, "")', [], ""),
    ("array::sort(event)", ["b", 1, None], ["b", 1, None]),
    ("record::from_array(event)", [[1, 2]], Refused("`record::from_array`: the first of a pair is a string, not a whole number")),
    ('record::rename(event, {"a": 1, "b": "a"})', {"a": 1, "c": 2}, {"a": 1, "c": 2}),
    ("record::contains(event, 1)", {}, Mistake("`record::contains`: `key` takes a string, not a whole number")),
    ("integer::parse(event)", "+7", 7),
    ("integer::parse(event)", "7.0", Refused("`integer::parse`: `7.0` is no whole number")),
    ("integer::parse(event)", "\u0667", Refused("`integer::parse`: `\u0667` is no whole number")),
    ("integer::parse(event)", "9" * 5000, Refused("`integer::parse`: this is no whole number")),
    ("float::parse(event)", ".5", 0.5),
    ("float::parse(event)", "nan", Refused("`float::parse`: `nan` is no number")),
    ("float::parse(event)", "1e999", Refused("`float::parse`: `1e999` is out of range")),
    ("float::is_nan(event)", float("nan"), True),
    ("float::is_infinite(event)", 2**64 - 1, False),
    ("float::is_finite(event)", True, Refused("`float::is_finite`: it takes a number, not true")),
    ("type::as_string(event)", b"", "binary"),
    ("math::round(event)", -0.5, -1),
    ("math::round(event)", 0.49999999999999994, 0),
    ("math::floor(event)", float("inf"), Refused("`math::floor`: inf has no whole number beside it")),
    ("math::max(event, 1.0)", 1, 1.0),
    ("nanos::from_seconds(event)", 2, 2_000_000_000),
    ("nanos::to_seconds(event)", 1_999_999_999, 1),
    ("size::mebi(event)", 2, 2 << 20),
    ("size::kibi(event)", 2**60, Refused("`size::kibi`: the result is out of range")),
    ("range::range(event, 2)", 5, []),
    ("range::contains(event, 1)", [], False),
    ("base64::decode(event)", "a?==", Refused("`base64::decode`: this is no base64")),
    ("base64::encode(event)", b"\x00\xff", "AP8="),
    ("json::decode(event)", "1 2", Refused("`json::decode`: not JSON: extra data at column 3")),
    ("url::decode(event)", "%ff", Refused("`url::decode`: what is encoded is not UTF-8")),
    ("url::decode(event)", "a+b%", "a+b%"),
    ("url::encode(event)", "a-_.~b", "a%2D%5F%2E%7Eb"),
    ('re::replace("(?P<first>\\\\w)(\\\\w)", event, "$2${first}$$$9$first")', "abc", "ba$ac"),
    ('re::replace_all("", event, "-")', "ab", "-a-b-"),
    ('re::replace_all("x*", event, "-")', "axb", "-a-b-"),
    ('re::split("x*", event)', "axb", ["", "a", "b", ""]),
    ('re::split("(,)|;", event)', "a,b;c", ["a", "b", "c"]),
    ('re::is_match("^é+$", event)', "éé", True),
    ('re::is_match("(", event)', "a", Mistake("`re::is_match`: the pattern cannot be read: missing ): (")),
    ("re::is_match(event, event)", "(a)\\1",
     Refused("`re::is_match`: the pattern cannot be read: invalid escape sequence: \\1")),
    ("re::is_match(event, event)", "\ud800", Refused("`re::is_match`: a character that UTF-8 cannot hold")),
    ("random::integer(event, event)", 1, Refused("`random::integer`: there is nothing from 1 to below 1")),
    ("random::integer(1, 2, 3)", None, Mistake("`random::integer` takes 0 to 2 arguments, not 3")),
    ("random::float(event)", 10**400, Refused(HUGE)),
    ("random::string(event)", -1, Refused("`random::string`: it takes a length from 0 on, not -1")),
    ("random::float(-1e308, event)", 1e308, Refused("`random::float`: these bounds are out of range")),
    # a number of JSON beyond a double's range
    ("-json::decode(event)", "1e999", Refused("`json::decode`: " + HUGE)),
    ("type::as_string(json::decode(event)[0])", "[1e999]", Refused(HUGE)),
    ("json::decode(event).a", '{"a": 1e999, "b": 1}', Refused(HUGE)),
    ("json::decode(event).b", '{"a": 1e999, "b": 1}', 1),
    ("json::decode(event) == [1]", "[1e999]", Refused(HUGE)),
    ("json::decode(event) == [1]", "[1e999, 1]", False),
    ("array::sort(json::decode(event))", "[1, 2e999]", Refused("`array::sort`: " + HUGE)),
    ("array::len(json::decode(event))", "[1, 2e999]", 2),
    # what would grow without end
    ("range::range(0, event)", 2**60, Refused("`range::range`: it would make something longer than 1048576")),
    ('string::replace(event, "a", event)', "a" * 2000, Refused("`string::replace`: it would make something longer than 1048576")),
    ("array::join(event, event[0])", ["a" * 2000] * 1000, Refused("`array::join`: it would make something longer than 1048576")),
    ('re::replace_all("a", event, event)', "a" * 2000, Refused("`re::replace_all`: it would make something longer than 1048576")),
    ("random::string(event)", 2**60, Refused("`random::string`: it would make something longer than 1048576")),
    ('"#{event}#{event}"', "a" * 600_000, Refused("`#{}` would make something longer than 1048576")),
    ("base64::encode(event)", "a" * 1_000_000, Refused("`base64::encode`: it would make something longer than 1048576")),
]  # fmt: skip


def test_what_comes_of_it() -> None:
    wrong = [
        (text, event, found) for text, event, expected in CASES if (found := outcome(text, event)) != exact(expected)
    ]
    assert not wrong


def outcome(text: str, event: object) -> object:
    found, said = read(text)
    if found is None or said:
        return Mistake("\n".join(said))
    before = repr(event)
    outcomes = [_outcome(way, event) for way in (found.evaluate, found.interpret)]
    assert repr(event) == before
    assert outcomes[0] == outcomes[1], text
    return outcomes[0]


def _outcome(evaluate: Callable[[object], object], event: object) -> object:
    try:
        return exact(evaluate(event))
    except CannotEvaluate as refused:
        return Refused(str(refused))


def exact(value: object) -> object:
    """With its type: to Python 1 == 1.0 == True."""
    return value if isinstance(value, Refused | Mistake) else (type(value), value)
