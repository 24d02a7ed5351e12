"""The folder of machine code: whatever happens to it costs an entry, never an error or wrong bytes.

Entries are damaged in every way, writers are cut short and killed, folders belong to somebody else,
several processes write, read and clear at the same time.
"""

import errno
import itertools
import json
import os
import random
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pypto import errors, knobs
from pypto.cpu import cache
from pypto.error import PyptoWarning
from pypto.tools.cli import app

PAYLOAD = bytes(range(256)) * 40
KEY, OTHER = cache.key_of("one"), cache.key_of("two")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    path = tmp_path / "cache"
    monkeypatch.setenv("PYPTO_CACHE_DIR", str(path))
    monkeypatch.setattr(cache, "_written", {})
    errors.forget_warnings()
    return path


def entry(folder, key=KEY):
    return folder / f"{key}.entry"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# --- one entry -----------------------------------------------------------------------------------


def test_what_is_stored_is_loaded(folder):
    assert cache.load(KEY) is None
    for payload in (PAYLOAD, b"", b"x"):
        cache.store(KEY, payload)
        assert cache.load(KEY) == payload
    assert cache.load(OTHER) is None
    assert names(folder) == [f"{KEY}.entry"]


def test_a_key_keeps_its_parts_apart():
    keys = {
        cache.key_of(*parts)
        for parts in [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("ab", "c", "")]
    }
    assert len(keys) == 6
    assert cache.key_of("ab", "c") == cache.key_of("ab", "c")


def test_only_the_owner_may_read_and_write(folder):
    before = os.umask(0)
    try:
        cache.store(KEY, PAYLOAD)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, entry(folder))]
    assert modes == [0o700, 0o600]


def flipped(raw, at):
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


DAMAGES = {
    "empty": lambda raw: b"",
    "foreign": lambda raw: b"\x7fELF" + bytes(5000),
    "half a head": lambda raw: raw[:40],
    "a head": lambda raw: raw[:80],
    "one byte short": lambda raw: raw[:-1],
    "one byte more": lambda raw: raw + b"\0",
    "twice": lambda raw: raw * 2,
    "magic": lambda raw: flipped(raw, 7),
    "key": lambda raw: flipped(raw, 8),
    "length": lambda raw: flipped(raw, 47),
    "checksum": lambda raw: flipped(raw, 48),
    "first byte": lambda raw: flipped(raw, 80),
    "last byte": lambda raw: flipped(raw, len(raw) - 1),
    "zeros at the end": lambda raw: raw[:4096] + bytes(len(raw) - 4096),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_absent_and_goes(folder, damage):
    cache.store(KEY, PAYLOAD)
    path = entry(folder)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert cache.load(KEY) is None
    assert names(folder) == []
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD


def test_an_entry_under_the_name_of_another_is_absent(folder):
    cache.store(KEY, PAYLOAD)
    entry(folder, OTHER).write_bytes(entry(folder).read_bytes())
    assert cache.load(OTHER) is None
    assert cache.load(KEY) == PAYLOAD


def test_a_link_is_not_followed(folder, tmp_path):
    cache.store(KEY, PAYLOAD)
    elsewhere = tmp_path / "elsewhere"
    entry(folder).rename(elsewhere)
    entry(folder).symlink_to(elsewhere)
    assert cache.load(KEY) is None
    cache.store(KEY, b"new")
    assert cache.load(KEY) == b"new"
    assert elsewhere.read_bytes().endswith(PAYLOAD)


def test_what_is_no_file_is_absent(folder):
    cache.store(KEY, PAYLOAD)
    entry(folder).unlink()
    os.mkfifo(entry(folder))
    assert cache.load(KEY) is None
    entry(folder).mkdir()
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) is None
    assert names(folder) == [f"{KEY}.entry"]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_absent(folder, mode):
    cache.store(KEY, PAYLOAD)
    entry(folder).chmod(mode)
    assert cache.load(KEY) is None
    assert names(folder) == []


# --- the folder ----------------------------------------------------------------------------------


def refused(why):
    """Nothing is loaded or stored, and that is said once."""
    with pytest.warns(PyptoWarning) as said:
        assert cache.load(KEY) is None
        cache.store(OTHER, PAYLOAD)
        assert cache.load(OTHER) is None
    path = os.environ["PYPTO_CACHE_DIR"]
    assert [str(w.message) for w in said] == [
        f"machine code is not kept between runs: the folder {path} {why}; `chmod go-w` it, or let "
        "PYPTO_CACHE_DIR name a folder of your own"
    ]
    assert cache.info().problem == why


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_not_used(folder, mode):
    cache.store(KEY, PAYLOAD)
    folder.chmod(mode)
    refused("may be written by other users")
    assert names(folder) == [f"{KEY}.entry"]
    assert cache.clear().entries == 1
    assert names(folder) == [f"{KEY}.entry"]
    folder.chmod(0o755)
    assert cache.load(KEY) == PAYLOAD


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    cache.store(KEY, PAYLOAD)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    refused("belongs to another user")


