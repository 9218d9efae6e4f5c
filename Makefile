# Needs Python >= 3.11 and make; the rest is made on the way, in .venv. `make help` lists what there is.
# What only the system's package manager has is an extra: installed when run as root, otherwise named with the
# command to type, and whatever wanted it says that it went without.

SHELL := /bin/bash
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --quiet --disable-pip-version-check

# Tests start some thousand processes. With this variable, which containers like to set, each compiles walflow anew: 1.1 s
# of processor for `walflow check` instead of 0.3.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo unit quick test nightly touched check pages docs changelog transcript generated lock sbom release audit bench bench.page bench.crash soak mutation clean chromium neovim strace logrotate nginx java node rsyslog syslog-ng redis prometheus nats-server mosquitto postgres debootstrap helm

help: ## this list
	@awk -F ':.*## ' '/^[a-z.]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.test ## a minute or two: an echo server is killed again and again, loses nothing, and a pipeline on Spark counts it
	@$(RUN) -m demo $(ARGS)

# `$(call tests,CHOICE)` runs one pytest and goes on after a failure; what follows the last one is `$(judged)`.
# pytest says 5 where ARGS left none of the choice. Which test has which tier: tests/tiers.py.
tests = $(RUN) -m pytest $(1) $(ARGS); case $$? in 0) chosen=1 ;; 5) ;; *) failed=1 ;; esac
judged = [[ $$chosen && ! $$failed ]]
several = -n $(or $(JOBS),3) --dist worksteal

unit: $(VENV)/.test ## while you work, seconds: the quick tests of one part; ARGS=walflow/wal, ARGS="connectors/http -k name"
	@$(RUN) -m tests.unit $(ARGS)

quick: $(VENV)/.test ## before each commit, a minute: the tests that start no process; ARGS="-k name" for some of them
	@$(RUN) -m pytest --tier quick -n $(or $(JOBS),2) --dist worksteal $(ARGS)

test: $(VENV)/.test strace logrotate nginx java node rsyslog redis mosquitto postgres ## before each push, six minutes: those and daemons, on one event loop
	@$(call tests,--tier quick --tier test -m alone); \
	$(call tests,--tier quick --tier test -m "not alone" $(several)); $(judged)

# Which of them there are, and which pytest runs them: tests/nightly.
nightly: $(VENV)/.lint chromium neovim strace logrotate nginx java node rsyslog syslog-ng redis prometheus mosquitto postgres debootstrap podman helm ## the rest: the other loop, power cuts, kills, system calls, Spark; properties with all examples. Goes on where it ended; ARGS="--list" for what ran when, ARGS="--fresh" begins anew
	@$(RUN) -m tests.nightly --jobs $(or $(JOBS),3) $(ARGS)

touched: $(VENV)/.lint chromium neovim strace logrotate nginx java node rsyslog syslog-ng redis prometheus mosquitto postgres ## of nightly what a change touches, the nearest first, for BUDGET=480 seconds; WALFLOW_BASE=main: what differs from that
	@$(RUN) -m tests.nightly --touched --seconds $(or $(BUDGET),480) --jobs $(or $(JOBS),3) $(ARGS)

soak: $(VENV)/.test java ## power cuts for MINUTES=10, stories of whole daemons for as long, each goes on where it ended; then the tests that take long
	@$(RUN) -m tests.proof.soak --minutes $(or $(MINUTES),10) --jobs $(or $(JOBS),1)
	@$(RUN) -m tests.simulation.soak --minutes $(or $(MINUTES),10) --jobs $(or $(JOBS),1)
	@$(RUN) -m pytest -m soak $(ARGS)

mutation: $(VENV)/.test ## do the tests bite? the log is changed in 900 places, one by one; goes on where it ended
	@$(RUN) -m tests.mutation --jobs $(or $(JOBS),1) $(ARGS)

bench: $(VENV)/.test java rsyslog redis ## events/s, CPU and memory beside others, rows/s into Spark; ARGS="--rounds 3 --json FILE"
	@$(RUN) -m bench $(ARGS)
	@$(RUN) -m bench.spark $(ARGS)

bench.page: $(VENV)/.test java rsyslog redis ## all rows of docs/reference/speed.md, in an idle hour: ROUNDS=3, SECONDS=1.5 each; the results are bench/results.json
	@$(RUN) -m bench --rounds $(or $(ROUNDS),3) --seconds $(or $(SECONDS),1.5) --warmup 0.5 --json bench/results.json
	@$(RUN) -m bench.spark --kafka --rounds $(or $(ROUNDS),3) --json bench/results.json
	@$(RUN) -m bench --markdown bench/results.json --into docs/reference/speed.md

