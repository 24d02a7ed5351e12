"""Machine code kept between runs: a folder of entries, each found by its key.

In: a key, which names everything that an entry depends on, and the bytes of the entry.  Out: the
same bytes, in this process or in a later one, or nothing.  The folder is an aid: whatever is wrong
with it or with an entry (not there, full, damaged, not ours, removed meanwhile) costs making the
entry again, and is never an error.  What is loaded from here runs, so a folder or an entry that
somebody else may write is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from pypto import knobs
from pypto.errors import PyptoWarning, warn

# The last byte is the version of this form.
MAGIC = b"\x89pypto\x00\x01"
# The magic, the key, the length of what follows, its checksum.
_HEAD = struct.Struct("<8s32sQ32s")
_ENTRY = re.compile(r"[0-9a-f]{64}\.entry")
# An entry while it is written; its process may die and leave it.
_DRAFT = re.compile(r"[0-9]+-[0-9a-f]{16}\.draft")
_DRAFT_LIVES = 3600.0
# The folder is looked through when a process has written this part of the limit, and then made
# smaller than the limit by some more, so that several processes at a time stay within it.
_BETWEEN, _SPARE = 64, 8
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

# Bytes that this process has written to a folder since it looked through it.
_written: dict[str, int] = {}


class Info(NamedTuple):
    """The state of the folder.  `problem` says why it is not used, where it is not."""

    folder: str | None
    entries: int
    bytes: int
    limit: int
    problem: str | None


def key_of(*parts: str) -> str:
    """The key of what depends on these parts: 64 hexadecimal digits."""
    digest = hashlib.sha256(MAGIC)
    for part in parts:
        raw = part.encode()
        # Lengths keep ("ab", "c") apart from ("a", "bc").
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


def enabled() -> bool:
    """Whether anything may be kept at all."""
    return _folder() is not None


def load(key: str) -> bytes | None:
    """What was stored under a key, if it is there and whole."""
    with contextlib.suppress(OSError), _opened() as folder:
        if folder is not None:
            return _load(folder, key)
    return None


def store(key: str, payload: bytes) -> None:
    """Keep bytes under a key, if that is possible."""
    limit = _limit()
    checksum = hashlib.sha256(payload).digest()
    entry = _HEAD.pack(MAGIC, bytes.fromhex(key), len(payload), checksum) + payload
    # One that would push out half of the others is not worth it.
    if len(entry) > limit // 2:
        return
    with contextlib.suppress(OSError), _opened() as folder:
        if folder is not None:
            _store(folder, key, entry)
            _keep_within(folder, limit, len(entry))


def info() -> Info:
    """The state of the folder, which is not made for that."""
    path, limit = _folder(), _limit()
    if path is None:
        return Info(None, 0, 0, limit, "switched off")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Info(path, 0, 0, limit, None)
    except OSError as cause:
        return Info(path, 0, 0, limit, cause.strerror)
    try:
        entries = [entry for entry in _contents(descriptor) if _ENTRY.fullmatch(entry.name)]
        problem = _problem(os.fstat(descriptor))
        return Info(path, len(entries), sum(e.size for e in entries), limit, problem)
    finally:
        os.close(descriptor)


def clear() -> Info:
    """Remove all entries; the state before."""
    before = info()
    if before.folder is not None and before.problem is None:
        with contextlib.suppress(OSError), _opened() as folder:
            if folder is not None:
                for entry in _contents(folder):
                    _remove(folder, entry.name)
    return before


# --- the folder ----------------------------------------------------------------------------------


def _folder() -> str | None:
    # Who may write a folder is asked as POSIX tells it.
    return knobs.cache_folder() if os.name == "posix" and _limit() else None


def _limit() -> int:
    return knobs.CACHE_MB.get() << 20


@contextlib.contextmanager
def _opened() -> Iterator[int | None]:
    """The folder, made if it is not there; None where there is none that may be used.

    All that follows goes through the open folder: a path could lead elsewhere by then.
    """
    path = _folder()
    if path is None:
        yield None
        return
    os.makedirs(path, mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        problem = _problem(os.fstat(descriptor))
        if problem is not None:
            warn(
                PyptoWarning,
                f"machine code is not kept between runs: the folder {path} {problem}",
                None,
                "`chmod go-w` it, or let PYPTO_CACHE_DIR name a folder of your own",
            )
        yield descriptor if problem is None else None
    finally:
        os.close(descriptor)


def _problem(found: os.stat_result) -> str | None:
    """Why somebody else could change what lies there."""
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "may be written by other users" if found.st_mode & _OTHERS_WRITE else None


class _File(NamedTuple):
    used: float
    size: int
    name: str


def _contents(folder: int) -> list[_File]:
    """Our own files; other processes may remove some meanwhile."""
    found = []
    with os.scandir(folder) as files:
        for file in files:
            if _ENTRY.fullmatch(file.name) or _DRAFT.fullmatch(file.name):
                with contextlib.suppress(OSError):
                    state = file.stat(follow_symlinks=False)
                    # Small files take a whole block.
                    size = max(state.st_size, state.st_blocks * 512)
                    found.append(_File(state.st_mtime, size, file.name))
    return found


def _remove(folder: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _keep_within(folder: int, limit: int, added: int) -> None:
    """Remove the entries that were used the longest ago, now and then."""
    path = _folder() or ""
    written = _written.get(path)
    if written is not None and written + added < limit // _BETWEEN:
        _written[path] = written + added
        return
    _written[path] = 0
    files = sorted(_contents(folder))
    total = sum(file.size for file in files)
    left_over = time.time() - _DRAFT_LIVES
    wanted = limit - limit // _SPARE if total > limit else total
    for file in files:
        if _DRAFT.fullmatch(file.name):
            drop = file.used < left_over
        else:
            drop = total > wanted
        if drop:
            _remove(folder, file.name)
            total -= file.size


# --- entries -------------------------------------------------------------------------------------


def _load(folder: int, key: str) -> bytes | None:
    name = f"{key}.entry"
    # A link is not followed, a pipe not waited for.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        payload = _read(descriptor, key)
        if payload is not None:
            with contextlib.suppress(OSError):
                os.utime(descriptor)  # the time of its last use
    finally:
        os.close(descriptor)
    if payload is None:
        _remove(folder, name)
    return payload


def _read(descriptor: int, key: str) -> bytes | None:
    """The payload of an open entry, if all of it is as it was written."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or _problem(found) is not None:
        return None
    head = os.read(descriptor, _HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, digest, length, checksum = _HEAD.unpack(head)
    if (magic, digest, length) != (MAGIC, bytes.fromhex(key), found.st_size - _HEAD.size):
        return None
    payload = bytearray()
    while len(payload) < length:
        part = os.read(descriptor, length - len(payload))
        if not part:
            return None
        payload += part
    return bytes(payload) if hashlib.sha256(payload).digest() == checksum else None


def _store(folder: int, key: str, entry: bytes) -> None:
    """Write an entry beside its place and move it there, so that no one sees a part of it.

    After a loss of power it may still be damaged, which its checksum tells.
    """
    draft = f"{os.getpid()}-{secrets.token_hex(8)}.draft"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600, dir_fd=folder)
    try:
        try:
            rest = memoryview(entry)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)
        os.replace(draft, f"{key}.entry", src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _remove(folder, draft)
        raise
