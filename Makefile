# `make demo` and `make test` do all the set-up, in a fresh clone with Python 3.11 or newer and make.
PYTHON ?= python3
# The exact pin keeps pip on the CPU build where an index serves one; `make TORCH=torch demo` takes whatever is newest.
TORCH ?= torch==2.13.0
BIN := .venv/bin

.PHONY: demo test test-slow bench lint clean

demo: .venv/ready
	$(BIN)/algoprobe study search-fig2 --models naive balanced

test: .venv/ready-test
	$(BIN)/python -m pytest -m "not slow"

test-slow: .venv/ready-test
	$(BIN)/python -m pytest

bench: .venv/ready
	$(BIN)/algoprobe bench

lint: .venv/ready-test
	$(BIN)/python -m pip install -q ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.11 …"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q '$(TORCH)'
	$(BIN)/python -m pip install -q -e .
	touch $@

.venv/ready-test: .venv/ready
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

clean:
	rm -rf .venv
	find src -name '*.nb[ic]' -delete  # compiled kernels: numba notices changes of a kernel's own file only
