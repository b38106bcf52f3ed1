"""Source -> compiled program, through the cache; errors that name the kernel."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from handtorch import knobs
from handtorch.errors import KernelError
from handtorch.runtime.opencl.cache import ProgramCache
from handtorch.runtime.opencl.discover import FoundDevice
from handtorch.runtime.opencl.platforms import facts_of
from handtorch.store.atomic import write_atomically

OPTIONS = "-cl-std=CL1.2"

# clang's form, `file.cl:12:3: error: message`, and PoCL's, `error: file.cl:12:3 <...>: message`.
_PLACE = r"(?P<file>\S+?):(?P<line>\d+):\d+"
_ERRORS = (re.compile(rf"^{_PLACE}: (?:fatal )?error: (?P<text>.*)", re.MULTILINE),
           re.compile(rf"^error: {_PLACE}(?: <[^>\n]*>)?: (?P<text>.*)", re.MULTILINE))


def build(cl: Any, context: Any, found: FoundDevice, source: str, given: bytes | None = None
          ) -> tuple[Any, str]:
    """The compiled program of `source` for this device, and where it came from: `file` is the
    binary `given`, which the caller trusts, `cache` ours, `source` the compiler.

    Where the driver hands out binaries cheaply they are kept in our cache; PoCL keeps its own
    cache (in our folder), and asking it for a binary would compile everything a second time."""
    keep = facts_of(found.spec.platform).binaries_cheap
    cache = ProgramCache(found.spec, OPTIONS) if keep else None
    known = {"file": given, "cache": cache.read(source) if cache is not None else None}
    for origin, binary in known.items():
        if binary is None:
            continue
        try:
            program = cl._cl._Program(context, [found.handle], [binary])
            program._build(OPTIONS.encode(), [found.handle])
            return program, origin
        except cl.Error:
            pass                            # the driver knows best: compile, and write it anew
    program = cl._cl._Program(context, source)
    try:
        program._build(OPTIONS.encode(), [found.handle])
    except cl.Error as e:
        log = program.get_build_info(found.handle, cl.program_build_info.LOG)
        raise compile_error(found.spec.name, source, f"{log}\n{e}") from e
    if cache is not None:
        (binary,) = program.get_info(cl.program_info.BINARIES)
        cache.write(source, binary)
    return program, "source"


def compile_error(device: str, source: str, log: str) -> KernelError:
    """Names the kernel and its line, keeps the source on disk, shows the first error only."""
    name = hashlib.sha256(source.encode()).hexdigest()[:12]
    kept = knobs.cache_folder() / "failed" / f"{name}.cl"
    try:
        write_atomically(kept, f"{source}\n/* {device} said:\n{log}\n*/\n".encode())
        fix = f"the whole source and log are in {kept}"
    except OSError as e:
        fix = f"the source could not be kept in {kept.parent}: {e.strerror}"
    what, why = _first_error(source, log)
    return KernelError(f"{what} does not compile on {device}", why=why, fix=fix)


def _first_error(source: str, log: str) -> tuple[str, str]:
    """Which kernel, and what is wrong with it. Only names that `source` gives with `#line` are
    believed: drivers call the whole by a name of their own."""
    for form in _ERRORS:
        if found := form.search(log):
            named = f'#line 1 "{found["file"]}"' in source
            what = f"kernel {found['file']}" if named else "a program"
            return what, f"line {found['line']}: {found['text']}"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    # A linker's log: PoCL puts what it misses on the line after the one that says error.
    at = next((i for i, line in enumerate(lines) if "error" in line.lower()), 0)
    return "a program", " ".join(lines[at:at + 2 if lines[at].endswith(":") else at + 1])
