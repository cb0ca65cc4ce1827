# `make run` and `make test` work on a fresh machine; `make help` lists all targets.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests start a launcher some hundred times: without a cache each one compiles all modules.
test test-slow test-cluster test-engine test-node test-browser test-ml simulate fuzz: export PYTHONDONTWRITEBYTECODE :=
test test-slow test-cluster test-engine test-node test-browser test-ml simulate fuzz: export PYTHONPYCACHEPREFIX := $(CURDIR)/build/bytecode

.PHONY: run test test-cluster test-engine test-node test-browser test-ml test-slow test-all check format simulate fuzz bench bench-engine bench-cluster schema texts docs picture screenshots lock clean help

##@ Use
run: $(VENV)/.runtime  ## Serve on 127.0.0.1:8080 until Ctrl-C.
	$(BIN)/launcher serve

##@ Test
# Which tests need programs built with Go is decided by their fixtures: tests/conftest.py marks them.
test: check  ## Before every commit: static checks, unit tests, local mode. Python only, five minutes.
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not cluster and not node and not engine and not browser and not ml and not slow"

test-cluster: $(VENV)/.dev  ## After changes to Kubernetes mode, the API or deploy/: tests on a real control plane, with kubectl and Helm. Builds them once, with Go. K8S=1.34.4 selects a version, TESTS=tests/store some tests.
	$(BIN)/python -m tests.cluster.build control-plane chart
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "cluster and not browser" $(TESTS)

# Tests of what users bring, run with shared networks by `make test`.
WITH_ISOLATED_PODS := seeds migration tfjob examples discovery get_ips barrier gang restart
test-node: $(VENV)/.dev  ## After changes to the pods that the launcher creates: tests on two real kubelets. Needs root, installs Debian packages.
	@if $(BIN)/python -m tests.realnodes.prepare; then \
	  $(BIN)/python -m tests.browser.prepare; \
	  $(BIN)/python -m tests.cluster.build control-plane node metrics && \
	  $(BIN)/python -m pytest --timeout 300 tests/realnodes && \
	  REQUIRE_POD_NETWORK=1 $(BIN)/python -m pytest -n 2 tests/local/test_pod_network.py tests/local/test_isolated_services.py tests/node/network && \
	  LAUNCHER_POD_NETWORK=isolated $(BIN)/python -m pytest -n 2 -m "not cluster" $(foreach name,$(WITH_ISOLATED_PODS),tests/local/test_$(name).py); \
	fi

test-engine: $(VENV)/.dev  ## After changes to the container runtimes: tests with Docker, Podman and bubblewrap. Needs root, installs Debian packages. KILLS=100 ENGINE_KILLS=20 kills launcher and engines more often.
	@if $(BIN)/python -m tests.engine.prepare; then \
	  $(BIN)/python -m pytest -n 2 --dist worksteal -m "engine and not slow and not cluster" && \
	  $(BIN)/python -m pytest -n 2 -k bwrap tests/node; \
	fi

test-slow: export HYPOTHESIS_PROFILE := full
test-slow: $(VENV)/.dev  ## After changes to the controller, the store or the API: long randomized tests.
	$(BIN)/python -m pytest -n auto --dist worksteal -m "(slow or hypothesis) and not cluster and not node and not engine and not browser and not ml"

test-browser: $(VENV)/.dev  ## After changes to the dashboard or to what it reads: tests in chromium, which is installed if it is missing. Also in Kubernetes mode, with the programs of test-cluster.
	$(BIN)/python -m tests.cluster.build control-plane
	@rm -f build/browser-figures.txt
	@if $(BIN)/python -m tests.browser.prepare; then \
	  $(BIN)/python -m pytest -n 2 --dist loadscope -m browser tests/browser && cat build/browser-figures.txt; \
	fi

# Both at the same time: the installation takes longer than the tests.
test-ml: $(VENV)/.dev  ## After changes to pod networks or job kinds: real TensorFlow and PyTorch jobs, which are installed (7 GB). Needs root.
	$(MAKE) -j 2 build/ml/tensorflow/.made build/ml/torch/.made
	REQUIRE_POD_NETWORK=1 $(BIN)/python -m pytest --timeout 300 tests/ml

