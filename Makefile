# make demo, make test and make benchmark work on a fresh checkout; `make help` lists them.
#
# They put what they need into a virtual environment, .venv (VENV=... for another place), in the versions of
# requirements.lock (LOCK= for the newest). If it is not there yet, python3 makes it (PYTHON=... for another interpreter,
# 3.10 or later). What Debian must provide is installed if root runs make.

VENV ?= .venv
PYTHON ?= python3
LOCK ?= requirements.lock
# pip obeys them in builds too: before 25.3 the first, since then the second.
export PIP_CONSTRAINT := $(LOCK)
export PIP_BUILD_CONSTRAINT := $(LOCK)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PYTEST_ARGS ?= --numprocesses auto
FUZZ_ARGS ?= --count 1000000 --keep fuzz
CASES_ARGS ?= --count 100000
ATHERIS_ARGS ?= -max_total_time=600
SANITIZE_ARGS ?= --count 100000

# What is compiled: modules beside which a file of types lies, and what is written for Cython alone.
HOT := $(shell find scapy_mpa -name '*.pxd' -o -name '*.pyx' -o -name '*.h')
HOT += setup.py scapy_mpa/compiled.py $(wildcard $(patsubst %.pxd,%.py,$(filter %.pxd,$(HOT))))

# A plain path entry in place of setuptools' import hook, which costs every start of the command some 10 ms.
EDITABLE := --config-settings editable_mode=compat --editable

CREATED := $(VENV)/.created
INSTALLED := $(VENV)/.installed
INSTALLED_TEST := $(VENV)/.installed-test
INSTALLED_DOCS := $(VENV)/.installed-docs
# It prints True or False: a status would not tell "not compiled" from a check that fails.
IS_COMPILED := $(BIN)/python -c 'from scapy_mpa.compiled import is_compiled; print(is_compiled())'

BUILD_REQUIRES := sed -n 's/^requires = \[\(.*\)\]$$/\1/p' pyproject.toml | tr , '\n' | tr -d '" '

SANITIZED := build/sanitized
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer

# $(call provide,a command that succeeds if it is there,the Debian packages that bring it)
define provide
@set -e; \
present() { $(1) >/dev/null 2>&1; }; \
if ! present && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "installing $(2)"; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq </dev/null; \
	apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $(2) </dev/null; \
fi; \
present || { echo "$(2) is missing: install it first (apt-get install $(2))" >&2; exit 1; }
endef

# $(call offer,a command that succeeds if it is there,the Debian packages that bring it,what is skipped without)
define offer
@present() { $(1) >/dev/null 2>&1; }; \
if ! present && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "installing $(2)"; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq </dev/null; \
	apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $(2) </dev/null; \
fi; \
present || echo "$(2): not there, so $(3) (apt-get install $(2))" >&2
endef

# What compiles hot modules is installed if root runs make; without, everything works more slowly.
CAN_COMPILE := cc --version && test -e "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"
define provide_compiler
@present() { ($(CAN_COMPILE)) >/dev/null 2>&1; }; \
if [ "$${SCAPY_MPA_PURE:-0}" = 0 ] && ! present && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "installing gcc python3-dev"; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq </dev/null; \
	apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends gcc libc6-dev python3-dev </dev/null; \
fi; \
present || echo "no C compiler, or no headers of $(PYTHON): nothing is compiled, everything works more slowly" \
	"(apt-get install gcc python3-dev)" >&2
endef

# $(call add,an extra) installs what that takes, and leaves the project as it is: pip would compile it once more.
add = $(BIN)/python -c 'from importlib.metadata import requires; print(*(one.partition(";")[0].strip() \
	for one in requires("scapy-mpa") if one.endswith("extra == \"$(1)\"")), sep="\n")' | xargs -d '\n' $(PIP) install --quiet

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Several targets install into one virtual environment, and build in one folder: make -j would do so at the same time.
.NOTPARALLEL:
.PHONY: help demo test test-sample test-all test-every test-latest test-oldest test-newest lint lock docs dist benchmark fuzz \
	cases atheris sanitize clean

help: ## what this Makefile makes
	@sed -n 's/^\([a-z -]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## analyse one capture of pcaps/ and list the first of its FPDUs
	@# status 1: the capture was read, and there is an error in it
	$(BIN)/scapy-mpa analyze pcaps/markers-reordered.pcap || [ $$? -eq 1 ]
	@echo
	@echo '$(BIN)/scapy-mpa fpdus pcaps/markers-reordered.pcap | head -n 12'
	@# In a pipe, head would hide that fpdus fails.
	@fpdus=$$($(BIN)/scapy-mpa fpdus pcaps/markers-reordered.pcap) && echo "$$fpdus" | head -n 12

# $(call timed,targets) prints what is done, SUMMARY, and at the end how long it took.
define timed
@echo "make $@: $(SUMMARY)"; \
begin=$$(date +%s); status=0; \
$(MAKE) --no-print-directory $(1) || status=$$?; \
echo "make $@: $$([ $$status = 0 ] && echo done || echo FAILED) after $$(( $$(date +%s) - begin )) s"; \
exit $$status
endef

test: SUMMARY = $(VENV) gets the versions of $(or $(LOCK),today); then make lint and a sample of the tests run
test: ## ruff, mypy, import-linter, then of each test some cases (PYTEST_ARGS="--numprocesses auto --sample-seed 1" for others)
	$(call timed,test-sample)

