"""A pytest plug-in: ``pytest -p pypto.pytest``.

A test that is marked ``@pytest.mark.pypto_kernel`` fails unless at least one kernel ran in it, so
that a comparison which quietly skipped its kernel is not taken for a pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pypto.jit import executed


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "pypto_kernel: the test must run at least one kernel")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Count the kernels that a marked test runs."""
    before = executed()
    yield
    if item.get_closest_marker("pypto_kernel") and executed() == before:
        pytest.fail("no kernel was executed in this test", pytrace=False)
