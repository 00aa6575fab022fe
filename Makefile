# What a person or CI runs; `make help` lists it.
# Needs git, make and Python 3.11 to 3.13 with venv: everything else is fetched into $(VENV) and
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

.DELETE_ON_ERROR:
.PHONY: help setup demo docs test test-fast test-slow test-bare test-postgresql nightly lint format bench-tuning bench-kernels bench-service bench-database bench-load bench-simulator bench-doubt bench-verification bench-anchors bench-truth bench-phones bench-hand bench-everyday bench-networks bench-scale bench-scaling bench-targets bench-watch bench-search chaos search-tables option-table lock bench-dashboards screenshots vendor-assets clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(VENV)/.installed ## make .venv with the hvxtune command, and fetch the simulator (TARGETS=v73 builds one for newer targets)
	@$(BIN)/python -m compileall -q tuner db service dashboards
	@$(BIN)/hvxtune setup $(TARGETS:%=--target %)

demo: setup ## start a service, tune one kernel through it, ask for the best (about a minute)
	@$(BIN)/python -m service.demo

docs: setup $(VENV)/.dev ## build the documentation site in build/site; a broken link fails
	@$(BIN)/mkdocs build --strict --quiet --config-file service/cli/site/mkdocs.yml --site-dir $(CURDIR)/build/site

test: lint test-fast test-slow ## everything CI runs: lint, fast tests, slow tests

test-fast: setup $(VENV)/.dev ## the tests that need seconds
	$(BIN)/pytest -m "not slow and not nightly" -n logical --maxprocesses 4

test-slow: setup $(VENV)/.dev ## the tests that need minutes: compilers, simulator, killed processes
	$(BIN)/pytest -m "slow and not nightly" -n logical --maxprocesses 2 --dist loadscope --durations 40

test-bare: demo $(VENV)/.dev ## what a machine without compilers, browser and database must do: the demo, set-up, the command line, the tutorial
	$(BIN)/pytest -m "not slow and not nightly" -n logical --maxprocesses 4 tests/test_setup.py tests/examples tests/tuner/machine tests/service/cli
	$(BIN)/pytest -m slow tests/examples/test_tutorial.py

test-postgresql: setup $(VENV)/.dev ## the fast tests of stores, services and pages over PostgreSQL (needs its server)
	HVXTUNE_TEST_DATABASE=postgresql $(BIN)/pytest -m "not slow and not nightly and not sqlite" -n logical --maxprocesses 4 tests/db tests/service tests/dashboards

nightly: setup $(VENV)/.dev ## the long proofs (hundreds of mutations, killed processes): an hour or more
	$(BIN)/pytest -m nightly -n logical --maxprocesses 2 --dist loadscope
	$(BIN)/pytest -m "hypothesis and not slow and not nightly" --hypothesis-profile thorough -n logical --maxprocesses 2

lint: setup $(VENV)/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev ## let ruff lay out the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-tuning: setup ## tune every kernel; print the bests and the tuner's own share of the time
	$(BIN)/python -m benchmarks.tuning

bench-kernels: setup ## no schedule, autoschedulers, C, textbook and best of 200 trials for every kernel (minutes each; goes on where it was stopped)
	@mkdir -p build
	$(BIN)/python -m benchmarks.kernels --json build/bench-kernels.json

bench-service: setup ## load on the best-query with a million schedules stored (first makes them: minutes)
	$(BIN)/python -m benchmarks.service

bench-load: setup ## health checks and best-queries beside batches of misses, half-open connections and large uploads (same database)
	$(BIN)/python -m benchmarks.load

bench-database: setup $(VENV)/.dev ## submit, claim and commit in PostgreSQL with 100,000 trials stored, beside best-queries (needs its server)
	$(BIN)/python -m benchmarks.database

bench-simulator: setup $(VENV)/.dev ## price the simulator: overhead, determinism, what assumptions decide
	$(BIN)/python -m benchmarks.simulator

bench-doubt: setup ## twelve jobs of 30 trials: how far their bests rest on assumed costs, plain against robust (minutes)
	$(BIN)/python -m benchmarks.doubt
	$(BIN)/python -m benchmarks.doubt --both-ways gemm_u8

bench-verification: setup $(VENV)/.dev ## price verification: all cases and the timed one alone, for every kernel
	$(BIN)/python -m benchmarks.verification

