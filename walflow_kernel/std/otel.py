"""cncf::otel and the modules below it: OpenTelemetry's identifiers, severities, flags and states."""

from collections.abc import Callable, Mapping
from typing import Final

from walflow_kernel.functions import Function, function
from walflow_kernel.moment import Moment
from walflow_kernel.values import is_array, is_whole

Record = dict[str, object]
_SPAN: Final = 8  # bytes
_TRACE: Final = 16


def _drawn(moment: Moment, size: int) -> bytes:
    """An identifier is never all zeros."""
    while True:
        drawn = b"".join([moment.draw().to_bytes(8, "big") for _ in range(size // 8)])
        if any(drawn):
            return drawn


def _as_string(size: int) -> Callable[[Moment], str]:
    def gen(moment: Moment) -> str:
        return _drawn(moment, size).hex()

    return gen


def _as_bytes(size: int) -> Callable[[Moment], bytes]:
    def gen(moment: Moment) -> bytes:
        return _drawn(moment, size)

    return gen


def _as_array(size: int) -> Callable[[Moment], list[object]]:
    def gen(moment: Moment) -> list[object]:
        return list(_drawn(moment, size))

    return gen


FUNCTIONS: Mapping[str, Function] = {
    f"gen_{name}_id_{kind}": function(make(size), "chance")
    for name, size in (("span", _SPAN), ("trace", _TRACE))
    for kind, make in (("string", _as_string), ("bytes", _as_bytes), ("array", _as_array))
}


def span_is_valid(span_id: object) -> Record:
    return _judged(span_id, _SPAN)


def trace_is_valid(trace_id: object) -> Record:
    return _judged(trace_id, _TRACE)


def _judged(value: object, size: int) -> Record:
    data = _identifier(value, size)
    if data is None:
        return {}
    kind = "string" if isinstance(value, str) else "binary" if isinstance(value, bytes) else "array"
    return {"kind": kind, "valid": any(data), "value": value}


def _identifier(value: object, size: int) -> bytes | None:
    """None: the value is not an identifier."""
    if isinstance(value, str) and len(value) == 2 * size and value.isalnum():
        try:
            return bytes.fromhex(value)
        except ValueError:
            return None
    if isinstance(value, bytes):
        return value if len(value) == size else None
    if is_array(value) and len(value) == size:
        found = [one for one in value if is_whole(one) and 0 <= one <= 255]
        return bytes(found) if len(found) == size else None
    return None


_INFO: Final = 9
_ERROR: Final = 17
_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def to_string(severity_number: int) -> str:
    if not 1 <= severity_number <= 4 * len(_LEVELS):
        return "Unsupported severity code"
    level, finer = divmod(severity_number - 1, 4)
    return f"{_LEVELS[level]}{finer + 1 if finer else ''}"


def indicates_error(severity_number: int) -> bool:
    return severity_number >= _ERROR


def default_severity() -> int:
    return _INFO


_SAMPLED: Final = 1


def flags_from_int(trace_flags: int) -> Record:
    flags: Record = {"sampled": trace_flags & _SAMPLED > 0}
    return flags | {f"unused{at}": trace_flags & 1 << at > 0 for at in range(1, 8)}


def flags_are_valid(trace_flags: int) -> bool:
    return trace_flags in {0, _SAMPLED}


def default_flags() -> int:
    return 0


def default_kind() -> int:
    return 1  # INTERNAL


def ok() -> Record:
    return {"code": 1, "deprecated_code": 0, "message": "Ok"}


def failed(message: str) -> Record:
    return {"code": 2, "deprecated_code": 2, "message": message}


SPAN_ID: Mapping[str, Function] = {"is_valid": function(span_is_valid)}
TRACE_ID: Mapping[str, Function] = {"is_valid": function(trace_is_valid)}
SEVERITY: Mapping[str, Function] = {
    "to_string": function(to_string),
    "indicates_error": function(indicates_error),
    "make_default": function(default_severity),
}
TRACEFLAGS: Mapping[str, Function] = {
    "from_int": function(flags_from_int),
    "is_valid": function(flags_are_valid),
    "make_default": function(default_flags),
}
SPANKIND: Mapping[str, Function] = {"make_default": function(default_kind)}
STATUS: Mapping[str, Function] = {"ok": function(ok), "error": function(failed)}