build/ml/%/.made: requirements-%.lock
	$(PYTHON) -m venv build/ml/$*
	build/ml/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r $<
	touch $@

test-all: test test-slow test-engine test-cluster test-node test-browser test-ml  ## Before a release: all of the above.

check: $(VENV)/.dev  ## Format, lint, types and import rules only.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

SEEDS ?= 1000
simulate: $(VENV)/.dev  ## Run the controller in virtual time with injected faults: make simulate [SEEDS=1000] [CASE=retry-storm/everything/3].
	$(BIN)/python -m tests.controller.simulation --seeds $(SEEDS) $(if $(CASE),--case $(CASE))

REQUESTS ?= 100000
SEED ?= 1
fuzz: $(VENV)/.dev  ## Send random requests to a launcher that is killed and restarted in between: make fuzz [REQUESTS=100000] [SEED=1].
	$(BIN)/python -m tests.fuzz --requests $(REQUESTS) --seed $(SEED)

##@ Measure
bench: $(VENV)/.dev  ## Measure local mode; writes ratios within one run to build/bench/.
	$(BIN)/python -m tests.bench

bench-engine: $(VENV)/.dev  ## Measure --runtime docker with Docker and Podman against their bare APIs; writes to build/bench/. Needs root, installs Debian packages.
	@if $(BIN)/python -m tests.engine.prepare; then $(BIN)/python -m tests.bench_engine; fi

bench-cluster: $(VENV)/.dev  ## Measure Kubernetes mode on a real control plane; writes to build/bench/.
	$(BIN)/python -m tests.cluster.build control-plane
	$(BIN)/python -m tests.bench_cluster

##@ Change
format: $(VENV)/.dev  ## Format the code and apply automatic lint fixes.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(VENV)/.dev  ## Regenerate schemas/*.json, the CRDs and the Helm chart.
	$(BIN)/python -m schemas.generate
	$(BIN)/python -m deploy.generate

docs: $(VENV)/.dev  ## Regenerate the reference pages of docs/.
	$(BIN)/python -m docs.generate

picture: $(VENV)/.dev  ## Record docs/images/terminal.svg again, after changes to the output of launcher run.
	$(BIN)/python -m docs.generate.terminal

screenshots: $(VENV)/.dev  ## Take the pictures of docs/dashboard.md again, after changes to the dashboard. Needs chromium.
	$(BIN)/python -m tests.browser.screenshots

texts: $(VENV)/.dev  ## Regenerate tests/texts.md, the table of all user-visible texts.
	$(BIN)/python -m tests.texts

lock:  ## Resolve the newest versions of all dependencies into the lock files. Needs uv.
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --upgrade --group build pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  -c requirements.lock --upgrade --group dev pyproject.toml -o requirements-dev.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --upgrade --group s3-server -o requirements-s3.lock
	for group in tensorflow torch; do \
	  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --upgrade --group $$group -o requirements-$$group.lock; \
	done

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Framework Launcher needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.runtime: $(VENV)/.made requirements.lock pyproject.toml
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock requirements-s3.lock
	$(INSTALL) --require-hashes -r requirements-dev.lock
	$(PYTHON) -m venv $(VENV)/s3-server
	$(VENV)/s3-server/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-s3.lock
	touch $@

clean:  ## Delete the virtual environment, build results and caches.
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

help:  ## Print this list.
	@awk -v width="$${COLUMNS:-80}" -F ':.*## ' ' \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { \
	    line = sprintf("  %-14s", $$1); count = split($$2, words, " "); \
	    for (i = 1; i <= count; i++) { \
	      if (length(line) + length(words[i]) + 1 > width) { print line; line = sprintf("  %-14s", "") } \
	      line = line " " words[i] \
	    } \
	    print line \
	  }' $(MAKEFILE_LIST)