bench-anchors: setup ## hold the timing model against ratios published for hardware
	$(BIN)/python -m benchmarks.anchors

bench-truth: setup ## every public figure of real chips that can be rebuilt, beside the model's (a minute or two)
	$(BIN)/python -m benchmarks.truth

bench-targets: setup ## verify every kernel's default and textbook schedule on v66, v68 and v73 (minutes)
	$(BIN)/python -m benchmarks.targets

bench-phones: setup $(VENV)/.dev ## price an emulated phone: a trial beyond its run, a bundle of 16
	$(BIN)/python -m benchmarks.phones

bench-hand: setup ## filters written by hand in HVX intrinsics beside the best of 100 trials (minutes each)
	$(BIN)/python -m benchmarks.hand

bench-everyday: setup ## twenty pipelines that people write: textbook, best of 30 trials, share of the peak (half an hour)
	$(BIN)/python -m benchmarks.everyday

bench-networks: setup $(VENV)/.dev ## MobileNetV2 and ResNet-50 end to end: one call a layer, each layer tuned, the plan (an hour and a half; goes on where it was stopped)
	$(BIN)/python -m benchmarks.networks

bench-watch: setup ## from a save to the new figure in `hvxtune package watch`, for a small C kernel
	$(BIN)/python -m benchmarks.package_watch

bench-scale: setup $(VENV)/.dev ## 1 to 16 workers of a cluster on work that sleeps, and what a trial costs more than here
	$(BIN)/python -m benchmarks.scale

bench-scaling: setup $(VENV)/.dev ## measure what a trial costs here, and simulate laboratories of up to 7,296 devices with it (needs PostgreSQL)
	$(BIN)/python -m benchmarks.scaling --plots docs/img/scaling

chaos: setup $(VENV)/.dev ## break a lab of real processes while jobs run, SEEDS times (needs root)
	$(BIN)/python -m tests.chaos --seeds $(or $(SEEDS),3)

bench-search: setup ## replay every search on the tables of measured configs
	$(BIN)/python -m benchmarks.searches
	$(BIN)/python -m benchmarks.search_cost
	$(BIN)/python -m benchmarks.search_transfer benchmarks/tables/*.jsonl.gz
	$(BIN)/python -m benchmarks.search_stopping benchmarks/tables/*.jsonl.gz

option-table: setup ## write the table of job options in docs/cli.md anew
	$(BIN)/python -m tests.option_table

search-tables: setup ## measure the tables anew (hours; goes on where it was stopped)
	nice -n 19 $(BIN)/python -m benchmarks.search_tables

bench-dashboards: setup $(VENV)/.dev ## time the pages of a job of 20,000 trials
	$(BIN)/python -m benchmarks.dashboards

screenshots: setup $(VENV)/.dev ## take the pictures of docs/dashboards.md anew; EVERY=1: of every page, at three widths, light and dark, in build/screenshots (needs Chromium)
	$(BIN)/python -m tests.dashboards.screenshots $(EVERY:%=--every build/screenshots)

vendor-assets: ## fetch the browser code under dashboards/static/vendor anew (needs npm)
	$(PYTHON) .ci/vendor_assets.py

lock: ## pin the dependencies anew (UPGRADE=--upgrade takes newer versions)
	$(PYTHON) -m venv build/lock-tool
	build/lock-tool/bin/pip install --quiet uv==0.13.8
	$(COMPILE_LOCK) --output-file $(LOCK)/runtime.txt pyproject.toml
	$(COMPILE_LOCK) --group dev --extra calibrate --extra cmaes --extra dask --extra docs --extra network --extra plan --extra postgres --constraint $(LOCK)/runtime.txt \
		--output-file $(LOCK)/dev.txt pyproject.toml

clean: ## remove what make made here (state directory and cache stay)
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(OUR_CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: $(LOCK)/runtime.txt pyproject.toml
	@$(PYTHON) .ci/check_machine.py
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing the pinned packages (about 200 MB on the first run)"
	@$(PIP_LOCKED) --quiet -r $(LOCK)/runtime.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(LOCK)/dev.txt $(VENV)/.installed
	@$(PIP_LOCKED) --quiet -r $(LOCK)/dev.txt
	@touch $@
