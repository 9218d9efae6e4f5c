"""What a command and the daemon end with, see docs/reference/exit-codes.md. The numbers are those of `sysexits.h`."""

EX_FINDINGS = 1
EX_USAGE = 2
EX_DATAERR = 65
EX_NOINPUT = 66
EX_UNAVAILABLE = 69
EX_SOFTWARE = 70
EX_CANTCREAT = 73
EX_IOERR = 74
EX_TEMPFAIL = 75
EX_CONFIG = 78