bench.crash: $(VENV)/.test java rsyslog syslog-ng nats-server ## what is left after a crash, beside others; ARGS="--only walflow --fault kill --repeats 1" for a row
	@$(RUN) -m bench.crash $(ARGS)

check: $(VENV)/.lint ## formatting, lint, types, layers
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync $(checks)

# By the time they take: the longest first.
checks := check-pyright check-mypy check-docs check-layers check-flows check-format check-lint check-image
.PHONY: $(checks)

check-pyright: ; $(VENV)/bin/pyright --pythonpath $(RUN)
check-mypy: ; $(VENV)/bin/mypy
check-docs: ; $(VENV)/bin/mkdocs build --strict
check-layers: ; $(VENV)/bin/lint-imports
check-flows: ; $(VENV)/bin/walflow fmt --check flows demo
check-format: ; $(VENV)/bin/ruff format --check .
check-lint: ; $(VENV)/bin/ruff check .
check-image: ; $(VENV)/bin/hadolint Dockerfile

pages: $(VENV)/.test ## what of docs/ comes from the code, and names the pages that it made anew
	@$(RUN) -m tests.docs.pages

transcript: $(VENV)/.test ## types the first session of a new user into terminals, and writes docs/howto/first-session.md
	@$(RUN) -m demo.newcomer --write

generated: $(VENV)/.test ## the completions and the schema in packaging/
	@for shell in bash zsh fish; do _WALFLOW_COMPLETE=source_$$shell $(VENV)/bin/walflow > packaging/completions/walflow.$$shell || exit 1; done
	@$(VENV)/bin/walflow schema > packaging/tremor-0.11.schema.json

locked = $(RUN) -m uv pip compile --quiet --universal --generate-hashes --no-header

# All extras but spark, of 400 MB, arrow, of 170 MB, and hdr, of which there is no wheel for arm64.
IN_THE_PACKAGE := avro brotli dns kafka legacy lsp mqtt postgres protobuf snappy yaml

lock: $(VENV)/.test ## each package with its hashes: packaging/requirements.lock for users, packaging/debian/ for Debian's package, .ci/requirements.lock for .ci/run
	@$(locked) --output-file packaging/requirements.lock pyproject.toml
	@$(locked) $(addprefix --extra ,$(IN_THE_PACKAGE)) --constraints packaging/requirements.lock --output-file packaging/debian/requirements.lock pyproject.toml
	@$(locked) --python-version 3.11 --extra spark --group test --group lint --output-file .ci/requirements.lock pyproject.toml

sbom: $(VENV)/.test ## an SBOM (CycloneDX) of what is installed, in dist/sbom.json
	@$(PIP) install cyclonedx-bom && mkdir -p dist && $(VENV)/bin/cyclonedx-py environment --output-format JSON --output-file dist/sbom.json $(RUN)

release: $(VENV)/.test ## VERSION=0.1.0: sdist, wheel, Debian packages, chart, image context, SBOM and checksums of this commit, in dist/; KEY=~/.ssh/id_ed25519 signs them
	@$(if $(VERSION),,$(error make release VERSION=0.1.0))$(PIP) install cyclonedx-bom && $(RUN) -m release $(VERSION) $(if $(KEY),--key $(KEY)) $(ARGS)

audit: $(VENV)/.test ## known problems of the locked dependencies, asked of PyPI (fails where that cannot be asked); DATABASE=DIRECTORY asks a clone of PyPA's advisory database
ifdef DATABASE
	@$(RUN) -m release.audit $(DATABASE)
else
	@$(PIP) install pip-audit && $(VENV)/bin/pip-audit --strict --no-deps --disable-pip --requirement packaging/debian/requirements.lock
endif

docs: $(VENV)/.lint ## the pages in docs/ as a site, at http://127.0.0.1:8000
	$(VENV)/bin/mkdocs serve

changelog: $(VENV)/.test ## what changelog.d/ makes of the next release; VERSION=0.2.0 moves it into CHANGELOG.md
	@$(VENV)/bin/towncrier build $(if $(VERSION),--yes --version $(VERSION),--draft --version next)

clean: ## removes .venv and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .soak.json .mutation.json .nightly.json build dist bench/.work
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A build machine (CI=true) has the versions and hashes of the lock, for tests and checks alike: what is uploaded to PyPI today cannot
# break it. What pyproject.toml wants beyond the lock is installed as everywhere, so an old lock costs time and nothing else.
LOCK := $(if $(filter true,$(CI)),.ci/requirements.lock)

# A stamp a set of packages, remade whenever pyproject.toml changes.

$(VENV)/.test: pyproject.toml $(VENV)/.made
	@echo "walflow and what its tests need -> $(VENV)"
	@$(if $(LOCK),$(PIP) install --require-hashes --requirement $(LOCK) || echo "$(LOCK) cannot be installed: newest versions instead" >&2)
	@$(PIP) install --editable '.[spark]' --group test
	@touch $@

