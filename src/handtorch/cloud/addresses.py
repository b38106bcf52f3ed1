"""What an address says of itself."""

from __future__ import annotations

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Nobody but this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
