"""The slow truth about times that are text: a regular expression and datetime, one text after the other.

Shares no code with the package, and reads what ``docs/howto/logs.md`` says.
"""

import datetime as dt
import re

DATE = r"(?P<year>\d{4})(?P<dash>-?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)"
TIME = r"(?P<hour>\d\d)(?:(?P<colon>:?)(?P<minute>\d\d)(?:(?P=colon)(?P<second>\d\d)(?:[.,](?P<decimals>\d{1,9}))?)?)?"
ZONE = r" ?(?:(?P<utc>[Zz]|UTC|GMT)|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?)"
TEXT = re.compile(f"{DATE}(?:[Tt ]{TIME})?(?:{ZONE})?", re.ASCII)
EPOCH = dt.datetime(1970, 1, 1)


def read(text):
    """Nanoseconds from 1970 on the clock that the text shows, and whether it is UTC's; None for what is not a time."""
    found = TEXT.fullmatch(text.strip())
    if found is None:
        return None
    numbers = [int(found[name] or 0) for name in ("year", "month", "day", "hour", "minute", "second")]
    try:
        elapsed = dt.datetime(*numbers) - EPOCH
    except ValueError:
        return None
    hours, minutes = int(found["hours"] or 0), int(found["minutes"] or 0)
    if hours > 23 or minutes > 59:
        return None
    ahead = (hours * 3600 + minutes * 60) * (-1 if found["sign"] == "-" else 1)
    seconds = elapsed.days * 86400 + elapsed.seconds - ahead
    nanoseconds = seconds * 10**9 + int((found["decimals"] or "").ljust(9, "0"))
    return nanoseconds, bool(found["utc"] or found["sign"])
