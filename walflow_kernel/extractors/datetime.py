"""`datetime|%Y-%m-%d %H:%M:%S|`: reads a time. The result is in nanoseconds since 1970."""

from functools import partial

from walflow_kernel import calendar
from walflow_kernel.calendar import DateFormat, NotADate
from walflow_kernel.errors import CannotApply
from walflow_kernel.extractors.contract import NO_MATCH, BadExtractor, Extract, of_string


def extractor(argument: str) -> Extract:
    try:
        return of_string(partial(_read, calendar.read_format(argument)))
    except CannotApply as refused:
        raise BadExtractor(str(refused)) from None


def _read(format_: DateFormat, text: str) -> object:
    try:
        return calendar.read(text, format_)
    except NotADate:
        return NO_MATCH
