from __future__ import annotations

import os

from algoprobe.core.compilation import find_a_cache


def test_kernels_find_a_cache_where_nothing_can_be_written(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    find_a_cache()
    assert "NUMBA_CACHE_DIR" not in os.environ  # the package itself can be written here
    monkeypatch.setattr(os, "access", lambda *_: False)
    find_a_cache()
    assert "algoprobe-kernels" in os.environ.pop("NUMBA_CACHE_DIR")
