"""What `import pypto` costs on top of `import numpy`, in milliseconds of CPU time.

Twenty fresh processes each, one after the other in turn, so that drift of the machine meets both.
Prints both medians and their difference; exits with 1 when the difference is above the budget.
"""

import os
import statistics
import subprocess
import sys

from rich.console import Console
from rich.table import Table

PROCESSES = 20
BUDGET_MS = 60.0


def cpu_ms(statement: str) -> float:
    """CPU time (user and system) of a fresh Python that runs one statement."""
    child = subprocess.Popen([sys.executable, "-c", statement])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"`{statement}` failed with exit status {child.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e3


def main() -> int:
    names = ("numpy", "pypto")
    for name in names:  # once unmeasured: bytecode is written, files come into the page cache
        cpu_ms(f"import {name}")
    samples = {name: [] for name in names}
    for _ in range(PROCESSES):
        for name in names:
            samples[name].append(cpu_ms(f"import {name}"))

    median = {name: statistics.median(values) for name, values in samples.items()}
    added = median["pypto"] - median["numpy"]
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