test-sample: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)
	@# What counts lines counts those of the source; where nothing is compiled, it has run.
	compiled=$$($(IS_COMPILED)) && { [ $$compiled = False ] || SCAPY_MPA_PURE=1 $(BIN)/python -m pytest -m uncompiled $(PYTEST_ARGS); }

test-all: SUMMARY = every check and every case of every test; then tests/cli and tests/layers with oldest and newest versions
test-all: ## make lint, every case of every test, compiled and with its coverage uncompiled; test-oldest, test-newest
	$(call timed,test-every test-oldest test-newest)

test-every: lint $(INSTALLED_DOCS)
	compiled=$$($(IS_COMPILED)) && { [ $$compiled = False ] || $(BIN)/python -m pytest --all $(PYTEST_ARGS); }
	SCAPY_MPA_PURE=1 $(BIN)/python -m pytest --all --cov $(PYTEST_ARGS)

test-latest: ## make test with the newest versions of everything, in build/latest
	rm -rf build/latest
	$(MAKE) --no-print-directory test LOCK= VENV=build/latest

test-oldest test-newest: $(INSTALLED_TEST) ## tests/cli and tests/layers with the oldest or newest versions and Python
	$(PIP) install --quiet uv
	$(BIN)/python -m scripts.dev.try_versions $(@:test-%=%)

lint: $(INSTALLED_TEST) ## ruff, mypy and import-linter alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

lock: $(CREATED) ## write requirements.lock anew: the newest versions that pyproject.toml permits, for each Python
	PIP_CONSTRAINT= $(PIP) install --quiet --upgrade uv
	$(BUILD_REQUIRES) | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --no-emit-index-url \
		--custom-compile-command "make lock" --extra dev pyproject.toml - --output-file requirements.lock

docs: $(INSTALLED_DOCS) ## build the documentation as a site, build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site: $(PYTHON) -m http.server -d build/site shows it at http://localhost:8000"

dist: $(INSTALLED) ## build sdist and wheel into dist/, check them, and run both in clean virtual environments
	$(provide_compiler)
	$(call add,dist)
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	@# What others install knows of no lock.
	env -u PIP_CONSTRAINT -u PIP_BUILD_CONSTRAINT $(BIN)/python -m scripts.dev.check_dist dist

benchmark: $(INSTALLED_TEST) ## measure what is aimed at, into docs/performance.md
	$(BIN)/python scripts/dev/benchmark.py --aims --update

fuzz: $(INSTALLED_TEST) ## hand a million mutated captures to the analysis (FUZZ_ARGS="--count 10000 --jobs 2")
	$(BIN)/python -m scripts.dev.fuzz_captures $(FUZZ_ARGS)

cases: $(INSTALLED_TEST) ## hand 100,000 cases of scapy-mpa fuzz to the analysis, 2,000 to tshark (CASES_ARGS="--jobs 2")
	$(BIN)/python -m scripts.dev.fuzz_cases --keep fuzz $(CASES_ARGS)
	$(BIN)/python -m scripts.dev.fuzz_cases --keep fuzz --tshark --count 2000

atheris: $(INSTALLED_TEST) ## let coverage guide the search for captures that break it, for ten minutes
	$(PIP) install --quiet $(EDITABLE) '.[fuzz]'
	@mkdir -p fuzz
	$(BIN)/python -m scripts.dev.atheris_target fuzz/corpus -artifact_prefix=fuzz/ $(ATHERIS_ARGS)

sanitize: $(INSTALLED_TEST) ## 100,000 mutated captures under ASAN and UBSAN (SANITIZE_ARGS="--count 2000")
	@# Here setup.py runs without pip, which would bring what building needs.
	$(BUILD_REQUIRES) | xargs $(PIP) install --quiet
	SCAPY_MPA_CFLAGS="$(SANITIZERS)" $(BIN)/python setup.py -q build --build-base $(SANITIZED) --build-lib $(SANITIZED)/lib
	@for folder in scripts tests pcaps; do ln -sfn $(CURDIR)/$$folder $(SANITIZED)/lib/$$folder; done
	cd $(SANITIZED)/lib && LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
		PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		$(abspath $(BIN))/python -m scripts.dev.fuzz_captures --untimed $(SANITIZE_ARGS)

clean: ## remove what was made
	rm -rf .venv build dist *.egg-info htmlcov .coverage .coverage.* .hypothesis fuzz
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find scapy_mpa -name '*.so' -delete
	find scapy_mpa scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(CREATED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or later is needed")'
	$(call provide,$(PYTHON) -c "import ensurepip",python3-venv)
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(INSTALLED): pyproject.toml $(LOCK) $(HOT) $(CREATED)
	$(provide_compiler)
	$(call offer,command -v tshark,tshark,crosscheck does not run)
	$(PIP) install --quiet $(EDITABLE) '.[wireshark]'
	@touch $@

$(INSTALLED_TEST): pyproject.toml $(LOCK) $(HOT) $(CREATED)
	$(provide_compiler)
	$(call provide,command -v tshark,tshark)
	$(call provide,command -v ip,iproute2)
	$(call provide,command -v tcpdump,tcpdump)
	$(call offer,(command -v chromium && command -v chromedriver),chromium chromium-driver,no test opens pages in a browser)
	$(call offer,command -v jq,jq,no recipe with jq is run)
	$(PIP) install --quiet $(EDITABLE) '.[test]'
	@touch $(INSTALLED) $@

$(INSTALLED_DOCS): pyproject.toml $(LOCK) $(INSTALLED)
	$(call add,docs)
	@touch $@
