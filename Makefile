# What a person or CI runs; `make help` lists it.
# Needs git, make and Python 3.11 or newer with venv: everything else is fetched into $(VENV) and
# the cache ($HVXTUNE_CACHE_DIR, or hvxtune under the XDG cache home).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := .ci/lock
OUR_CODE := tuner db service dashboards benchmarks tests

# The lock files are complete and hashed: pip resolves nothing, builds nothing.
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PIP_LOCKED := $(PIP) install --require-hashes --only-binary :all: --no-deps --progress-bar off
COMPILE_LOCK = build/lock-tool/bin/uv pip compile --quiet --universal --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command 'make lock' \
	--group build $(UPGRADE)

# Of a package that both locks have, that which runs has it: they are installed beside each other.
IN_RUNTIME = $$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' $(LOCK)/runtime.txt)

# One worker more than there are cores: many tests wait for processes that they started.
WORKERS = $$(($$(nproc) + 1))
TESTS = $(BIN)/pytest -q -p tests.progress -o console_output_style=classic -n $(WORKERS) --maxprocesses 5 --dist worksteal
# Lint, which takes seconds, then types beside the tests marked $(1), many of which wait for others;
# $(2) are further options of pytest.
define checked
@mkdir -p build
@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --check --quiet .
@$(BIN)/mypy >build/types.txt & mypy=$$!; trap "kill $$mypy 2>/dev/null" EXIT; \
	$(TESTS) -m '$(1)' $(2); tests=$$?; wait $$mypy; types=$$?; trap - EXIT; cat build/types.txt; exit $$((tests | types))
endef

# An environment whose Python has gone, with the cache or by an upgrade, is made anew.
$(shell test -x $(BIN)/python || rm -f $(VENV)/.made $(VENV)/.installed $(VENV)/.dev)

.DELETE_ON_ERROR:
.PHONY: help setup ready demo docs test test-all test-postgresql nightly lint format bench chaos lock screenshots vendor-assets clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(VENV)/.installed ## make .venv with the hvxtune command, and fetch the simulator (TARGETS=v73 builds one for newer targets)
	@$(BIN)/python -m compileall -q tuner db service dashboards
	@$(BIN)/hvxtune setup $(TARGETS:%=--target %)

ready: # what tests need: two pips at once, since each keeps one core busy for half a minute
	@$(MAKE) --no-print-directory --jobs 2 setup $(VENV)/.dev

demo: setup ## start a service, tune one kernel through it, ask for the best (about a minute)
	@$(BIN)/python -m service.demo

docs: ready ## build the documentation site in build/site; a broken link fails
	@$(BIN)/mkdocs build --strict --quiet --config-file service/cli/site/mkdocs.yml --site-dir $(CURDIR)/build/site

test: ready ## lint, types, the fast tests and one real path through each room (minutes)
	$(call checked,(not slow or path) and not nightly,-p no:schemathesis)

test-all: ready ## all that CI runs: the same, and the tests that need compilers, simulators, killed processes
	$(call checked,not nightly)

test-postgresql: ready ## the fast tests of stores, services and pages over PostgreSQL (needs its server)
	HVXTUNE_TEST_DATABASE=postgresql $(TESTS) -m "not slow and not nightly and not sqlite" tests/db tests/service tests/dashboards

nightly: ready ## the long proofs (hundreds of mutations, killed processes): an hour or more
	$(BIN)/pytest -m nightly -n logical --maxprocesses 2 --dist loadscope
	$(BIN)/python -m tests.mutants
	$(BIN)/pytest -m "hypothesis and not slow and not nightly" --hypothesis-profile thorough -n logical --maxprocesses 2

lint: ready ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## let ruff lay out the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: ready ## run a benchmark: NAME=hand (ARGS='--json' or a name within it); without NAME, list them
	@$(BIN)/python -m benchmarks $(NAME) $(ARGS)

chaos: ready ## break a lab of real processes while jobs run, SEEDS times (needs root)
	$(BIN)/python -m tests.chaos --seeds $(or $(SEEDS),3)

screenshots: ready ## take the pictures of docs/dashboards.md anew; EVERY=1: of every page, at three widths, light and dark, in build/screenshots (needs Chromium)
	$(BIN)/python -m tests.dashboards.screenshots $(EVERY:%=--every build/screenshots)

vendor-assets: ## fetch the browser code under dashboards/static/vendor anew (needs npm)
	$(PYTHON) .ci/vendor_assets.py

lock: ## pin the dependencies anew (UPGRADE=--upgrade takes newer versions)
	$(PYTHON) -m venv build/lock-tool
	build/lock-tool/bin/pip install --quiet uv==0.13.8
	$(COMPILE_LOCK) --output-file $(LOCK)/runtime.txt pyproject.toml
	$(COMPILE_LOCK) --group dev --extra calibrate --extra cmaes --extra dask --extra docs --extra network --extra plan --extra postgres --constraint $(LOCK)/runtime.txt \
		$(IN_RUNTIME) --output-file $(LOCK)/dev.txt pyproject.toml
	$(COMPILE_LOCK) --group client-generator --output-file $(LOCK)/client-generator.txt

clean: ## remove what make made here (state directory and cache stay)
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(OUR_CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) .ci/check_machine.py
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
		{ python=$$($(PYTHON) .ci/fitting_python.py) && "$$python" -m venv --clear $(VENV); }
	@touch $@

$(VENV)/.installed: $(LOCK)/runtime.txt pyproject.toml | $(VENV)/.made
	@echo "installing the pinned packages (about 200 MB on the first run)"
	@$(PIP_LOCKED) --quiet -r $(LOCK)/runtime.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(LOCK)/dev.txt | $(VENV)/.made
	@$(PIP_LOCKED) --no-compile --quiet -r $(LOCK)/dev.txt
	@touch $@
