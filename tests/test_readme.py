"""The READMEs held against the package: their programs run, their output is what they show.

All ```python blocks of a README, one after the other, are one program; a ```text block is what the
program prints at that place, save for the path of the file, which is shown as `softmax.py`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pypto
from pypto import knobs

ROOT = Path(__file__).resolve().parents[1]
READMES = ["README.md", "README.zh.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)


def blocks(name: str, *languages: str) -> list[str]:
    found = BLOCK.findall((ROOT / name).read_text())
    return [body for language, body in found if language in languages]


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("name", READMES)
def test_programs_run_and_print_what_is_shown(name, tmp_path):
    program = tmp_path / "softmax.py"
    program.write_text("".join(blocks(name, "python")))
    switches = {k: v for k, v in os.environ.items() if not k.startswith("PYPTO_")}
    switches["PYPTO_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, program.name], cwd=tmp_path, env=switches, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.replace(f"{tmp_path}/", "")
    assert lines(printed) == lines("".join(blocks(name, "text"))), done.stderr


@pytest.mark.parametrize("name", READMES)
def test_programs_check_their_results(name):
    assert sum(block.count("\nassert ") for block in blocks(name, "python")) >= 2


def test_both_readmes_show_the_same_program():
    def code(name: str) -> list[str]:
        lines = "".join(blocks(name, "python")).splitlines()
        return [re.sub(r"\s*#.*", "", line) for line in lines]

    assert code("README.md") == code("README.zh.md")


@pytest.mark.parametrize("name", READMES)
def test_every_switch_is_listed(name):
    listed = set(re.findall(r"^\| `(PYPTO_\w+)", (ROOT / name).read_text(), re.M))
    assert listed == set(knobs.KNOBS)


@pytest.mark.parametrize("name", [*READMES, "docs/layout.md", "docs/status.md", "bench/README.md"])
def test_links_lead_somewhere(name):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text())
    assert [link for link in links if not (ROOT / name).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("name", READMES)
def test_commands_shown_exist(name):
    shell = "".join(blocks(name, "sh"))
    commands = {line.split("#")[0].strip() for line in shell.splitlines()}
    commands = {c for c in commands if c.startswith("pypto ")}
    assert commands
    for command in commands:
        words = [word for word in command.split()[1:] if not word.startswith("-")]
        done = subprocess.run(
            [sys.executable, "-m", "pypto", *words[:2], "--help"], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


def test_ops_named_in_the_status_exist():
    table = (ROOT / "docs/status.md").read_text().partition("| family |")[2].partition("\n\n")[0]
    names = set(re.findall(r"`(\w+)`", table))
    assert len(names) > 40
    assert names - set(pypto.__all__) == set()
