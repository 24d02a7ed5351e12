# make run    run a kernel of the library on real input and compare it with its golden
# make test   lint, types and all tests
# make bench  measurements (no tests)
# Each sets up .venv on its own; a change of pyproject.toml or of this file sets it up anew.

# The newest Python is not always first on the path, and a name on the path need not run.
PYTHON := $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BIN := .venv/bin
TORCH := torch==2.13.0
STAMP := .venv/.ready-$(shell cat pyproject.toml Makefile | cksum | cut -d' ' -f1)

.PHONY: run test bench clean

run: $(STAMP)
	$(BIN)/pypto gym run gated_delta_rule

# The interpreter's matrix products are small: on a busy machine the threads of BLAS wait for each
# other longer than they compute.
test: export OPENBLAS_NUM_THREADS = 1
test: export OMP_NUM_THREADS = 1
test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist worksteal

bench: $(STAMP)
	$(BIN)/python bench/import_time.py

# torch goes first and alone: with the exact version named, a local CPU wheel is taken where there
# is one, and the extra below is then already satisfied.
$(STAMP):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer was not found" >&2; exit 1; }
	@echo "setting up .venv (some minutes the first time)"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -e '.[torch,dev]'
	@rm -f .venv/.ready-*
	@touch $@

# .venv stays: remove it by hand to start from nothing.
clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .venv/.ready-*
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
