"""Object code on disk: found again, and never trusted when it is not what it says."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import graphc
from graphc.codegen.cache.object_cache import ABANDONED, MAGIC, ObjectCache
from graphc.debug.cli import main

FACTS = {"kernel": "k", "code": "l", "target": "t cpu f"}


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "cache", 1 << 20)


def only_file(cache: ObjectCache) -> Path:
    (path,) = cache.folder.glob("*/*")
    return path


def test_round_trip(cache: ObjectCache) -> None:
    assert cache.get("kernel_ab12") is None and cache.entries() == []
    cache.put("kernel_ab12", b"code\nwith lines", FACTS)
    assert cache.get("kernel_ab12") == b"code\nwith lines"
    (kept,) = cache.entries()
    assert (kept.symbol, kept.facts["kernel"]) == ("kernel_ab12", "k")
    assert cache.clear() == 1 and cache.get("kernel_ab12") is None


def test_what_is_damaged_is_removed(cache: ObjectCache, caplog: pytest.LogCaptureFixture) -> None:
    cache.put("kernel_ab12", b"code" * 100, FACTS)
    whole = only_file(cache).read_bytes()
    spoiled = [whole[:length] for length in range(0, len(whole), 13)]
    spoiled += [whole[:-1] + b"?", whole + b"more", b"garbage", MAGIC + b"{}\n", MAGIC + b"[1]\nx"]
    path = cache.folder / "ab" / "ab12.object"
    for data in spoiled:
        path.write_bytes(data)
        with caplog.at_level(logging.WARNING, "graphc.cache"):
            assert cache.get("kernel_ab12") is None
        assert not path.exists() and "compiled again" in caplog.text


def test_a_file_under_another_name_is_not_trusted(cache: ObjectCache) -> None:
    cache.put("kernel_ab12", b"code", FACTS)
    only_file(cache).rename(cache.folder / "ab" / "ab34.object")
    assert cache.get("kernel_ab34") is None


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, 3000)
    for i in range(6):
        cache.put(f"kernel_{i:02}ab", bytes(800), FACTS)
        path = tmp_path / f"{i:02}" / f"{i:02}ab.object"
        os.utime(path, (i, i))
    assert cache.get("kernel_00ab") is not None  # used now, so the last to go
    cache.shrink()
    kept = {entry.symbol for entry in cache.entries()}
    assert kept == {"kernel_00ab", "kernel_04ab", "kernel_05ab"}


def test_what_a_killed_writer_left_is_removed(cache: ObjectCache) -> None:
    cache.put("kernel_ab12", b"code", FACTS)
    old, new = cache.folder / "ab" / "x.part", cache.folder / "ab" / "y.part"
    old.write_bytes(b"")
    new.write_bytes(b"")
    past = old.stat().st_mtime - 2 * ABANDONED
    os.utime(old, (past, past))
    cache.shrink()
    assert not old.exists() and new.exists() and len(cache.entries()) == 1


def test_a_folder_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file", 1000)
    with caplog.at_level(logging.WARNING, "graphc.cache"):
        cache.put("kernel_ab12", b"code", FACTS)
        assert cache.get("kernel_ab12") is None
    assert "compiled code is not taken from or kept in" in caplog.text


# -- whose files they are -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
@pytest.mark.parametrize("part", ["folder", "part", "file"])
def test_what_others_can_write_is_not_used(
    cache: ObjectCache, caplog: pytest.LogCaptureFixture, part: str, mode: int
) -> None:
    cache.put("kernel_ab12", b"code", FACTS)
    path = only_file(cache)
    {"folder": cache.folder, "part": path.parent, "file": path}[part].chmod(mode)
    with caplog.at_level(logging.WARNING, "graphc.cache"):
        assert [cache.get("kernel_ab12") for _ in range(3)] == [None] * 3
    assert caplog.text.count("can be written by others: chmod go-w") == 1
    assert path.exists()  # nothing is done to a file of doubtful origin
    if part != "file":
        cache.put("kernel_ab34", b"code", FACTS)
        assert not list(path.parent.glob("ab34*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("part", ["folder", "part", "file"])
def test_what_belongs_to_another_user_is_not_used(
    cache: ObjectCache, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    cache.put("kernel_ab12", b"code", FACTS)
    path = only_file(cache)
    os.chown({"folder": cache.folder, "part": path.parent, "file": path}[part], 12345, -1)
    with caplog.at_level(logging.WARNING, "graphc.cache"):
        assert cache.get("kernel_ab12") is None
    assert "belongs to user 12345, not to" in caplog.text


def test_another_user_is_noticed_without_being_root(
    cache: ObjectCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put("kernel_ab12", b"code", FACTS)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with caplog.at_level(logging.WARNING, "graphc.cache"):
        assert cache.get("kernel_ab12") is None
    assert "belongs to user" in caplog.text


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder", "socket"])
def test_only_regular_files_are_read(cache: ObjectCache, kind: str) -> None:
    cache.put("kernel_ab12", b"code", FACTS)
    path = only_file(cache)
    elsewhere = cache.folder.parent / "elsewhere"
    path.rename(elsewhere)
    if kind == "link":
        path.symlink_to(elsewhere)
    elif kind == "dangling":
        path.symlink_to(elsewhere.with_name("nothing"))
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    opened = os.listdir("/proc/self/fd")
    assert cache.get("kernel_ab12") is None and cache.entries() == []
    cache.shrink()
    cache.clear()
    assert os.listdir("/proc/self/fd") == opened  # none is left open
    assert elsewhere.read_bytes().startswith(MAGIC)


def test_the_folder_is_made_private_and_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for folder in (tmp_path / "link", tmp_path / "deep" / "down"):
        cache = ObjectCache(folder, 1 << 20)
        cache.put("kernel_ab12", b"code", FACTS)
        assert cache.get("kernel_ab12") == b"code"
        for path in (folder, folder / "ab"):
            assert path.stat().st_mode & 0o777 == 0o700


def test_no_pickle_is_read_of_a_program_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphc.runtime import program

    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path / "cache"))
    graph = graphc.parse("graph g(%x: f32[2]) {\n  %1 = neg(%x) : f32[2]\n  return %1\n}")
    graphc.compile(graph)
    assert list(graphc.compile(graph).timings) == ["load"]
    monkeypatch.setattr(program.pickle, "loads", lambda data: pytest.fail("a pickle is read"))
    (tmp_path / "cache").chmod(0o777)
    assert "plan" in graphc.compile(graph).timings


def test_a_header_nested_without_end_is_damage(cache: ObjectCache) -> None:
    cache.put("kernel_ab12", b"code", FACTS)
    only_file(cache).write_bytes(MAGIC + b"[" * 200_000 + b"\n")
    assert cache.get("kernel_ab12") is None


def test_concurrent_writers_and_readers(cache: ObjectCache) -> None:
    failures: list[object] = []

    def work() -> None:
        for _ in range(50):
            cache.put("kernel_ab12", b"code" * 500, FACTS)
            content = cache.get("kernel_ab12")
            if content != b"code" * 500:
                failures.append(content)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(list(cache.folder.glob("*/*"))) == 1


PROGRAM = """
import graphc, numpy as np
from graphc.codegen.llvm import jit
g = graphc.GraphBuilder("g")
x = g.input("x", "f32[40]")
graph = g.finish(x * x + 3.0)
if __name__ == "__main__":
    made = graphc.compile(graph)
    assert made(np.full(40, 2, np.float32))[0].tolist() == [7.0] * 40
    print(sum(bool(kernel.timings) for kernel in jit._compiled.values()))
