"""Sizes in bytes, such as "512MiB"."""

_SIZE_UNITS = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def bytes_of(size: int | str) -> int:
    if isinstance(size, int):
        return size
    digits = size.rstrip("KMGiBkmgb ")
    unit = size[len(digits) :].strip().lower()
    if not digits.isdigit() or unit not in _SIZE_UNITS:
        raise ValueError(f"size {size!r} is not like '512MiB' or '4GiB'")
    return int(digits) * _SIZE_UNITS[unit]
