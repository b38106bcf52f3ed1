"""Indexing, gathering and scattering."""

from __future__ import annotations

KEEP: tuple[str, ...] = ()                # ATen ops we have kernels for: not taken apart
