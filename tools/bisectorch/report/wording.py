"""How quantities, dates and other people's text are written in every report."""

from __future__ import annotations

import datetime
import math
import unicodedata
from collections.abc import Sequence

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_COUNTS = (
    (1e9, "G instructions"),
    (1e6, "M instructions"),
    (1e3, "k instructions"),
    (1.0, "instructions"),
)
_PLAIN = ((1.0, ""),)
_STEPS = {"seconds": _SECONDS, "bytes": _BYTES, "instructions": _COUNTS}

SHORT = 10
"""Digits of an abbreviated object name, as the published account writes them."""

_HIDDEN = frozenset({"Cc", "Cs", "Co", "Cn", "Zl", "Zp"})
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def one_line(text: str, limit: int | None = None) -> str:
    r"""Foreign text that is safe on a terminal: one line, nothing that acts instead of showing.

    Control characters (the escape that starts a terminal command among them), separators of
    lines, lone surrogates and marks that turn the direction of writing are shown as escapes such
    as ``\x1b``. With ``limit``, longer text ends in an ellipsis.
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character in _BIDI or unicodedata.category(character) in _HIDDEN:
        return character.encode("unicode_escape").decode("ascii")
    return character


def short(sha: str) -> str:
    """An abbreviated object name."""
    return one_line(sha[:SHORT])


def day(seconds: float) -> str:
    """The date, in UTC, of a time in seconds since the epoch; a dash where there is none."""
    return _when(seconds, "%Y-%m-%d")


def moment(seconds: float) -> str:
    """The date and the minute, in UTC, of a time in seconds since the epoch."""
    return _when(seconds, "%Y-%m-%d %H:%M UTC")


def _when(seconds: float, form: str) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "–"


def which_build(salt: int) -> str:
    """Of a commit's builds, in words; nothing for the usual one."""
    return f"build {salt + 1}" if salt else ""


def duration(seconds: float) -> str:
    """How long something took, in the largest two units that say something."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def scale(values: Sequence[float], unit: str) -> tuple[float, str]:
    """The divisor and the name of the unit in which these values read best together."""
    steps = _STEPS.get(unit, _PLAIN)
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    for size, name in steps:
        if largest >= size:
            return size, name or unit
    size, name = steps[-1]
    return (size, name or unit) if largest else (steps[0][0], steps[0][1] or unit)


def digits(value: float, *, sign: bool = False) -> str:
    """Three significant digits or all before the point, never an exponent for common sizes."""
    if not math.isfinite(value):
        return "–"
    plus = "+" if sign and value > 0 else ""
    size = abs(float(f"{value:.3g}"))  # 9.999 is written as 10.0
    if size and not 1e-4 <= size < 1e7:
        return f"{plus}{value:.3g}"
    decimals = 2 if not size else max(0, 2 - math.floor(math.log10(size)))
    return f"{plus}{value:.{decimals}f}"


def quantity(value: float, unit: str, *, sign: bool = False) -> str:
    """One value in its unit: ``12.4 µs``."""
    size, name = scale([value], unit)
    return f"{digits(value / size, sign=sign)} {name}".rstrip()


def quantities(values: Sequence[float], unit: str) -> str:
    """Several values in one unit: ``12.4 12.6 12.1 µs``."""
    size, name = scale(values, unit)
    return f"{' '.join(digits(value / size) for value in values)} {name}".rstrip()


def interval(low: float, high: float, unit: str, *, sign: bool = False) -> str:
    """A range of values in one unit: ``[11.9, 12.9] µs``."""
    size, name = scale([low, high], unit)
    bounds = ", ".join(digits(value / size, sign=sign) for value in (low, high))
    return f"[{bounds}] {name}".rstrip()


def percent(ratio: float) -> str:
    """The change that a ratio means: ``+34.2 %`` for 1.342."""
    return f"{digits((ratio - 1) * 100, sign=True)} %"


def percent_interval(interval: tuple[float, float]) -> str:
    """The interval of a change: ``[+31.0, +37.5] %``."""
    low, high = (digits((ratio - 1) * 100, sign=True) for ratio in interval)
    return f"[{low}, {high}] %"


def times(ratio: float) -> str:
    """A ratio: ``×1.342``."""
    return f"×{ratio:.3f}" if ratio < 10 else f"×{digits(ratio)}"


def times_interval(interval: tuple[float, float]) -> str:
    """The interval of a ratio: ``[1.310, 1.375]``."""
    low, high = (times(ratio)[1:] for ratio in interval)
    return f"[{low}, {high}]"


def share(probability: float) -> str:
    """A probability, never rounded up to certainty: ``99.2 %``, ``> 99.9 %``."""
    if not math.isfinite(probability):
        return "–"
    if probability > 0.999:
        return "> 99.9 %"
    if 0 < probability < 0.001:
        return "< 0.1 %"
    return f"{probability * 100:.1f} %"


def size_of(relative: float) -> str:
    """A relative size without a sign: ``3 %`` for 0.03."""
    return f"{digits_short(relative * 100)} %" if math.isfinite(relative) else "any size"


def share_of(deviation: float) -> str:
    """A standard deviation in logarithms as a relative size: ``0.31 %`` for 0.0031."""
    return f"{digits_short(math.expm1(deviation) * 100)} %"


def digits_short(value: float) -> str:
    """At most two significant digits after what is certain: ``3``, ``3.2``, ``12``."""
    return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 run``, ``2 runs``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
