"""`python -m algoprobe`, and the command itself: thin, so that Ctrl-C during the first imports is answered too."""

from __future__ import annotations

import sys


def run() -> int:
    """The command line; its exit code."""
    try:
        from algoprobe.cli import main

        return main()
    except KeyboardInterrupt:
        print("algoprobe: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
