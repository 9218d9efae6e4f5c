"""`grok`: each named pattern with what it matches as a whole, and what it does not."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given, strategies as st

from walflow_kernel.extractors import NO_MATCH, extractor
from walflow_kernel.extractors.grok import _DEFINED

WHOLE = {  # name -> what it matches, and what it does not
    "WORD": (["a", "a_1"], ["a b", "a-b", ""]),
    "NOTSPACE": (["a-b"], ["a b", ""]),
    "SPACE": (["", " \t"], ["a"]),
    "DATA": (["", "a b"], ["a\nb"]),
    "GREEDYDATA": (["", "a b"], ["a\nb"]),
    "QUOTEDSTRING": (['"a \\" b"', "'a'", "`a`", '""'], ['"a', "a", '"a" b"']),
    "QS": (['"a"'], ["a"]),
    "INT": (["1", "-12", "+3"], ["1.5", "", "a"]),
    "POSINT": (["1", "120"], ["0", "-1", "01"]),
    "NONNEGINT": (["0", "12"], ["-1"]),
    "BASE10NUM": (["1", "-1.5", ".5"], ["1.", "1e3", "."]),
    "NUMBER": (["1.5"], ["a"]),
    "BASE16NUM": (["0xFf", "ff", "-1"], ["0x", "g"]),
    "BASE16FLOAT": (["0xf.f", "f"], ["g"]),
    "UUID": (["123e4567-e89b-12d3-a456-426614174000"], ["123e4567-e89b-12d3-a456-42661417400"]),
    "URN": (["urn:isbn:0451450523"], ["urn:", "isbn:1"]),
    "USERNAME": (["a.b-c_1"], ["a@b"]),
    "USER": (["a"], ["a b"]),
    "EMAILLOCALPART": (["a.b+c"], [".a", "a@b"]),
    "EMAILADDRESS": (["a.b@example.com"], ["a.b", "@example.com"]),
    "HTTPDUSER": (["a@b.c", "a", "-"], ["a b"]),
    "MAC": (["00:11:22:aa:bb:cc", "00-11-22-aa-bb-cc", "0011.22aa.bbcc"], ["00:11:22:aa:bb", "0011.22aa"]),
    "CISCOMAC": (["0011.22aa.bbcc"], ["00:11:22:aa:bb:cc"]),
    "WINDOWSMAC": (["00-11-22-aa-bb-cc"], ["00:11:22:aa:bb:cc"]),
    "COMMONMAC": (["00:11:22:aa:bb:cc"], ["00-11-22-aa-bb-cc"]),
    "IPV4": (["1.2.3.4", "255.0.0.1"], ["256.1.1.1", "1.2.3", "1.2.3.4.5", "01.2.3.4"]),
    "IPV6": (["::1", "1:2:3:4:5:6:7:8", "1:2::8", "::", "fe80::1%eth0", "::ffff:1.2.3.4"], ["1:2", "1::2::3", "g::"]),
    "IP": (["1.2.3.4", "::1"], ["a"]),
    "HOSTNAME": (["a", "a-b.example.com", "1.2.3.4", "a."], ["a_b", "-a", ""]),
    "HOST": (["a.b"], ["a b"]),
    "IPORHOST": (["::1", "a.b"], ["a b"]),
    "HOSTPORT": (["a.b:80", "::1:80"], ["a.b", "a:0"]),
    "PATH": (["/a/b", "C:\\a\\b"], ["a"]),
    "UNIXPATH": (["/", "/a/b.c"], ["a/b", "/a b"]),
    "TTY": (["/dev/pts/0", "/dev/tty1"], ["/dev/null", "pts/0"]),
    "WINPATH": (["C:\\a b\\c", "\\\\host\\share"], ["C:", "a"]),
    "URIPROTO": (["http", "svn+ssh"], ["1a", ""]),
    "URIHOST": (["a.b", "a.b:80"], ["a b"]),
    "URIPATH": (["/a/b"], ["a", "/a?b"]),
    "URIPARAM": (["?a=b&c"], ["a=b"]),
    "URIPATHPARAM": (["/a", "/a?b=c"], ["a"]),
    "URI": (["http://example.com/a?b=c", "http://u:p@h:80/", "file:///a"], ["example.com", "http:"]),
    "MONTH": (["Jan", "january", "MAY"], ["Janu", "13"]),
    "MONTHNUM": (["1", "01", "12"], ["0", "13"]),
    "MONTHNUM2": (["01", "12"], ["1", "13"]),
    "MONTHDAY": (["1", "01", "31"], ["0", "32"]),
    "DAY": (["Mon", "friday"], ["Mond"]),
    "YEAR": (["2026", "26"], ["026", "1"]),
    "HOUR": (["0", "00", "23"], ["24"]),
    "MINUTE": (["00", "59"], ["0", "60"]),
    "SECOND": (["0", "59", "60", "59.123", "59,1"], ["61"]),
    "TIME": (["12:30", "12:30:59.5"], ["12", "25:00"]),
    "DATE_US": (["12/31/2026", "1-2-26"], ["31/12/2026"]),
    "DATE_EU": (["31.12.2026", "1/2/26"], ["12.31.2026"]),
    "DATE": (["12/31/2026", "31.12.2026"], ["2026-12-31"]),
    "DATESTAMP": (["31.12.2026 12:30", "12/31/26-12:30:01"], ["31.12.2026"]),
    "TZ": (["UTC", "CEST"], ["utc", "U"]),
    "ISO8601_TIMEZONE": (["Z", "+01:00", "-0130", "+01"], ["01:00"]),
    "ISO8601_SECOND": (["59.1"], ["61"]),
    "TIMESTAMP_ISO8601": (["2026-11-22T20:00:00.5Z", "2026-11-22 20:00"], ["2026-11-22", "22-11"]),
    "DATESTAMP_RFC822": (["Sun Nov 22 2026 20:00:00 UTC"], ["Sun, 22 Nov 2026"]),
    "DATESTAMP_RFC2822": (["Sun, 22 Nov 2026 20:00:00 +0100"], ["Sun 22 Nov"]),
    "DATESTAMP_OTHER": (["Sun Nov 22 20:00:00 UTC 2026"], ["Sun Nov 22"]),
    "DATESTAMP_EVENTLOG": (["20261122200000"], ["2026"]),
    "HTTPDATE": (["10/Oct/2000:13:55:36 -0700"], ["10/10/2000:13:55:36 -0700"]),
    "HTTPDERROR_DATE": (["Sun Nov 22 20:00:00 2026"], ["Nov 22"]),
    "SYSLOGTIMESTAMP": (["Nov 22 20:00:00", "Mar  7 10:00:01"], ["2026-11-22"]),
    "PROG": (["sshd", "a/b-c"], ["a b", "a[1]"]),
    "SYSLOGPROG": (["sshd[42]", "cron"], ["a b"]),
    "SYSLOGHOST": (["web1"], ["a b"]),
    "SYSLOGFACILITY": (["<1.2>"], ["1.2"]),
    "SYSLOGBASE": (["Mar  7 10:00:01 web1 sshd[42]:", "Mar 7 10:00:01 <1.2> ::1 cron:"], ["sshd:"]),
    "SYSLOGLINE": (["Mar  7 10:00:01 web1 sshd[42]: no"], ["no"]),
    "COMMONAPACHELOG": (['1.2.3.4 - a [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 5',
    '::1 - - [10/Oct/2000:13:55:36 -0700] "x" 400 -'], ["GET /"]),
    "COMBINEDAPACHELOG": (['1.2.3.4 - a [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 5 "-" "curl"'], ["GET /"]),
    "LOGLEVEL": (["info", "WARNING", "Err", "crit"], ["none"]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(_DEFINED))
def test_what_a_pattern_matches(name: str) -> None:
    made = extractor("grok", f"^(?:%{{{name}:whole}})$")
    matches, others = WHOLE[name]
    for text in matches:
        found = made(text)
        assert isinstance(found, dict), text
        assert found["whole"] == text
    for text in others:
        assert made(text) is NO_MATCH, text


@given(st.integers(0, 2**128 - 1), st.booleans())
def test_every_address_of_ipv6(number: int, written_out: bool) -> None:
    address = IPv6Address(number)
    text = address.exploded if written_out else address.compressed
    assert extractor("grok", "^%{IP:a}$")(text) == {"a": text}


def test_fields_of_one_name_the_first_that_matched_counts() -> None:
    made = extractor("grok", "^(?:%{INT:x}|%{WORD:x})(?: %{WORD:x})?$")
    assert made("12") == {"x": "12"}
    assert made("ab cd") == {"x": "ab"}


def test_names_of_fields_may_have_any_signs_but_a_few() -> None:
    assert extractor("grok", "%{INT:[a][b]} %{INT:@c.d} (?<e-f>x)")("1 2 x") == {
        "[a][b]": "1",
        "@c.d": "2",
        "e-f": "x",
    }


def test_what_looks_like_a_group_is_none_within_brackets_or_behind_a_backslash() -> None:
    made = extractor("grok", r"^[(?<a>]+\(?<b>(?<c>x)[]]$")
    assert made("(<a>(<b>x]") == {"c": "x"}
