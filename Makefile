# Two commands on a fresh machine: `make run`, then `make test`. Everything else is listed by `make help`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-cluster test-node check format simulate fuzz bench bench-cluster schema lock clean help

run: $(VENV)/.runtime  ## serve on 127.0.0.1:8080 until Ctrl-C
	$(BIN)/launcher serve

test: check  ## format, lint, types, import rules, then every test but chaos (test-cluster) and real nodes (test-node)
	$(BIN)/python -m tests.cluster.build --where-possible control-plane chart
	$(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/realnodes --ignore tests/chaos

test-cluster: $(VENV)/.dev  ## what speaks to Kubernetes, and chaos, on a real control plane (builds it once): [K8S=1.34.4] make test-cluster
	$(BIN)/python -m tests.cluster.build control-plane chart
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/cluster tests/store tests/deploy tests/kubernetes tests/chaos

test-node: $(VENV)/.dev  ## Frameworks on real kubelets, and the launcher in a pod: needs root, installs Debian packages
	@if $(BIN)/python -m tests.realnodes.prepare; then \
	  $(BIN)/python -m tests.cluster.build control-plane node && \
	  $(BIN)/python -m pytest --timeout 300 tests/realnodes; \
	fi

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

REQUESTS ?= 100000
SEED ?= 1
fuzz: $(VENV)/.dev  ## random requests with restarts in between, against a real launcher: make fuzz [REQUESTS=100000] [SEED=1]
	$(BIN)/python -m tests.fuzz --requests $(REQUESTS) --seed $(SEED)

bench: $(VENV)/.dev  ## figures, as ratios within one run, into build/bench/
	$(BIN)/python -m tests.bench

bench-cluster: $(VENV)/.dev  ## the figures of Kubernetes mode, on a real control plane (builds it once), into build/bench/
	$(BIN)/python -m tests.cluster.build control-plane
	$(BIN)/python -m tests.bench_cluster

schema: $(VENV)/.dev  ## write schemas/*.json, the CRDs and the Helm chart anew
	$(BIN)/python -m tests.core.make_schema
	$(BIN)/python -m tests.core.make_core_schema
	$(BIN)/python -m tests.core.make_crd
	$(BIN)/python -m tests.job_kinds.make_components
	$(BIN)/python -m tests.deploy.make_chart

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
