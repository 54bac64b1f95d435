# The one door: every recipe that a person or CI needs.
#
#   make demo      a film over two paths, and a report of what the viewer saw
#   make test      the quick suite: every concern, in five CPU minutes beyond building
#   make test-all  every test there is, and lint
#   make claims    judge the papers' claims again where the build, the plans or the claims have changed (hours)
#   make lock      store the digests of the lock's runs again, after a change that is meant to move them
#   make lock-judge  how many deliberate faults the lock catches: N=200 SEED=1
#   make mutants   how many deliberate faults the tests catch, by a drawn sample: N=300 SEED=1
#   make fidelity  how many figures hold at settings by chance, beside a kernel: N=66 SEED=1001
#   make build     .venv/bin/anabranch and nothing else
#   make drill     seeds against the endpoints for SECONDS, from a fresh one on
#   make fuzz      the parser, one endpoint and the reader of captures under libFuzzer, SECONDS each
#   make bench     what a packet costs, and a call of a plug-in in Python
#   make bench-live our endpoint over real packets beside the simulator and the kernel, as root: TRIALS=5
#   make bench-throughput  how fast the gateway is beside the kernel, as root
#   make bench-flood what a flood of SYNs leaves of the gateway's goodput, as root
#   make bench-viewers  a hundred viewers through the gateway and through nginx, as root
#   make soak      clients that come and go, as root: MINUTES=10, RATE=20 (Mbit/s)
#   make bench-figures  keep what five runs cost now: make test-all fails when one costs 1 % more
#   make lint      format, lints and types
#   make wasm      the simulator for the page, build/play/anabranch.wasm (docs/web.md)
#   make docs      the documentation as a site in build/docs; a broken link fails it
#   make notebook  run the documentation's notebook, and store its outputs
#   make play      the page of the simulator as static files in build/play
#   make wheel     the wheel in dist, with the page and, if there is a toolchain for it, the page's engine
#   make sdist     the source archive in dist
#   make release   set VERSION=0.3.0, build and try wheel and source archive, print the remaining steps
#   make check     lint, and the repository's own rules
#   make clean     remove what was built

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif
RUST_LEAST := 1.88

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
MODULE := python/anabranch/_anabranch.abi3.so
RUST_SOURCES := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.toml')

# rustup's folder, for shells that do not have it on their path; what is on the path goes first.
export PATH := $(PATH):$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_REQUIRE_VIRTUALENV := 1
export PIP_QUIET := 1
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH

.PHONY: claims docs notebook play wasm wheel sdist demo quick test test-all mutants fidelity build drill drill-quick drill-all built tests-built fuzz bench bench-live bench-throughput bench-figures golden lock lock-judge lint check clean tools rebuild bench-flood bench-viewers soak release
.DELETE_ON_ERROR:

# In a fresh clone: only the packages that the demo needs, at the same time as a build without link-time optimisation.
# `make build` afterwards adds the others, and replaces the module.
demo: $(if $(wildcard $(STAMPS)/packages),build,quick)
	@$(BIN)/anabranch demo

quick: $(STAMPS)/maturin
	@$(MAKE) --no-print-directory --jobs 2 $(STAMPS)/base $(STAMPS)/quick
	@test -x $(BIN)/anabranch || $(MATURIN) --profile quick >$(STAMPS)/maturin.log 2>&1 || { \
	cat $(STAMPS)/maturin.log >&2; exit 1; }

# Every runner runs, whatever those before it find.
test: built
	@$(BIN)/python tests/suite.py quick

test-all: built
	@$(BIN)/python tests/suite.py all

# At the same time: the simulator's link (fat LTO) keeps one processor busy for a minute and a half.
built: $(STAMPS)/packages | tools
	@$(MAKE) --no-print-directory --jobs 2 build tests-built

# What cannot be built fails in the suite, which builds it too.
tests-built: | tools
	-@cargo test --workspace --exclude anabranch-python --tests --quiet --no-run

build: $(STAMPS)/module

MATURIN := $(BIN)/maturin develop

# A failing seed is printed as one command, and shrunk. START is fresh unless given.
SECONDS ?= 60
START ?= $(shell date +%s)000
DRILL := cargo run --quiet --package anabranch-drill --profile test --

drill: | tools
	@$(DRILL) --start $(START) --seconds $(SECONDS)

drill-quick: | tools
	@$(DRILL) --start 400 --cpu-seconds 7

drill-all: | tools
	@$(DRILL) --seeds 0..500

# What is new is kept in target/fuzz; `cargo fuzz cmin` or -merge=1 makes a corpus small.
FUZZ_TARGETS := wire endpoint capture
# A capture of some packets is longer than a packet or a script. Its reader must take little memory.
FUZZ_OPTIONS_capture := -max_len=16384 -rss_limit_mb=512
FUZZ_FLAGS := -Cpasses=sancov-module -Ccodegen-units=1 --cfg fuzzing \
	-Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')

