# Every target sets up .venv from nothing.
PYTHON ?= python3
BIN := .venv/bin
# Two files at a time: the tests of one file share what is costly to make, and are not in each other's way.
PARALLEL := --numprocesses 2 --dist loadfile

.PHONY: demo test test-long bench lint format clean

demo: .venv/ready
	@$(BIN)/gitteam demo

test: .venv/ready
	$(BIN)/pytest $(PARALLEL) -m "not long"

test-long: .venv/ready
	$(BIN)/pytest $(PARALLEL) -m long

bench: .venv/ready
	$(BIN)/python -m bench

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