def test_a_link_to_a_folder_is_judged_by_where_it_leads(folder, tmp_path):
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    folder.symlink_to(target)
    cache.store(KEY, PAYLOAD)
    assert (cache.load(KEY), names(target)) == (PAYLOAD, [f"{KEY}.entry"])
    target.chmod(0o777)
    refused("may be written by other users")


@pytest.mark.parametrize("kind", ["file", "below a file", "read-only"])
def test_without_a_folder_nothing_is_kept(kind, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    paths = {"file": "file", "below a file": "file/cache", "read-only": "/proc/cache"}
    monkeypatch.setenv("PYPTO_CACHE_DIR", str(tmp_path / paths[kind]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store(KEY, PAYLOAD)
        assert cache.load(KEY) is None
        cache.clear()
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("value", ["0", "off", "no", "false"])
def test_the_folder_can_be_switched_off(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYPTO_CACHE_DIR", value)
    cache.store(KEY, PAYLOAD)
    assert (cache.load(KEY), cache.enabled(), names(tmp_path)) == (None, False, [])
    assert cache.info() == cache.Info(None, 0, 0, 512 << 20, "switched off")


def test_where_the_folder_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    for given, xdg, wanted in [
        ("", "", "/home/me/.cache/pypto-anywhere"),
        ("", "/var/cache/me", "/var/cache/me/pypto-anywhere"),
        ("", "relative", "/home/me/.cache/pypto-anywhere"),
        ("~/kept", "/var/cache/me", "/home/me/kept"),
        ("here", "", f"{tmp_path}/here"),
    ]:
        monkeypatch.setenv("PYPTO_CACHE_DIR", given)
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
        assert knobs.cache_folder() == wanted


# --- writing -------------------------------------------------------------------------------------


def test_short_writes_are_continued(folder, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, raw: write(file, raw[:1000]))
    cache.store(KEY, PAYLOAD)
    assert cache.load(KEY) == PAYLOAD


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_write_that_fails_leaves_nothing(folder, monkeypatch, code):
    cache.store(OTHER, b"before")
    write, count = os.write, itertools.count()

    def failing(file, raw):
        if next(count) == 3:
            raise OSError(code, os.strerror(code))
        return write(file, raw[:1000])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing)
        cache.store(KEY, PAYLOAD)
    assert names(folder) == [f"{OTHER}.entry"]
    assert (cache.load(KEY), cache.load(OTHER)) == (None, b"before")


def test_an_interrupted_write_leaves_nothing(folder, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.store(KEY, PAYLOAD)
    assert names(folder) == []


def python(program, *words, **env):
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(child):
    out, err = child.communicate(timeout=100)
    assert (child.returncode, err) == (0, "")
    return out


def test_a_limit_on_the_size_of_files_only_prevents_an_entry(folder):
    # The signal that tells of the limit is ignored by Python.
    program = f"""
import resource
from pypto.cpu import cache
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
cache.store({KEY!r}, bytes(10000))
cache.store({OTHER!r}, b"small")
print(cache.load({KEY!r}), cache.load({OTHER!r}))
"""
    assert finished(python(program)) == "None b'small'\n"
    assert names(folder) == [f"{OTHER}.entry"]


# What a key stands for follows from its number, so that every reader can tell what is right.
MANY = """
import os, random, sys
from pypto.cpu import cache
def payload(n):
    return random.Random(n).randbytes(1000 + 300_000 * (n % 2))
def key(n):
    return cache.key_of(str(n))
"""
many = {}
exec(MANY, many)


def test_killed_writers_leave_whole_entries_or_none(folder):
    rng = random.Random(0)
    program = MANY + "print('ready', flush=True)\nn = int(sys.argv[1])\n"
    program += "while True:\n    cache.store(key(n % 40), payload(n % 40))\n    n += 1\n"
    for round in range(10):
        child = python(program, str(4 * round))
        assert child.stdout.readline() == "ready\n"
        time.sleep(rng.random() * 0.05)
        child.kill()
        child.communicate()
    kept = [n for n in range(40) if entry(folder, many["key"](n)).exists()]
    assert len(kept) >= 5
    for n in kept:
        assert cache.load(many["key"](n)) == many["payload"](n)


def test_what_killed_writers_leave_goes_after_an_hour(folder):
    cache.store(KEY, PAYLOAD)
    drafts = [folder / f"{n}-0123456789abcdef.draft" for n in (1, 2)]
    for draft, age in zip(drafts, (3700, 3500), strict=True):
        draft.write_bytes(b"part")
        os.utime(draft, (time.time() - age,) * 2)
    cache._written.clear()
    cache.store(OTHER, PAYLOAD)
    assert names(folder) == sorted([f"{KEY}.entry", f"{OTHER}.entry", drafts[1].name])


def test_processes_write_read_and_clear_at_the_same_time(folder):
    program = (
        MANY
        + """
rng, found = random.Random(sys.argv[1]), 0
for step in range(150):
    n = rng.randrange(12)
    if step % 50 == 49:
        cache.clear()
    if rng.random() < 0.5:
        cache.store(key(n), payload(n))
    known = cache.load(key(n))
    assert known is None or known == payload(n), n
    found += known is not None
print(found)
"""
    )
    # A megabyte is less than what they write, so they push out one another's entries, too.
    children = [python(program, str(seed), PYPTO_CACHE_MB="1") for seed in range(3)]
    assert all(int(finished(child)) >= 30 for child in children)
    assert all(name.endswith(".entry") for name in names(folder))


# --- the limit -----------------------------------------------------------------------------------


def total(folder):
    return sum(max(p.stat().st_size, p.stat().st_blocks * 512) for p in folder.iterdir())


def test_the_folder_stays_within_its_limit(folder, monkeypatch):
    monkeypatch.setenv("PYPTO_CACHE_MB", "1")
    limit, most = 1 << 20, 0
    for n in range(100):
        cache.store(cache.key_of(str(n)), bytes(50_000))
        most = max(most, total(folder))
    assert limit * 3 // 4 < most <= limit * 65 // 64 + 50_080
    assert total(folder) <= limit
    assert cache.load(cache.key_of("99")) == bytes(50_000)
    assert cache.load(cache.key_of("0")) is None


def test_what_was_used_last_stays(folder, monkeypatch):
    monkeypatch.setenv("PYPTO_CACHE_MB", "1")
    old = [cache.key_of(f"old {n}") for n in range(10)]
    for age, key in enumerate(old):
        cache.store(key, bytes(50_000))
        os.utime(entry(folder, key), (time.time() - 1000 + age,) * 2)
    assert cache.load(old[0]) is not None
    for n in range(12):
        cache.store(cache.key_of(f"new {n}"), bytes(50_000))
    present = [entry(folder, key).exists() for key in old]
    assert present[0]
    # Of the others the first ones went.
    assert present[1:] == sorted(present[1:])
    assert not present[1]


def test_what_would_fill_half_of_the_folder_is_not_kept(folder, monkeypatch):
    monkeypatch.setenv("PYPTO_CACHE_MB", "1")
    cache.store(KEY, PAYLOAD)
    cache.store(OTHER, bytes(1 << 19))
    assert (cache.load(KEY), cache.load(OTHER)) == (PAYLOAD, None)
    monkeypatch.setenv("PYPTO_CACHE_MB", "0")
    cache.store(OTHER, b"")
    assert (cache.load(OTHER), cache.enabled()) == (None, False)


def test_a_smaller_limit_holds_from_the_next_process_on(folder, monkeypatch):
    for n in range(40):
        cache.store(cache.key_of(str(n)), bytes(50_000))
    assert total(folder) > 1 << 20
    cache._written.clear()
    monkeypatch.setenv("PYPTO_CACHE_MB", "1")
    cache.store(KEY, PAYLOAD)
    assert total(folder) <= 1 << 20
    assert cache.load(KEY) == PAYLOAD


# --- the command ---------------------------------------------------------------------------------


def call(*words):
    return CliRunner().invoke(app, ["cache", *words])


def test_info_shows_what_there_is(folder):
    assert json.loads(call("info", "--json").stdout) == {
        "folder": str(folder), "entries": 0, "bytes": 0, "limit": 512 << 20, "problem": None,
    }  # fmt: skip
    assert not folder.exists()
    for n in range(30):
        cache.store(cache.key_of(str(n)), bytes(100_000))
    found = json.loads(call("info", "--json").stdout)
    assert (found["entries"], found["bytes"]) == (30, total(folder))
    assert 3_000_000 <= found["bytes"] < 3_200_000
    done = call("info")
    assert done.exit_code == 0
    assert str(folder) in done.stdout
    assert "30" in done.stdout.split()
    assert "2.9 MB of 512.0 MB" in done.stdout


def test_clear_removes_entries_and_nothing_else(folder):
    for n in range(3):
        cache.store(cache.key_of(str(n)), PAYLOAD)
    Path(folder, "1-0123456789abcdef.draft").write_bytes(b"part")
    foreign = ["notes.txt", "a.entry", f"{KEY}.entry.bak", f"{KEY.upper()}.entry"]
    for name in foreign:
        Path(folder, name).write_text("mine")
    done = call("clear")
    assert (done.exit_code, done.stdout) == (0, "removed 3 entries, 0.0 MB\n")
    assert names(folder) == sorted(foreign)


def test_a_folder_that_is_not_used_gives_status_1(folder):
    cache.store(KEY, PAYLOAD)
    folder.chmod(0o777)
    done = call("info")
    assert done.exit_code == 1
    assert "may be written by other users" in done.stdout
    done = call("clear")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "may be written by other users" in " ".join(done.stderr.split())
    assert names(folder) == [f"{KEY}.entry"]


def test_info_of_no_folder(monkeypatch):
    monkeypatch.setenv("PYPTO_CACHE_DIR", "0")
    done = call("info")
    assert done.exit_code == 0
    assert "switched off" in done.stdout
    assert call("clear").stdout == "removed 0 entries, 0.0 MB\n"
