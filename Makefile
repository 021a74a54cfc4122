# Everything that a newcomer needs: `make train` and `make test` set up what they use. `make help` lists the rest.
# POSIX sh and BSD tools are enough. `make PYTHON=/path/to/python3.12` uses that Python instead of the newest one.
VENV ?= .venv
BIN := $(VENV)/bin
RUN ?= runs/make-train
# Adapts the bundled voice `base`; `make train TRAIN_FLAGS="--max-minutes 60"` starts from nothing.
TRAIN_FLAGS ?= --init-from base --lr 3e-4 --max-steps 500 --max-minutes 3

# TensorFlow 2.21 has wheels for these; `requires-python` in pyproject.toml says the same.
VERSIONS := 3.13 3.12 3.11
IS_SUPPORTED := import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "$(VERSIONS)".split())
VERSION := import sys; print("%d.%d" % sys.version_info[:2])
CANDIDATES := $(or $(PYTHON),$(VERSIONS:%=python%) python3)

# Tracing and compiling use one core; a second process uses the other one. More would only cost memory.
PYTEST_PROCESSES ?= --numprocesses 2 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help train test test-slow lint bench clean asked-for-python

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1|/' | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

# An environment that works is kept, unless PYTHON asks for another version. Otherwise the first Python that can create one is
# taken: a command that exists may still fail (pyenv's shims), and Debian's Python has no ensurepip without python3-venv.
$(VENV)/.ready: pyproject.toml $(if $(PYTHON),asked-for-python)
	@if [ -z "$(PYTHON)" ] && $(BIN)/python -c '$(IS_SUPPORTED)' 2>/dev/null; then exit 0; fi; \
	without_venv=; for python in $(CANDIDATES); do \
	    $$python -c '$(IS_SUPPORTED)' 2>/dev/null || continue; \
	    version=$$($$python -c '$(VERSION)'); \
	    if [ "$$version" = "$$($(BIN)/python -c '$(VERSION)' 2>/dev/null)" ]; then exit 0; fi; \
	    if $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	        echo "Creating $(VENV) with Python $$version ($$python)."; \
	        exec $$python -m venv --clear $(VENV); \
	    fi; \
	    without_venv="$$without_venv python$$version-venv"; \
	done; \
	if [ -n "$$without_venv" ]; then \
	    echo "Python was found, but it cannot create environments: its module venv or ensurepip is missing." >&2; \
	    echo "On Debian and Ubuntu: sudo apt install$$without_venv" >&2; \
	else \
	    echo "No supported Python was found. Tried: $(CANDIDATES). Needed: one of $(VERSIONS)." >&2; \
	    echo "Install one of them, or name it: make PYTHON=/path/to/python3.12" >&2; \
	fi; \
	exit 1
	$(BIN)/python -m pip install --quiet --editable '.[train,serve,test]'
	touch $@

$(VENV)/.ready-benchmark: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[benchmark,evaluate]'
	touch $@

$(VENV)/.ready-consumers: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[consumers,aac,corpora]'
	touch $@

asked-for-python:  # never up to date, so that PYTHON always has an effect

train: $(VENV)/.ready  ## adapt a bundled voice to the bundled corpus for about three minutes, and speak
	$(BIN)/myxtts train --checkpoint-dir $(RUN) $(TRAIN_FLAGS)

test: $(VENV)/.ready  ## the tests that every change must pass, and how many lines of the package they reach
	$(BIN)/python -m pytest -rs $(PYTEST_PROCESSES) --cov=myxtts --cov-report=term:skip-covered --cov-fail-under=85

test-slow: $(VENV)/.ready-benchmark $(VENV)/.ready-consumers  ## all tests, those that take minutes too
	$(BIN)/python -m pytest $(PYTEST_PROCESSES) -m 'slow or not slow'

lint: $(VENV)/.ready  ## ruff: rules and format; pyright: types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/.ready-benchmark  ## every benchmark, as tables; nothing else should run meanwhile
	for name in loader training synthesis precision voices serving diagnostics; do $(BIN)/python benchmarks/$$name.py || exit 1; done

clean:  ## remove the environment and what runs left behind
	rm -rf $(VENV) runs build *.egg-info
