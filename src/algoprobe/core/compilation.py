"""Where compiled kernels are kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def find_a_cache() -> None:
    """Give numba a folder to keep kernels in when neither the package nor the user's cache can be written."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache")
    while not home.exists() and home != home.parent:
        home = home.parent
    package = Path(__file__).parents[1]
    if "NUMBA_CACHE_DIR" in os.environ or os.access(package, os.W_OK) or os.access(home, os.W_OK):
        return
    os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"algoprobe-kernels-{os.getuid()}")
