"""Python values as JSON, exactly or not at all."""

from __future__ import annotations

import datetime
import decimal
import json
import re
import uuid
from typing import Any

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _replace(value: Any) -> Any:
    """What represents a value that json does not know."""
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is no JSON number")
        return str(value)
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        if value != value:
            return None  # pandas.NaT
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    module = type(value).__module__.partition(".")[0]
    if module == "pandas" and type(value).__name__ in ("NAType", "NaTType"):
        return None
    if module == "torch" and hasattr(value, "tolist"):
        return value.detach().tolist()
    kind = getattr(getattr(value, "dtype", None), "kind", None) if module == "numpy" else None
    if kind == "M" and value.ndim == 0:
        return None if str(value) == "NaT" else str(value)
    if kind in ("b", "i", "u", "f", "U") and value.dtype.itemsize <= 8 or kind == "U":
        return value.tolist()
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes cannot be stored as JSON; map the column to a field such as 'bin'")
    raise TypeError(f"{type(value).__qualname__} cannot be stored as JSON")


def _check_keys(value: Any) -> None:
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} of a dict is no str")
            _check_keys(member)
    elif isinstance(value, list | tuple):
        for member in value:
            if isinstance(member, dict | list | tuple):
                _check_keys(member)


_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_replace
).encode


def json_text(value: Any) -> bytes:
    """Compact JSON. Numbers keep their exact value; dates are ISO 8601 texts, and decimals texts of
    their digits. TypeError or ValueError: JSON cannot represent the value.
    """
    _check_keys(value)
    try:
        text = _encode(value)
    except ValueError as error:
        if "JSON compliant" in str(error):
            raise ValueError("NaN and infinity are no JSON; use None") from None
        raise
    if "\\u0000" in text and _NUL.search(text):
        raise ValueError("a text has a NUL")
    return text.encode()