fuzz: | tools
	@cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --target $(FUZZ_HOST) --target-dir ../target/fuzz
	@$(foreach target,$(FUZZ_TARGETS),mkdir -p target/fuzz/found/$(target) target/fuzz/artifacts && \
	target/fuzz/$(FUZZ_HOST)/release/$(target) -max_total_time=$(SECONDS) -timeout=10 \
	$(or $(FUZZ_OPTIONS_$(target)),-max_len=2048) -print_final_stats=1 \
	-artifact_prefix=target/fuzz/artifacts/ target/fuzz/found/$(target) fuzz/corpus/$(target) && ) true

N := 300
SEED := 1

# Goes on where it was interrupted. MUTANTS takes more options: `make mutants MUTANTS=--keep-caught`.
mutants: build
	@$(BIN)/python tests/mutants -n $(N) --seed $(SEED) $(MUTANTS)

# Settings by chance on a Linux kernel and in the simulator; LAB and UML name a laboratory (tests/fidelity/laboratory.py).
# What was measured is kept in target/fidelity. FIDELITY takes more options: `make fidelity FIDELITY="--runs 50"`.
fidelity: N := 66
fidelity: SEED := 1001
fidelity: build
	@$(BIN)/python tests/fidelity -n $(N) --seed $(SEED) $(FIDELITY)

bench: build
	@$(BIN)/python benches/bench.py
	@$(BIN)/python benches/plugins.py

TRIALS := 5

bench-live: build
	@$(BIN)/python benches/live.py --trials $(TRIALS)

bench-throughput: build
	@$(BIN)/python benches/throughput.py

bench-flood: build
	@$(BIN)/python benches/flood.py

bench-viewers: build
	@$(BIN)/python benches/viewers.py

MINUTES := 10

soak: build
	@$(BIN)/python benches/soak.py --minutes $(MINUTES) $(if $(RATE),--rate $(RATE))

# The figures of the cost gate, benches/costs.toml.
bench-figures: $(STAMPS)/venv
	@$(BIN)/python benches/cost.py --write

# The curves that tests/python/test_golden.py holds the controllers to, and their picture; and the links.
golden: build
	@$(BIN)/python tests/golden/draw.py
	@$(BIN)/python tests/golden/draw_links.py

# Finished runs are in results/claims. ONLY names one study; AROUND= leaves the worlds around it out.
ONLY := all
AROUND := --around all
claims: build
	@$(BIN)/anabranch study claims $(ONLY) results/claims$(if $(filter-out all,$(ONLY)),/$(ONLY)) --run $(AROUND) \
	--changed --docs docs/claims.md

# The digests that `make test` compares (docs/testing.md, "The lock").
LOCK_WORLDS := crates/sim/tests/lock/worlds.txt
LOCK_CASES := crates/drill/tests/lock.txt

lock: | tools
	@cargo run --quiet --profile test --package anabranch-sim --example lock -- stored > $(LOCK_WORLDS).new
	@mv $(LOCK_WORLDS).new $(LOCK_WORLDS)
	@$(DRILL) --seeds 0..400 --digests > $(LOCK_CASES).new
	@mv $(LOCK_CASES).new $(LOCK_CASES)
	@git diff --stat -- $(LOCK_WORLDS) $(LOCK_CASES)

# The share of faults in recovery, loss detection, timers, windows and reinjection that the lock catches.
lock-judge: N := 200
lock-judge: $(STAMPS)/packages
	@$(BIN)/python tests/mutants/lock.py -n $(N) --seed $(SEED) $(MUTANTS)

lint: $(STAMPS)/packages
	@failed=0; \
	cargo fmt --all --check || failed=1; \
	cargo clippy --workspace --all-targets -- -D warnings || failed=1; \
	$(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --check . || failed=1; \
	$(BIN)/mypy || failed=1; \
	bash .ci/deny || failed=1; \
	exit $$failed

check: lint build
	@$(BIN)/python -m pytest tests/house

# The simulator for the page. WASM_CARGO names another cargo where rustup cannot add the target.
WASM_CARGO := cargo
WASM_TARGET := wasm32-unknown-unknown
WASM := build/play/anabranch.wasm

wasm: | tools
	@test "$(WASM_CARGO)" != cargo || test -d "$$(rustc --print sysroot)/lib/rustlib/$(WASM_TARGET)" || { \
	echo "error: Rust's target $(WASM_TARGET) is missing" >&2; echo >&2; \
	echo "  hint: rustup target add $(WASM_TARGET), or name a cargo that has it: make wasm WASM_CARGO=..." >&2; exit 1; }
	@ANABRANCH_SOURCES=$$(bash .ci/wasm-sources) \
	$(WASM_CARGO) build --quiet --package anabranch-web --target $(WASM_TARGET) --profile wasm
	@mkdir -p $(dir $(WASM))
	@if command -v wasm-opt >/dev/null; then wasm-opt -O3 --enable-bulk-memory --enable-nontrapping-float-to-int \
	--enable-sign-ext --enable-mutable-globals --enable-multivalue --enable-reference-types \
	target/$(WASM_TARGET)/wasm/anabranch_web.wasm -o $(WASM); \
	else cp target/$(WASM_TARGET)/wasm/anabranch_web.wasm $(WASM); fi
	@echo "$(WASM): $$(wc -c < $(WASM)) bytes, $$(gzip -9 -c $(WASM) | wc -c) with gzip"

# The page of commands is written first, from the command line itself.
docs: build
	@$(BIN)/python docs/generate.py
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs . build/docs
	@if test -e build/play/index.html -a -e $(WASM); then rm -rf build/docs/play; cp -r build/play build/docs/play; fi
	@echo "build/docs/docs/index.html"

# The outputs of the documentation's notebook.
notebook: build
	@$(BIN)/python docs/notebook.py

# The page, its tables and its films. `make wasm` builds the engine into the same folder.
play: build
	@$(BIN)/python -m anabranch.play.build play build/play
	@test -e build/play/anabranch.wasm || echo "build/play has no engine yet: make wasm"

# Without a toolchain for WebAssembly the wheel has no engine, which is printed.
wheel: $(STAMPS)/wheel
	+@$(BIN)/python .ci/wheel.py

sdist: $(STAMPS)/maturin
	@$(BIN)/maturin sdist --out dist

# Nothing is committed, tagged or uploaded.
release: $(STAMPS)/packages $(STAMPS)/wheel
	+@$(BIN)/python .ci/release.py $(VERSION)

clean:
	cargo clean
	rm -rf $(VENV) $(MODULE) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests benches -name __pycache__ -type d -prune -exec rm -rf {} +

# The extension is built again when a source is newer than the last build, or when it is gone.
$(STAMPS)/module: $(STAMPS)/packages $(RUST_SOURCES) $(if $(wildcard $(MODULE)),,rebuild) | tools
	@echo "building the simulator; the first time takes a few minutes"
	@$(BIN)/python .ci/building.py $(STAMPS)/maturin.log $(MATURIN) --release
	@test -x $(BIN)/anabranch && test -e $(MODULE)
	@touch $@

# The module of `make demo`. The package itself is installed when its dependencies are.
$(STAMPS)/quick: $(STAMPS)/maturin $(RUST_SOURCES) $(if $(wildcard $(MODULE)),,rebuild) | tools
	@echo "building the simulator; the first time takes three to four minutes on two cores"
	@$(BIN)/python .ci/building.py $(STAMPS)/quick.log $(MATURIN) --profile quick --skip-install
	@touch $@

# Prints the requirements of pyproject.toml: the base, and those of the extras that are named, or of every one.
REQUIREMENTS = $(BIN)/python -c 'import sys, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	extras = p["optional-dependencies"]; \
	names = sys.argv[1:] or [name for name in extras if name != "all"]; \
	print(*p["dependencies"], *(one for name in names if name != "base" for one in extras[name]), sep="\n")'

# Every extra, and the tools of developers.
$(STAMPS)/packages: pyproject.toml $(STAMPS)/venv
	@$(REQUIREMENTS) > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet -r $(VENV)/requirements.txt
	@touch $@

$(STAMPS)/base: pyproject.toml $(STAMPS)/venv
	@$(REQUIREMENTS) base > $(VENV)/base.txt
	@$(BIN)/python -m pip install --quiet -r $(VENV)/base.txt
	@touch $@

# zig links against an older glibc than this host's; auditwheel checks that.
$(STAMPS)/wheel: $(STAMPS)/maturin
	@$(BIN)/python -m pip install --quiet 'auditwheel>=6' 'ziglang>=0.13'
	@touch $@

$(STAMPS)/maturin: pyproject.toml $(STAMPS)/venv
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])' | \
	xargs $(BIN)/python -m pip install --quiet
	@touch $@

$(STAMPS)/venv: | tools
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	echo "error: $(PYTHON) cannot make a virtual environment" >&2; echo >&2; \
	echo "  hint: on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@mkdir -p $(STAMPS) && touch $@

tools:
	@test -n "$(PYTHON)" || { \
	echo "error: Python 3.11 or newer is needed; found: $$(python3 --version 2>&1 || true)" >&2; echo >&2; \
	echo "  hint: install it, or name it: make PYTHON=/path/to/python3.12 build" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "error: Python 3.11 or newer is needed; found: $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	@command -v cargo >/dev/null && command -v rustc >/dev/null || { \
	echo "error: cargo and rustc are needed" >&2; echo >&2; \
	echo "  hint: install the stable Rust toolchain with rustup" >&2; exit 1; }
	@found=$$(rustc --version | cut -d' ' -f2); \
	test "$$(printf '%s\n' $(RUST_LEAST) "$$found" | sort -V | head -n 1)" = "$(RUST_LEAST)" || { \
	echo "error: Rust $(RUST_LEAST) or newer is needed; found: $$found" >&2; echo >&2; \
	echo "  hint: rustup update stable" >&2; exit 1; }
	@command -v cc >/dev/null || { \
	echo "error: a C linker (cc) is needed" >&2; echo >&2; \
	echo "  hint: on Debian and Ubuntu: apt install build-essential" >&2; exit 1; }
