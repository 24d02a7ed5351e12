"""What `import pypto` may not do: import the heavy packages, warn, or write anything."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "llvmlite", "typer", "rich")
# Bytecode is not written, so that a warning of the compiler is not hidden by a cached file.
STRICT = [sys.executable, "-B", "-W", "error"]


def run(statements: str, *python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*(python or STRICT), "-c", statements], capture_output=True, text=True)


def test_import_stays_light_and_silent():
    done = run(f"import sys, pypto; print([m for m in {HEAVY} if m in sys.modules])")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_public_names_stay_light_and_silent():
    # Names that are fetched when first asked for must not bring the heavy packages either.
    names = "[getattr(pypto, n) for n in dir(pypto)]"
    done = run(f"import sys, pypto; {names}; print([m for m in {HEAVY} if m in sys.modules])")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_import_leaves_no_file_behind(tmp_path):
    done = subprocess.run(
        [*STRICT, "-c", "import pypto"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, list(tmp_path.iterdir())) == (0, [])


@pytest.mark.parametrize("name", ["pypto.frontend", "pypto.error"])
def test_faces_import_on_their_own(name):
    done = run(f"import {name} as face; print(face.__name__)")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{name}\n", "")
