"""When bytes came, by the kernel's stamp: not when a process that had to be woken for them ran.

Linux stamps every packet of a socket that asks for it (SO_TIMESTAMPNS), also those of a TCP stream:
a read comes with the stamp of the last packet it took bytes from. Elsewhere there is none."""

from __future__ import annotations

import socket
import struct
import sys
import time

_STAMPS = 35                            # SO_TIMESTAMPNS; Python has no name for it
_TIMESPEC = struct.Struct("@ll")
_ROOM = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
_HAS_STAMPS = sys.platform == "linux"


def stamp(sock: socket.socket) -> None:
    """From now on what comes is stamped, where the system does that."""
    if _HAS_STAMPS:
        sock.setsockopt(socket.SOL_SOCKET, _STAMPS, 1)


def received(sock: socket.socket, count: int) -> tuple[bytes, int | None]:
    """At most so many bytes, and when the last of them came by the monotonic clock; None where
    nobody knows. A clock that was set meanwhile can make it anything: the caller knows bounds."""
    if not _HAS_STAMPS:
        return sock.recv(count), None
    data, extra, _, _ = sock.recvmsg(count, _ROOM)
    for level, kind, value in extra:
        if (level, kind) == (socket.SOL_SOCKET, _STAMPS) and len(value) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(value)
            ago_ns = time.time_ns() - (seconds * 1_000_000_000 + nanoseconds)
            return data, time.monotonic_ns() - ago_ns
    return data, None
