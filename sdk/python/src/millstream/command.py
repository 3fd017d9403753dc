"""The `millstream` command of a wheel that carries the program: becomes it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

PROGRAM = Path(__file__).resolve().parent / "program" / "millstream"


def main() -> NoReturn:
    """Runs the program in place of this process, so that signals and exit code are its own."""
    if not PROGRAM.is_file():
        sys.exit("millstream: this installation has the SDK without the program (a wheel for another system, or from source); "
                 "build the program, or install a wheel for this platform")
    os.execv(PROGRAM, [sys.argv[0], *sys.argv[1:]])