$(VENV)/.lint: pyproject.toml $(VENV)/.test
	@echo "ruff, mypy, pyright, import-linter -> $(VENV)"
	@$(PIP) install --group lint
	@touch $@

$(VENV)/.made:
	@if $(RUN) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then exit; fi; \
	for python in $(PYTHON) python3.11 python3 python3.12 python3.13; do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; python=; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "walflow needs Python 3.11 or newer and none is on PATH. Install it, or: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; \
	fi; \
	echo "$$("$$python" --version) -> $(VENV)"; \
	"$$python" -m venv --clear $(VENV) || { \
	  echo "$$python cannot make a virtual environment. On Debian and Ubuntu: sudo apt-get install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }
	@$(PIP) install --upgrade "pip>=25.1"  # the first that knows --group
	@touch $@

strace:
	@command -v strace >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing strace"; { apt-get update && apt-get install --yes --no-install-recommends strace; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "strace is missing, the tests that watch system calls skip: sudo apt-get install strace"

logrotate:
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v logrotate >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing logrotate"; { apt-get update && apt-get install --yes --no-install-recommends logrotate; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "logrotate is missing, the tests that rotate files skip: sudo apt-get install logrotate"

nginx:
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v nginx >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing nginx"; { apt-get update && apt-get install --yes --no-install-recommends nginx-light; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "nginx is missing, the tests with a proxy skip: sudo apt-get install nginx-light"

mosquitto:
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v mosquitto >/dev/null && command -v mosquitto_sub >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing mosquitto"; { apt-get update && apt-get install --yes --no-install-recommends mosquitto mosquitto-clients; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "mosquitto is missing, the tests with MQTT skip: sudo apt-get install mosquitto mosquitto-clients"

postgres:
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && command -v pgbouncer >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing PostgreSQL and pgbouncer"; { apt-get update && apt-get install --yes --no-install-recommends postgresql-common && \
	      sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf; \
	      apt-get install --yes --no-install-recommends postgresql pgbouncer; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "PostgreSQL or pgbouncer is missing, the tests with it skip: sudo apt-get install postgresql pgbouncer"

debootstrap:
	@PATH="$$PATH:/usr/sbin:/sbin"; command -v debootstrap >/dev/null && command -v systemd-nspawn >/dev/null && command -v qemu-aarch64-static >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing debootstrap, systemd-nspawn and qemu"; { apt-get update && apt-get install --yes --no-install-recommends debootstrap systemd-container qemu-user-static; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "debootstrap is missing, the test on a bare Debian skips: sudo apt-get install debootstrap systemd-container qemu-user-static"

podman:
	@command -v podman >/dev/null && command -v conmon >/dev/null && command -v crun >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing podman"; { apt-get update && apt-get install --yes --no-install-recommends podman conmon crun; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "podman is missing, the test of the image skips: sudo apt-get install podman conmon crun"

helm: $(VENV)/.made
	@command -v helm >/dev/null || test -x $(VENV)/helm/helm || { \
	  command -v go >/dev/null && echo "building helm" && GOBIN=$(CURDIR)/$(VENV)/helm go install helm.sh/helm/v3/cmd/helm@v3.22.0 2>/dev/null; \
	} || echo "helm is missing, the test that renders the chart skips: https://helm.sh/docs/intro/install"

chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Chromium"; { apt-get update && apt-get install --yes --no-install-recommends chromium; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "Chromium is missing, the test of the docs site skips: sudo apt-get install chromium"

neovim:
	@command -v nvim >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Neovim"; { apt-get update && timeout 180 apt-get install --yes --no-install-recommends neovim; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "Neovim is missing, the test with an editor skips: sudo apt-get install neovim"

node:
	@command -v node >/dev/null && command -v npm >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing node and npm"; { apt-get update && apt-get install --yes --no-install-recommends nodejs npm; } >/dev/null 2>&1; \
	  else false; fi; \
	} || echo "node or npm is missing, the tests with wscat skip: sudo apt-get install nodejs npm"

rsyslog syslog-ng redis prometheus nats-server: $(VENV)/.test
	@$(RUN) -m bench.unpacked $@

java: $(VENV)/.test
	@$(RUN) -m pyspark_walflow.java >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing a Java runtime, for Spark"; apt-get update >/dev/null 2>&1; \
	    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do \
	      apt-get install --yes --no-install-recommends $$package >/dev/null 2>&1 && break; \
	    done; \
	  fi; \
	  $(RUN) -m pyspark_walflow.java || true; \
	}
