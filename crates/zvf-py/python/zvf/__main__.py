"""The ``zvf`` command: ``python -m zvf``."""

from __future__ import annotations

import sys

from . import _zvf


def main() -> int:
    """Run the command line of this process and return its exit code."""
    return _zvf.run_program(["zvf", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
