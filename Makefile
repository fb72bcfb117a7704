PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO ?= .demo

.DEFAULT_GOAL := help
.PHONY: help demo test check clean

help:  ## these lines
	@sed -n 's/^\([a-z][a-z-]*\):.*##  *\(.*\)/make \1\t\2/p' $(MAKEFILE_LIST)

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Bisectorch needs Python 3.10 or newer: make PYTHON=python3.x")'
	@echo "Making $(VENV) and installing Bisectorch into it (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

demo: $(INSTALLED)  ## find every culprit of the embedded replay history, and publish the dashboard
	@$(BIN)/bisectorch demo $(DEMO)

test: $(INSTALLED)  ## all tests
	@$(BIN)/python -m pytest

check: $(INSTALLED)  ## formatting, lint, types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

$(VENV)/.benches: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

bench-%: $(VENV)/.benches  ## one benchmark of tools/bench: a row a bar, exit 1 when one is short
	@$(BIN)/python tools/bench/bench_$*.py

clean:  ## remove what the build made; results and sessions stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache
