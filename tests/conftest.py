"""Settings shared by every test: how hypothesis searches and what it prints when it fails.

A failing example is printed as a blob that replays it. There is no deadline, since the first call
of a kernel traces and compiles it. Kernels run under the sanitizers, save the search for the birth
of a NaN, unless a test says otherwise.  Machine code is kept in a folder of the test run, never in
that of the user.
"""

import atexit
import os
import shutil
import tempfile

import pytest
from hypothesis import settings

# Modules that hold assertions of several tests.
pytest.register_assert_rewrite("exact_errors", "kernel_factory")

settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")

os.environ.setdefault("PYPTO_SANITIZE", "1")

# The workers of a parallel run share the folder of the process that starts them.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["PYPTO_CACHE_DIR"] = tempfile.mkdtemp(prefix="pypto-cache-")
    atexit.register(shutil.rmtree, os.environ["PYPTO_CACHE_DIR"], ignore_errors=True)
