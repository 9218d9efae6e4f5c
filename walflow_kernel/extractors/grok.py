"""`grok|%{IP:client} %{WORD:method}|`: finds the first place where all patterns match, and returns a record of the
named ones.

`%{WORD:method}` is the pattern WORD, stored as `method`. `%{WORD}` is matched and not stored. The rest is a regular
expression in RE2's syntax. The patterns have the names of logstash's. They are written for RE2, which has no
look-around: a pattern ends at a word boundary, or where what follows it begins.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import Final

from walflow_kernel.extractors.contract import NO_MATCH, BadExtractor, Extract, of_bytes, shown
from walflow_kernel.extractors.re import NAMED, compiled
from walflow_kernel.std.re import Pattern

_LONGEST: Final = 1 << 16  # the most characters of the regular expression
_reference = re.compile(r"%\{([^{}]*)\}")
_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch

_MONTH: Final = (
    r"\b(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b"
)
_HEXTETS: Final = r"[0-9A-Fa-f]{1,4}"
_DEFINED: Final[Mapping[str, str]] = {
    # words and numbers
    "WORD": r"\b\w+\b",
    "NOTSPACE": r"\S+",
    "SPACE": r"\s*",
    "DATA": r".*?",
    "GREEDYDATA": r".*",
    "QUOTEDSTRING": r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`",
    "QS": "%{QUOTEDSTRING}",
    "INT": r"[+-]?[0-9]+",
    "POSINT": r"\b[1-9][0-9]*\b",
    "NONNEGINT": r"\b[0-9]+\b",
    "BASE10NUM": r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)",
    "NUMBER": "%{BASE10NUM}",
    "BASE16NUM": r"[+-]?(?:0[xX])?[0-9A-Fa-f]+",
    "BASE16FLOAT": r"\b[+-]?(?:0[xX])?(?:[0-9A-Fa-f]+(?:\.[0-9A-Fa-f]*)?|\.[0-9A-Fa-f]+)\b",
    "UUID": r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "URN": r"urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:[0-9A-Za-z()+,.:=@;$_!*'/?#%-]+",
    # names and addresses
    "USERNAME": r"[A-Za-z0-9._-]+",
    "USER": "%{USERNAME}",
    "EMAILLOCALPART": r"[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+)*",
    "EMAILADDRESS": "%{EMAILLOCALPART}@%{HOSTNAME}",
    "HTTPDUSER": "%{EMAILADDRESS}|%{USER}",
    "MAC": "%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC}",
    "CISCOMAC": r"(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}",
    "WINDOWSMAC": r"(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}",
    "COMMONMAC": r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}",
    "IPV4": r"\b(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}"
    r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\b",
    "IPV6": "(?:"
    + "|".join(
        [
            f"(?:{_HEXTETS}:){{6}}%{{IPV4}}",
            f"(?:{_HEXTETS}:){{7}}{_HEXTETS}",
            *(f"(?:{_HEXTETS}:){{1,{n}}}(?::{_HEXTETS}){{1,{7 - n}}}" for n in range(6, 0, -1)),
            f"::(?:{_HEXTETS}:){{0,5}}%{{IPV4}}",
            f"::(?:{_HEXTETS}:){{0,6}}{_HEXTETS}",
            f"(?:{_HEXTETS}:){{1,7}}:",
            "::",
        ]
    )
    + r")(?:%[0-9A-Za-z._-]+)?",
    "IP": "%{IPV6}|%{IPV4}",
    "HOSTNAME": r"\b[0-9A-Za-z](?:[0-9A-Za-z-]{0,62})(?:\.[0-9A-Za-z][0-9A-Za-z-]{0,62})*\.?",
    "HOST": "%{HOSTNAME}",
    "IPORHOST": "%{IP}|%{HOSTNAME}",
    "HOSTPORT": "(?:%{IPORHOST}):%{POSINT}",
    # paths and URLs
    "PATH": "%{UNIXPATH}|%{WINPATH}",
    "UNIXPATH": r"(?:/[\w_%!$@:.,+~-]*)+",
    "TTY": r"/dev/(?:pts|tty(?:[pq])?)(?:\w+)?/?(?:[0-9]+)?",
    "WINPATH": r"(?:[A-Za-z]+:|\\)(?:\\[^\\?*]*)+",
    "URIPROTO": r"[A-Za-z][A-Za-z0-9+.-]*",
    "URIHOST": r"(?:%{IPORHOST})(?::%{POSINT})?",
    "URIPATH": r"(?:/[A-Za-z0-9$.+!*'(){},~:;=@#%&_-]*)+",
    "URIPARAM": r"\?[A-Za-z0-9$.+!*'|(){},~@#%&/=:;_?\[\]<>-]*",
    "URIPATHPARAM": "%{URIPATH}(?:%{URIPARAM})?",
    "URI": "%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?(?:%{URIHOST})?(?:%{URIPATHPARAM})?",
    # times
    "MONTH": _MONTH,
    "MONTHNUM": "1[0-2]|0?[1-9]",
    "MONTHNUM2": "0[1-9]|1[0-2]",
    "MONTHDAY": "0[1-9]|[12][0-9]|3[01]|[1-9]",
    "DAY": r"(?i:mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)",
    "YEAR": r"[0-9]{4}|[0-9]{2}",
    "HOUR": "2[0-3]|[01]?[0-9]",
    "MINUTE": "[0-5][0-9]",
    "SECOND": "(?:60|[0-5]?[0-9])(?:[:.,][0-9]+)?",
    "TIME": "%{HOUR}:%{MINUTE}(?::%{SECOND})?",
    "DATE_US": "%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}",
    "DATE_EU": "%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}",
    "DATE": "%{DATE_US}|%{DATE_EU}",
    "DATESTAMP": "%{DATE}[- ]%{TIME}",
    "TZ": "[A-Z]{3,4}",
    "ISO8601_TIMEZONE": "Z|[+-]%{HOUR}(?::?%{MINUTE})?",
    "ISO8601_SECOND": "%{SECOND}",
    "TIMESTAMP_ISO8601": "%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?%{ISO8601_TIMEZONE}?",
    "DATESTAMP_RFC822": "%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}",
    "DATESTAMP_RFC2822": "%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}",
    "DATESTAMP_OTHER": "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}",
    "DATESTAMP_EVENTLOG": "%{YEAR}%{MONTHNUM2}%{MONTHDAY}%{HOUR}%{MINUTE}%{SECOND}",
    "HTTPDATE": "%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}",
    "HTTPDERROR_DATE": "%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}",
    "SYSLOGTIMESTAMP": "%{MONTH} +%{MONTHDAY} %{TIME}",
    # lines of logs
    "PROG": r"[!-Z\\^-~]+",
    "SYSLOGPROG": r"%{PROG:program}(?:\[%{POSINT:pid}\])?",
    "SYSLOGHOST": "%{IPORHOST}",
    "SYSLOGFACILITY": "<%{NONNEGINT:facility}.%{NONNEGINT:priority}>",
    "SYSLOGBASE": "%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource} %{SYSLOGPROG}:",
    "SYSLOGLINE": "%{SYSLOGBASE} %{GREEDYDATA:message}",
    "COMMONAPACHELOG": r"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \[%{HTTPDATE:timestamp}\] "
    r'"(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" '
    r"%{NUMBER:response} (?:%{NUMBER:bytes}|-)",
    "COMBINEDAPACHELOG": "%{COMMONAPACHELOG} %{QS:referrer} %{QS:agent}",
    "LOGLEVEL": r"(?i:trace|debug|notice|info(?:rmation)?|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|severe"
    r"|emerg(?:ency)?|alert)",
}


def extractor(argument: str) -> Extract:
    fields: list[str] = []
    regex = compiled(_numbered(_expanded(argument), fields))
    numbers = dict(regex.named)
    groups = [(field, numbers[f"g{number}"]) for number, field in enumerate(fields)]
    return of_bytes(partial(_read, regex, groups))


def _read(regex: Pattern, groups: Sequence[tuple[str, int]], text: bytes) -> object:
    """If two groups have the same name, the first one that took part in the match counts."""
    spans = regex.spans(text)
    if spans is None:
        return NO_MATCH
    found: dict[str, object] = {}
    for field, number in groups:
        begin, end = spans[number]
        if begin >= 0:
            found.setdefault(field, text[begin:end].decode(errors="replace"))
    return found


def _expanded(text: str) -> str:
    """`%{NAME:field}` is replaced by `(?<field>…)`."""
    made = "".join(_parts(text))
    if len(made) > _LONGEST:
        raise BadExtractor(f"it makes a regular expression longer than {_LONGEST}")
    return made


def _parts(text: str) -> Iterator[str]:
    end = 0
    for reference in _reference.finditer(text):
        yield text[end : reference.start()]
        end = reference.end()
        name, colon, field = (part.strip() for part in reference[1].partition(":"))
        if not _name(name):
            raise BadExtractor(f"`{shown(reference[0])}` is written `%{{NAME}}` or `%{{NAME:field}}`")
        if colon and (not field or any(character in ":<>" for character in field)):
            raise BadExtractor(f"`{shown(reference[0])}` has no field of such a name")
        yield f"(?<{field}>{_pattern(name)})" if colon else f"(?:{_pattern(name)})"
    yield text[end:]


@lru_cache(len(_DEFINED))
def _pattern(name: str) -> str:
    if name not in _DEFINED:
        near = get_close_matches(name.upper(), _DEFINED, 1)
        raise BadExtractor(f"there is no pattern `{shown(name)}`" + (f"; did you mean `{near[0]}`?" if near else ""))
    return _expanded(_DEFINED[name])


def _numbered(regex: str, fields: list[str]) -> str:
    """The names of groups are moved to `fields`: a name may occur twice, and may contain characters that RE2 does not
    allow."""

    def numbered(found: re.Match[str]) -> str:
        if found[1] is None:  # an escaped character, or one within brackets
            return found[0]
        if not found[1]:
            raise BadExtractor("a group `(?<>…)` has no name")
        fields.append(found[1])
        return f"(?P<g{len(fields) - 1}>"

    return NAMED.sub(numbered, regex)
