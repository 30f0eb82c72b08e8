# Every target sets up what it needs: a virtual environment with pinned packages, and nvcc from PyPI
# where the machine has no CUDA toolkit.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NVCC := $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
EXTRAS := $(if $(NVCC),dev,dev,nvcc)
# The emulator is built while packages are fetched, where it will be needed; tests keep theirs from one to the next.
BUILD := PYTHONPATH=src nice $(PYTHON) -m kernelblaster.devices.build_ahead
run test check: BESIDE := $(BUILD)
test check: export KERNELBLASTER_TEST_CACHE ?= $(CURDIR)/$(VENV)/built
test check: BESIDE := KERNELBLASTER_CACHE=$$KERNELBLASTER_TEST_CACHE $(BUILD)

.PHONY: run test quick check test-gpu format clean

run: $(READY)
	$(BIN)/kernelblaster demo --folder .runs/demo

test: $(READY)
	$(BIN)/python -m pytest -n auto -m "not gpu"

quick: $(READY)
	$(BIN)/python -m pytest -n auto -m "not gpu" --quick

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto -m "not gpu" -x

test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache

$(READY): pyproject.toml constraints.txt
	@$(or $(BESIDE),true) & beside=$$!; \
	echo "setting up $(VENV): a virtual environment with pinned packages"; \
	$(PYTHON) -m venv $(VENV) && \
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]' && \
	touch $@ || { kill $$beside; exit 1; }; \
	wait $$beside || true
