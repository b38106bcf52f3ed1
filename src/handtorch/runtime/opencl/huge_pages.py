"""Asking Linux to keep memory in huge pages.

A walk down the columns of a matrix touches another page in every row. With pages of 4 KB that is
more than a processor keeps the addresses of; with pages of 2 MB it is not. Most Linux machines give
huge pages only to who asks for them (NumPy does), and drivers do not ask."""

from __future__ import annotations

import ctypes
import mmap

HUGE_PAGE = 2 << 20
_LIBC = ctypes.CDLL(None)


def huge_pages(nbytes: int) -> int:
    """How many are worth it: a last one only if half of it is used."""
    return (nbytes + HUGE_PAGE // 2) // HUGE_PAGE


def prefer_huge_pages(address: int, count: int) -> None:
    """`count` of them from `address` on, the start of one; a system that has none does nothing."""
    assert address % HUGE_PAGE == 0, hex(address)
    advice, call = getattr(mmap, "MADV_HUGEPAGE", None), getattr(_LIBC, "madvise", None)
    if advice is not None and call is not None:
        call(ctypes.c_void_p(address), ctypes.c_size_t(count * HUGE_PAGE), ctypes.c_int(advice))
