"""What `import pypto` costs on top of `import numpy`, in milliseconds of CPU time.

Twenty fresh processes each, in turn, so that drift of the machine meets both; what counts is the
median of the differences between neighbours. Bytecode lies in a folder of the run's own, since the
environment may forbid Python to keep it beside the sources, where an installed package has it. BLAS
starts no threads, whose waiting counts as CPU time of either import. Exits with 1 when the
difference is above the budget.
"""

import os
import statistics
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.table import Table

PROCESSES = 20
BUDGET_MS = 60.0


def cpu_ms(statement: str, bytecode: str) -> float:
    """CPU time (user and system) of a fresh Python that runs one statement."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = bytecode
    env["OPENBLAS_NUM_THREADS"] = "1"
    child = subprocess.Popen([sys.executable, "-c", statement], env=env)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"`{statement}` failed with exit status {child.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e3


def measure(names: tuple[str, ...]) -> dict[str, list[float]]:
    """The samples of each import, taken in turn."""
    with tempfile.TemporaryDirectory() as bytecode:
        for name in names:  # once unmeasured: bytecode is written, files come into the page cache
            cpu_ms(f"import {name}", bytecode)
        samples: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(PROCESSES):
            for name in names:
                samples[name].append(cpu_ms(f"import {name}", bytecode))
    return samples


def main() -> int:
    samples = measure(("numpy", "pypto"))
    median = {name: statistics.median(values) for name, values in samples.items()}
    pairs = zip(samples["pypto"], samples["numpy"], strict=True)
    added = statistics.median(ours - theirs for ours, theirs in pairs)
    within = added <= BUDGET_MS
    table = Table(title=f"CPU time of an import, {PROCESSES} processes each")
    for column in ("import", "median ms", "least ms", "most ms"):
        table.add_column(column, justify="left" if column == "import" else "right")
    for name, values in samples.items():
        table.add_row(name, *(f"{v:.1f}" for v in (median[name], min(values), max(values))))
    console = Console()
    console.print(table)
    verdict = "within" if within else "ABOVE"
    console.print(f"pypto adds {added:.1f} ms: {verdict} the budget of {BUDGET_MS:.0f} ms")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
