"""Figures as an operator reads them, each in a few columns of a terminal."""


def count(number: float) -> str:
    """`999`, `12,345`, `123k`, `1.2M`: six columns at the most."""
    if number < 100_000:
        return f"{number:,.0f}"
    for unit in ("k", "M", "G"):
        number /= 1000
        if number < 1000 or unit == "G":
            break
    return f"{number:.1f}{unit}" if number < 10 else f"{number:,.0f}{unit}"


def rate(events: float | None) -> str:
    """Events per second. "" if there is no such rate."""
    return "" if events is None else count(events) if events >= 10 or not events else f"{events:.1f}"


def size(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} TiB"


def short_size(number: float) -> str:
    """`5.8K`: five columns at the most."""
    for unit in ("B", "K", "M", "G"):
        if number < 1000:
            return f"{number:.0f}{unit}" if unit == "B" or number >= 10 else f"{number:.1f}{unit}"
        number /= 1024
    return f"{number:.1f}T" if number < 100 else f"{number:.0f}T"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def age(seconds: float) -> str:
    """`duration` in four columns."""
    for unit, length in (("s", 60), ("m", 60), ("h", 48), ("d", 10_000)):
        if seconds < length or unit == "d":
            return f"{seconds:.0f}{unit}"
        seconds /= 24 if unit == "h" else length
    raise AssertionError
