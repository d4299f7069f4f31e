# Everything a fresh machine with Python 3.11, make and pip needs: `make demo` and `make test` set themselves up.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-all docs notebooks lint gpu-check robust mutants clean

demo: $(INSTALLED)
	$(BIN)/python -m ebmlab fit --config configs/grbm_digits.yaml

test: lint
	$(BIN)/python -m pytest -m "not slow" -n 2

test-all: lint
	$(BIN)/python -m pytest -n 2

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

notebooks: $(INSTALLED)
	$(BIN)/python -m docs.notebooks

gpu-check: $(INSTALLED)
	$(BIN)/python benchmarks/gpu_check.py

robust: $(INSTALLED)
	$(BIN)/python -m benchmarks.robust

mutants: $(INSTALLED)
	$(BIN)/python -m benchmarks.mutants

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(INSTALLED): pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'ebmlab needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV)
