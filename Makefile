# Two commands do all their own set-up on a Debian or Ubuntu machine with make: `make demo` and
# `make test`. Everything is installed into $(VENV); system packages only where apt may be used.

VENV ?= .venv
JOBS ?= 2
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := $(VENV)/bench/.ready
TRAINING := $(VENV)/training/.ready

.PHONY: help demo test lint bench expert-table tiny setup doctor clean

help:
	@echo "make demo          the quickstart suite with tiny, a policy that sees, on real LIBERO"
	@echo "                   (a second time: at once, from the records; FRESH=1 runs it again)"
	@echo "make test          every check and every test"
	@echo "make lint          the checks alone: ruff, mypy, import-linter"
	@echo "make bench         the benchmarks that have targets, one line a row; LONG=1 for the slow ones too"
	@echo "make expert-table  which tasks the scripted expert can do (about 10 minutes)"
	@echo "make tiny          makes the policy tiny anew: demonstrations, training, export, its table"
	@echo "                   (3 hours of two cores, into build/tiny)"
	@echo "make setup         what demo and test do first; make doctor says what is missing"

demo: $(READY)
	@$(BIN)/python scripts/demo.py --jobs $(JOBS) $(if $(FRESH),--fresh)

# The fast checks come first; pytest comes last, so that its own line is the last one. Tests of the
# real simulator skip where it is not installed: here doctor fails instead, so that they never do.
test: lint
	$(BIN)/vla-shift doctor
	$(BIN)/python -m pytest tests -n $(JOBS) --dist worksteal --timeout 900

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(BENCH)
	@$(BIN)/python -m benchmarks $(if $(LONG),--long)

expert-table: $(READY)
	for suite in libero_object libero_spatial libero_goal; do \
		$(BIN)/python -m benchmarks.expert_table $$suite --jobs $(JOBS) || exit 1; done

tiny: $(TRAINING)
	@$(VENV)/training/bin/python -m training --jobs $(JOBS) --out build/tiny

setup: $(READY)

doctor: $(READY)
	@$(BIN)/vla-shift doctor

# Made last by the script, so that a set-up that was cut off begins again.
$(READY): pyproject.toml scripts/setup.sh tests/conformance/requirements.txt
	@sh scripts/setup.sh $(VENV)

# Apart from the tests' environment, which has no use for it.
$(BENCH): $(READY) benchmarks/requirements.txt scripts/beside.sh
	@sh scripts/beside.sh $(VENV) bench benchmarks/requirements.txt

$(TRAINING): $(READY) training/requirements.txt scripts/beside.sh
	@sh scripts/beside.sh $(VENV) training training/requirements.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
