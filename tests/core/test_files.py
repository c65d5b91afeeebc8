from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from algoprobe.core.errors import AlgoprobeError
from algoprobe.core.files import read_json, read_json_lines, write_json, write_text
from algoprobe.core.run import RunFolder, find_run


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with pytest.raises(AlgoprobeError, match=r"a\.json: the disk is full"):
                write_json(path, {"new": 2})
        assert read_json(path) == {"old": 1}
        assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_infinities_are_refused(tmp_path):
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_damaged_json_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"a": ')
    with pytest.raises(AlgoprobeError, match=r"config\.json is damaged"):
        read_json(tmp_path / "config.json")


def test_a_torn_last_line_is_left_out_and_a_torn_middle_is_not(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_json_lines(path) == [{"step": 1}, {"step": 2}]
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(AlgoprobeError, match="line 2"):
        read_json_lines(path)


def test_metrics_are_cut_back_to_a_step(tmp_path):
    folder = RunFolder(tmp_path)
    folder.append("metrics.jsonl", [{"step": s} for s in (10, 20, 30)])
    with open(folder.file("metrics.jsonl"), "a") as file:
        file.write('{"step": 4')
    folder.truncate_metrics(20)
    assert folder.metrics == [{"step": 10}, {"step": 20}]


def test_a_folder_has_one_writer_and_the_lock_dies_with_it(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with folder.lock():
        (folder.path / ".state.pt.1.tmp").write_text("left over")
        with pytest.raises(AlgoprobeError, match=f"being written by process {os.getpid()}"), folder.lock():
            pass
    with folder.lock():
        assert not list(folder.path.glob(".*.tmp"))


def test_runs_are_found_by_path_and_mistakes_get_the_nearest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(Path("runs/search-x/abc/config.json"), "{}")
    assert find_run("runs/search-x/abc").path == find_run("runs/search-x").path == Path("runs/search-x/abc")
    with pytest.raises(AlgoprobeError, match=r"'runs/search-x/abd' is not there.*Did you mean 'runs/search-x/abc'"):
        find_run("runs/search-x/abd")
    write_text(Path("runs/search-x/abd/config.json"), "{}")
    with pytest.raises(AlgoprobeError, match="holds 2 runs"):
        find_run("runs/search-x")
    with pytest.raises(AlgoprobeError, match="'zoo:nothing-like-it' is not in the zoo"):
        find_run("zoo:nothing-like-it")


def test_a_lock_that_cannot_be_written_names_its_file(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(AlgoprobeError, match=r"cannot write .*lock: "), RunFolder(tmp_path).lock():
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
