# Two commands on a fresh machine: `make run`, then `make test`. Everything else is listed by `make help`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-cluster check format simulate bench schema lock clean help

run: $(VENV)/.runtime  ## serve on 127.0.0.1:8080 until Ctrl-C
	$(BIN)/launcher serve

test: check  ## format, lint, types, import rules, then every test
	$(BIN)/python -m pytest -n auto

test-cluster: $(VENV)/.dev  ## what speaks to Kubernetes, on a real control plane (builds it once): [K8S=1.34.4] make test-cluster
	$(BIN)/python -m tests.cluster.build
	$(BIN)/python -m pytest -n 2 tests/cluster tests/store

check: $(VENV)/.dev  ## format, lint, types and import rules only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev  ## write the code the way `make check` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

SEEDS ?= 1000
simulate: $(VENV)/.dev  ## the controller in virtual time under every trouble: make simulate SEEDS=1000 [CASE=…]
	$(BIN)/python -m tests.controller.simulation --seeds $(SEEDS) $(if $(CASE),--case $(CASE))

bench: $(VENV)/.dev  ## figures, as ratios within one run, into build/bench/
	$(BIN)/python -m tests.bench

schema: $(VENV)/.dev  ## write schemas/framework.schema.json and the CRD anew
	$(BIN)/python -m tests.core.make_schema
	$(BIN)/python -m tests.core.make_crd

lock:  ## choose versions anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --upgrade --group build pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  -c requirements.lock --upgrade --group dev pyproject.toml -o requirements-dev.lock

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Framework Launcher needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.runtime: $(VENV)/.made requirements.lock pyproject.toml
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(INSTALL) --require-hashes -r requirements-dev.lock
	touch $@

clean:  ## forget everything that was made
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14
