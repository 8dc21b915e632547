# `make` lists what there is to do.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV    := .venv
# Relative: the path of a clone may have blanks.
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.setup
DATASET ?= credit
# Slow tests whose files each share a server, and so run by file.
SERVED  := tests/e2e tests/servers tests/leakage/test_processes.py
# Tests write and sync small files by the thousand: in memory, where it has room for them.
ROOM    := $(shell test "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 8000000 \
	2>/dev/null && echo TMPDIR=/dev/shm)
# The first Python that the project supports; name another with PYTHON=.
PYTHON  ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null \
	&& echo $$p && break; done)
# The one that is here, or else the lock's own; pip alone does, too, and takes minutes (UV= forces it).
UV      ?= $(or $(shell command -v uv 2>/dev/null),$(BIN)/uv)
# What people read: code with its messages, documents, pages, settings.
PROSE   := '*.py' '*.md' '*.html' '*.js' '*.css' '*.toml' '*.yaml' '*.yml' '*.cff' '*.cfg' Makefile
LOCK    := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-strip-extras --no-header
# All extras but mlflow, which asks for older packages than the others.
EXTRAS  = $(shell sed -n '/^\[project.optional/,/^\[project.scripts/{/^mlflow/d;s/^\([a-z0-9]*\) = .*/--extra \1/p}' pyproject.toml)
PIP     := $(BIN)/python -m pip install --quiet --disable-pip-version-check

export PATH := $(CURDIR)/$(BIN):$(PATH)
# Where it is set, each of many processes compiles all packages once more.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo ui test test-slow test-deployments mutants matrix lint type fmt bench docs tour lock release clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## make ./.venv with everything that the other targets need

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.13 is needed."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	if [ "$(UV)" = "$(BIN)/uv" ] && [ ! -x "$(UV)" ]; then \
		sed -n '/^uv==/,/[^\\]$$/p' requirements.lock >$(VENV)/uv.lock; \
		$(PIP) --require-hashes -r $(VENV)/uv.lock || true; \
	fi
	if [ -n "$(UV)" ] && [ -x "$(UV)" ] \
		&& "$(UV)" pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock; then \
		"$(UV)" pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .; \
	else \
		$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null; \
		$(PIP) --no-deps --require-hashes -r requirements.lock \
		&& $(PIP) --no-deps --no-build-isolation --editable .; \
	fi
	@touch $@

demo: setup ## run the training DAG in a real Airflow (DATASET=credit|adult|pendigits|powerplant|casp)
	opboost demo --dataset $(DATASET)

ui: setup ## leave Airflow running, and say where and how to log in
	opboost ui

test: setup ## run linters, types and all tests that need nothing but PyPI
	@$(MAKE) --no-print-directory -j 2 lint type
	$(ROOM) pytest -n auto --dist worksteal

test-slow: setup ## run the tests that need a browser or a server, and long ones, as root
	$(ROOM) pytest -m slow -n auto --dist worksteal $(SERVED:%=--ignore %) --durations 25
	$(ROOM) pytest -m slow -n 2 --dist loadfile $(SERVED) --durations 25

test-deployments: setup ## run the tests of whole deployments, for an hour, as root
	pytest -m deployment

mutants: setup ## the mutation score of PART=mechanisms|privacy|acceptance|private, for some minutes to hours
	python -m tests.mutants $(or $(PART),acceptance)

matrix: setup ## lint, types and fast tests on six corners of Pythons and packages, for an hour
	.ci/matrix

lint: setup ## ruff, the rules of who imports whom, spelling and plain words
	ruff check .
	ruff format --check .
	lint-imports
	git ls-files -z $(PROSE) | xargs -0 codespell

type: setup ## mypy, strict
	mypy

fmt: setup ## format the code
	ruff check --fix .
	ruff format .

bench: setup ## the pipeline beside LightGBM alone, mechanisms beside pyope and numpy
	python benchmarks/pipeline.py --rows 8192 --features 11 --trees 200 --depth 4 --parties 3 --json
	python benchmarks/desensitize.py --json

docs: setup ## build the documentation into ./site
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet

tour: setup ## make the pictures of docs/pages.md again (needs chromium)
	OPBOOST_SCREENSHOTS="$(CURDIR)/.opboost/tour" pytest -m slow tests/e2e/test_pages.py
	cd .opboost/tour && for picture in run-1440-light ledger-1440-light version-1440-light \
		exchange-1440-light quality-390-dark ledger-390-dark; do \
		cp $$picture.png "$(CURDIR)/docs/figures/tour-$$picture.png"; done
	cat opboost_ops/reports/display/{templates,static}/* | sha256sum >docs/figures/tour.sha256

lock: ## renew requirements.lock, and that of what makes the image
	$(LOCK) $(EXTRAS) pyproject.toml --output-file requirements.lock
	$(LOCK) docker/image/tools.in --output-file docker/image/tools.lock

release: setup ## packages, notes and a tag of the version in pyproject.toml (TAG= for no tag)
	.ci/release

clean: ## remove what the targets made, the environment too
	rm -rf $(VENV) .opboost site build dist \
		.hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
