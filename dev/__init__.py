"""What the Makefile calls: `python3 -m dev setup|run|test|check|oclgrind|aarch64|bench|clean`.

Needs the standard library only, because it runs before anything is installed. This file keeps to
syntax that older Pythons read, so that they can say what is wrong with them.
"""

import shutil
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the only line an older Python is meant to reach
    NEWER = [f"python3.{minor}" for minor in (14, 13, 12, 11) if shutil.which(f"python3.{minor}")]
    raise SystemExit(
        f"HandTorch needs Python 3.11 or later; {sys.executable} is "
        f"{sys.version_info[0]}.{sys.version_info[1]}\n  try: "
        + (f"make PYTHON={NEWER[0]} ..." if NEWER else "install Python 3.11 or later")
    )
