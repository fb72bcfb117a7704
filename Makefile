PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEMO ?= .demo

.DEFAULT_GOAL := help
.PHONY: help demo test check docs man case-2017 clean

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

$(VENV)/.docs: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

docs: $(VENV)/.docs  ## the site of docs/, into build/docs/; warnings and dead links are errors
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/docs
	@echo "Open build/docs/index.html"

man: $(VENV)/.docs  ## docs/man/bisectorch.1, from the parser
	@cd docs && PYTHONPATH=. COLUMNS=80 SOURCE_DATE_EPOCH=0 ../$(BIN)/argparse-manpage --module parser \
		--function make_parser --prog bisectorch --project-name bisectorch \
		--manual-title "Bisectorch" --description "find every commit that changed performance" \
		--format single-commands-section --output man/bisectorch.1

TABLES ?=
case-2017: $(INSTALLED)  ## the tables of docs/case-2017.md, measured here: half an hour of an idle machine
	@mkdir -p build
	@$(BIN)/bisectorch replay $(DEMO)
	@$(BIN)/bisectorch tables --config $(DEMO)/asv.conf.json --format markdown $(TABLES) \
		--bisect $$(sed -n 's/^ *"range": "\(.*\)",/\1/p' $(DEMO)/expected.json) >build/tables.md
	@mv build/tables.md docs/case-2017-tables.md

$(VENV)/.benches: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --editable '.[bench]'
	@touch $@

bench-%: $(VENV)/.benches  ## one benchmark of tools/bench: a row a bar, exit 1 when one is short
	@$(BIN)/python tools/bench/bench_$*.py

clean:  ## remove what the build made; results and sessions stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache
