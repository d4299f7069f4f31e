# Everything a fresh machine with Python 3.11, make and pip needs: `make demo` and `make test` set themselves up.
# Without a GPU: `make demo TORCH=torch==VERSION+cpu`, where pip finds such a wheel, or `make demo TORCH="torch torchvision"` with the
# options of pip that PyTorch's installation page gives for CPUs as PIP_ARGS. TORCH is what pip installs first, PIP_ARGS are its
# options. torchvision may be left out: it reads pictures and downloads data. Not for `make test`.
PYTHON ?= python3
VENV ?= .venv
TORCH ?=
PIP_ARGS ?=
OLDEST ?= .venv-oldest
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
FAST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m "not slow"
# setuptools says of every such installation that folders called ebmlab may hide the package
EDITABLE := PYTHONWARNINGS="ignore:Editable installation"

.PHONY: demo test test-all test-oldest docs notebooks lint gpu-check robust mutants clean

demo: $(INSTALLED)
	$(BIN)/python -m ebmlab fit --config configs/grbm_digits.yaml

# Failed tests run again, with the values of their assertions: pytest takes a while to prepare this for all files. Compiled modules
# are kept, for many tests start a fresh process.
test: lint
	$(FAST) -n 2 --dist worksteal --assert=plain || { $(FAST) --last-failed --last-failed-no-failures none; exit 1; }

test-all: lint
	$(BIN)/python -m pytest -n 2

# The fast tests of the library and the commands with the oldest torch, Lightning and others that pyproject.toml allows. Old releases
# may warn: they call each other and Python by names that have changed since.
test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest -W default -m "not slow" -n 2 tests/samplers tests/energies tests/learners tests/evaluation tests/app

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

notebooks: $(INSTALLED)
	$(BIN)/python -m docs.notebooks

gpu-check: $(INSTALLED)
	$(BIN)/python -m benchmarks.gpu

robust: $(INSTALLED)
	$(BIN)/python -m benchmarks.robust

mutants: $(INSTALLED)
	$(BIN)/python -m benchmarks.mutants

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=2 $(BIN)/mypy

$(INSTALLED): pyproject.toml
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'ebmlab needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
ifeq ($(TORCH),)
	$(EDITABLE) $(BIN)/python -m pip install --quiet $(PIP_ARGS) --editable ".[dev]"
else
	$(BIN)/python -m pip install --quiet $(PIP_ARGS) $(TORCH)
	$(BIN)/python -c "import tomllib; need = tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']; \
	  print(*(line for line in need if not line.startswith('torchvision')), sep='\n')" > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/requirements.txt
	$(EDITABLE) $(BIN)/python -m pip install --quiet --no-deps --editable .
endif
	touch $@

$(OLDEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; extras = p['optional-dependencies']; \
	  tests = [line for line in extras['dev'] if line.startswith('pytest')]; \
	  lines = sum((extras[name] for name in ('text', 'graphs', 'dashboard', 'sweep')), p['dependencies'] + tests); \
	  print(*(line.replace('>=', '==') for line in lines), sep='\n')" > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet $(PIP_ARGS) --requirement $(OLDEST)/requirements.txt
	$(EDITABLE) $(OLDEST)/bin/python -m pip install --quiet --no-deps --editable .
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST)
