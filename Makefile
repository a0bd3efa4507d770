# Everything a developer does, each in one command. Set-up is part of the commands that need it:
# a virtual environment for Python, and kgen's private compiler environment.

PYTHON ?= python3
VENV ?= .venv
PY ?= $(VENV)/bin/python
KGEN = $(PY) -m kgen.cli.main
SPEC ?= specs/hopper/v6.yaml

.PHONY: demo setup test long exhaustive lint golden check gpu prebuild bench tables clean

# Rebuilt when the dependencies change. The stamp is written last, so an interrupted set-up is redone.
$(VENV)/stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

ifeq ($(PY),$(VENV)/bin/python)
SETUP = $(VENV)/stamp
endif

setup: $(SETUP)

demo: $(SETUP)
	$(KGEN) toolchain install
	$(KGEN) demo $(SPEC)

test: $(SETUP)
	$(KGEN) toolchain install
	$(PY) -m pytest -m "not gpu" $(PYTEST_ARGS)

# What `make test` leaves out: every rung of the Hopper ladder under every schedule in the emulator,
# and every mutant of four kernels.
long: $(SETUP)
	$(KGEN) toolchain install
	$(PY) tests/long.py

# Hours: half an hour of random specs, the fast family under every schedule, mutants of one of them.
exhaustive: $(SETUP)
	$(KGEN) toolchain install
	$(PY) tests/space.py 1800
	$(PY) tests/long.py all

lint: $(SETUP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pyright -p pyproject.toml

SHIPPED = examples/consumer/cmake/kernels examples/consumer/torch/kernels
# The winners of a recorded sweep, as that day's templates made them: shipped again they would lose their evidence.
MEASURED = benchmarks/hopper_fast/kernels

golden: $(SETUP)
	$(KGEN) render specs
	for folder in $(SHIPPED); do $(KGEN) ship --to $$folder || exit 1; done

check: $(SETUP)
	$(KGEN) check
	for folder in $(SHIPPED); do $(KGEN) check $$folder || exit 1; done
	$(KGEN) check --digests $(MEASURED)

# What `make gpu` and `make bench` load, for GPU machines that cannot install compilers: carry the
# folder along and point KGEN_CACHE at it there.
CACHE ?= .cache/kgen
prebuild: $(SETUP)
	$(KGEN) toolchain install
	KGEN_TOOLCHAIN_DIR="$$($(PY) -c 'from kgen.build import toolchain; print(toolchain.home().parent)')" \
	    KGEN_CACHE="$(CACHE)" PYTHONPATH=tests $(PY) tests/prebuild.py

# Everything that needs a GPU. PY=python3 uses an environment that already holds torch and cupy.
gpu: $(SETUP)
	KGEN_GPU_RECORD=benchmarks/gpu_tests.json $(PY) -m pytest -m gpu tests/gpu $(PYTEST_ARGS)

bench: $(SETUP)
	$(KGEN) bench specs/hopper --output benchmarks/results

tables: $(SETUP)
	$(KGEN) results --update README.md --chart benchmarks/ladder.svg

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