"""


def run(folder: Path, program: Path, **more: str) -> str:
    environment = {**os.environ, "GRAPHC_CACHE": str(folder), **more}
    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=environment, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_second_process_compiles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, folder = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(PROGRAM)
    assert run(folder, program) == "1" and run(folder, program) == "0"
    for path in folder.glob("*/*"):
        path.write_bytes(path.read_bytes()[:-10])
    assert run(folder, program) == "1"  # cut short: compiled again

    monkeypatch.setenv("GRAPHC_CACHE", str(folder))
    assert main(["cache", "why", f"{program}:graph"]) == 0
    assert capsys.readouterr().out.startswith("hit ")
    assert main(["cache", "why", f"{program}:graph", "--target", "aarch64"]) == 0
    assert capsys.readouterr().out.startswith("miss ")
    assert main(["cache", "ls", "--files"]) == 0
    listed = capsys.readouterr().out
    count = len(listed.splitlines()) - 1
    assert f"{count} files, " in listed and "  program g  " in listed
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith(f"removed {count} files")
    monkeypatch.setenv("GRAPHC_CACHE", "off")
    assert main(["cache", "ls"]) == 2
    assert "the cache is off" in capsys.readouterr().err


def test_a_limit_that_is_no_number_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path))
    monkeypatch.setenv("GRAPHC_CACHE_MB", "many")
    g = graphc.GraphBuilder("g")
    with pytest.raises(graphc.GraphError, match="GRAPHC_CACHE_MB='many'"):
        graphc.compile(g.finish(g.input("x", "f32[17]") * 1.25))
