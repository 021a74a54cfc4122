# Everything that a newcomer needs: `make train` and `make test` set up what they use. `make help` lists the rest.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
RUN ?= runs/make-train
# Goes on from the bundled voice; `make train TRAIN_FLAGS="--max-minutes 60"` starts from nothing.
TRAIN_FLAGS ?= --init-from bundled --lr 1e-4 --max-minutes 3

.DEFAULT_GOAL := help
.PHONY: help train test test-slow lint bench clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1|/' | awk -F'|' '{printf "make %-10s %s\n", $$1, $$2}'

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[phonemes,corpora,test]'
	touch $@

$(VENV)/.ready-benchmark: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[benchmark,evaluate]'
	touch $@

train: $(VENV)/.ready  ## train on the bundled corpus for about three minutes, and speak
	$(BIN)/myxtts train --checkpoint-dir $(RUN) $(TRAIN_FLAGS)

test: $(VENV)/.ready  ## the tests that every change must pass
	$(BIN)/python -m pytest

test-slow: $(VENV)/.ready-benchmark  ## all tests, those that take minutes too
	$(BIN)/python -m pytest -m 'slow or not slow'

lint: $(VENV)/.ready  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(VENV)/.ready-benchmark  ## every benchmark, as tables; nothing else should run meanwhile
	for name in loader training synthesis diagnostics; do $(BIN)/python benchmarks/$$name.py || exit 1; done

clean:  ## remove the environment and what runs left behind
	rm -rf $(VENV) runs build *.egg-info
