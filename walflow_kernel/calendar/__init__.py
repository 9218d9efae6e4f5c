"""Times as text: `%Y-%m-%d %H:%M:%S%.f %:z`, in the notation of `strftime` as chrono, tremor's library, extends it. A
time is a number of nanoseconds since 1970, in UTC.

`civil` tells date and time of day for a time in a time zone. It is the only module of the kernel that imports
`datetime`, and like all others it never reads a clock. `formats` parses a format; `writing` and `reading` use it.
"""

from walflow_kernel.calendar.civil import (
    UTC as UTC,
    Civil as Civil,
    Zone as Zone,
    civil_time as civil_time,
    zone as zone,
)
from walflow_kernel.calendar.date_reader import NotADate as NotADate, read as read, read_format as read_format
from walflow_kernel.calendar.date_writer import written as written
from walflow_kernel.calendar.formats import DateFormat as DateFormat, date_format as date_format
