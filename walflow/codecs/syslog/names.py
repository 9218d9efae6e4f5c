"""What both directions name: facilities, severities, months."""

from typing import Final

SEVERITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
FACILITIES: Final = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp"),
    *("ntp", "audit", "alert", "clockd", *(f"local{number}" for number in range(8))),
)
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAY: Final = 86400
EPOCH: Final = 719163  # the day number of 1970-01-01
