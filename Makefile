# What people and CI type. Each target works on a fresh clone; `make help` lists them.

# The machine may be shared or slow; builds go outside the tree so that `git clean` does not cost one.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/unstarve/target
export PATH := $(PATH):$(HOME)/.cargo/bin

# What `--version` says; tests and lints do without, so that a commit does not cost them a build.
build release install: export UNSTARVE_COMMIT = $(firstword $(shell tools/commit.sh))

.PHONY: help setup build release dist wheel install demo test test-views test-spark test-kubernetes test-dist test-guests deny proofs truth kernels bench bench-instructions bench-lab bench-page bench-guard bench-watch bench-fleet watch-healthy watch-injections bench-tuned chaos-guard fmt clippy semver fuzz docs api-docs clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: ## installs what is missing: Rust by rustup, Debian packages that the tests use
	tools/setup.sh test

build: ## target/release/unstarve
	tools/setup.sh build
	cargo build --release -p unstarve-cli $$(tools/features.sh)
	@echo "$$CARGO_TARGET_DIR/release/unstarve"

release: ## the program as it is shipped, optimised by a profile of its own work: two builds, some ten minutes
	tools/setup.sh build
	tools/release.sh

dist: ## the program as one static file, deb, rpm, OCI image, man pages, completions, licences and SBOM, on x86-64 for arm64, too (ARCH=amd64: not): $CARGO_TARGET_DIR/dist-tree/out
	tools/setup.sh dist
	ARCH='$(ARCH)' tools/dist.sh

wheel: dist ## the package for Python with the program and its licences inside, of what `make dist` made: $CARGO_TARGET_DIR/wheels
	@out="$$CARGO_TARGET_DIR/dist-tree/out"; \
	for program in "$$out/unstarve" "$$out/arm64/unstarve"; do \
		test ! -e "$$program" || tools/wheel.sh "$$CARGO_TARGET_DIR/wheels" "$$program" || exit; \
	done

install: ## unstarve, into ~/.cargo/bin
	tools/setup.sh build
	cargo install --locked --path crates/cli $$(tools/features.sh | sed s,unstarve-cli/,,g)

demo: ## provokes a starvation for four seconds, records it, explains it, and cleans up; root sees it live
	demo/run.sh

test: setup ## all tests; the live ones need root and tracefs, else they say that they were skipped
	tools/test.sh

test-views: ## the views of many hosts' tables by DuckDB, ClickHouse and Spark, and what they say without a table
	tools/setup.sh engines
	views/test_views.py

test-spark: ## the views by a Spark of a master and two workers, spark-submit and Connect; a worker is killed while it answers
	tools/setup.sh engines
	views/test_spark.py

test-kubernetes: build ## kubectl unstarve on a real API server, kubelet and containerd in a network of their own; needs root and Go, which builds Kubernetes once
	tools/test_kubernetes.sh "$$CARGO_TARGET_DIR/release/unstarve"

test-dist: dist ## uses what `make dist` made: in an empty root, a fresh Debian, a guest with systemd, as an rpm, as a pod, and built again; needs root
	tools/test-dist.sh "$$CARGO_TARGET_DIR/dist-tree/out"

test-guests: build ## all tests in guests: those of `make test`, then every scenario on four real kernels, faulty and healthy: an hour or two; fetches kernels and QEMU once
	cargo test -p unstarve-cli $$(tools/features.sh) --test smoke -- --ignored --test-threads=1
	@unstarve="$$CARGO_TARGET_DIR/release/unstarve"; \
	test -d "$${XDG_CACHE_HOME:-$$HOME/.cache}/unstarve/lab/qemu" || "$$unstarve" lab qemu add || exit; \
	for kernel in 5.10 6.1 6.12 7; do \
		"$$unstarve" lab kernel list | grep -q "^$$kernel " || "$$unstarve" lab kernel add $$kernel || exit; \
	done; \
	"$$unstarve" lab truth

proofs: build ## proves every remedy of explain in guests: crates/diagnose/data/proofs.tsv, bench/results/proofs.md; hours
	bench/proofs.sh "$$CARGO_TARGET_DIR/release/unstarve" --all

truth: build ## guests and real programs with known truth (bench/results/truth.md): records what is missing, then judges explain; two hours at first
	@unstarve="$$CARGO_TARGET_DIR/release/unstarve"; truth="$${XDG_CACHE_HOME:-$$HOME/.cache}/unstarve/truth"; \
	bench/truth/truth.py record "$$unstarve" "$$truth"; \
	test "$$(id -u)" != 0 || bench/truth/truth.py host "$$unstarve" "$$truth"; \
	bench/truth/truth.py score "$$unstarve" "$$truth"

kernels: ## which kernels starve (docs/kernels.md): runs the cells that are missing in guests, two minutes each; KERNELS="6.12.43 7.2.13"
	tools/setup.sh build
	cargo build --release -p unstarve-cli $$(tools/features.sh)
	bench/kernel_table.sh "$$CARGO_TARGET_DIR/release/unstarve" "$$(tools/guest.sh)" $(KERNELS)

bench: ## the shipped program's explain beside perf and trace-cmd on the same recordings; needs root, perf and trace-cmd
	tools/setup.sh build
	@unstarve=$$(tools/release.sh) && bench/explain_speed.py "$$unstarve"

bench-instructions: build ## instructions of explain for each event, by part, and whether they are more than bench/instructions.tsv has; needs root, perf and valgrind, no quiet machine
	cargo build --release -p unstarve-diagnose --example phases
	bench/instructions.sh --stored "$$CARGO_TARGET_DIR/release/examples/phases"
	bench/instructions.sh "$$CARGO_TARGET_DIR/release/examples/phases" "$$CARGO_TARGET_DIR/release/unstarve"

bench-lab: build ## twenty repeats of two guests on 1, 2 and 4 CPUs: are the traces the same to the byte; an hour
	bench/lab_repeats.sh "$$CARGO_TARGET_DIR/release/unstarve"

bench-page: build ## the report page of ten million events: time, size, how long Chromium takes; needs root, perf, Node, Chromium
	cd web && npm ci --no-audit --no-fund --ignore-scripts
	bench/page.sh "$$CARGO_TARGET_DIR/release/unstarve"

bench-guard: build ## birth to applied at 2,000 a second for a minute, and idle cost; needs root
	cargo build --release -p unstarve-load
	bench/guard_births.py "$$CARGO_TARGET_DIR/release/unstarve" "$$CARGO_TARGET_DIR/release/unstarve-load"

bench-watch: ## what the watch costs: a switch, beside nothing and perf sched record, and user space; needs root, perf, curl, a quiet machine
	tools/setup.sh build
	cargo build --profile bench-quick -p unstarve-cli -p unstarve-watch $$(tools/features.sh) --bin unstarve --example readings
	bench/watch.sh "$$CARGO_TARGET_DIR/bench-quick/examples/readings" "$$CARGO_TARGET_DIR/bench-quick/unstarve"

bench-fleet: build ## many hosts: merging, size, every view cold and warm, beside DuckDB's answers; HOSTS=1000 HOURS=24 ROWS=250 (72 million)
	tools/setup.sh fleet
	cargo build --release -p unstarve-tables --features columnar --example fleet
	PYTHONPATH="$${XDG_CACHE_HOME:-$$HOME/.cache}/unstarve/python:$$PYTHONPATH" bench/fleet.py "$$CARGO_TARGET_DIR/release/unstarve" \
		"$$CARGO_TARGET_DIR/release/examples/fleet" --hosts $(or $(HOSTS),1000) --hours $(or $(HOURS),24) \
		$(if $(ROWS),--rows $(ROWS))

watch-healthy: build ## the watch beside an idle machine, a compile, fio, pgbench, redis and nginx: none may give an episode; needs root
	bench/watch_healthy.sh "$$CARGO_TARGET_DIR/release/unstarve"

watch-injections: build ## starves 40 programs on purpose, and asks the watch for a line of each; needs root and a quiet machine, six minutes
	bench/watch_injections.py "$$CARGO_TARGET_DIR/release/unstarve"

bench-tuned: build ## the guard beside TuneD doing the same; needs root and the package tuned
	cargo build --release -p unstarve-load
	bench/guard_beside_tuned.py "$$CARGO_TARGET_DIR/release/unstarve" "$$CARGO_TARGET_DIR/release/unstarve-load"

chaos-guard: build ## a thousand random kills of guard, dead-man, undo, verify and knobs: is anything left changed; a quarter of an hour; needs root
	bench/guard_chaos.py "$$CARGO_TARGET_DIR/release/unstarve" --kill-points 1000

deny: ## licences, versions and sources of the crates by deny.toml, advisories where RustSec's list can be had
	tools/setup.sh test
	tools/deny.sh

semver: ## what programs that use unstarve-trace would notice since BASELINE (a tag or commit): cargo-semver-checks, installed once, a quarter of an hour
	@test -n "$(BASELINE)" || { echo "make semver BASELINE=v0.1.0" >&2; exit 2; }
	command -v cargo-semver-checks >/dev/null || cargo install --locked cargo-semver-checks --version 0.51.0
	cargo semver-checks --baseline-rev $(BASELINE) $(addprefix -p unstarve-,model sched readers timeline trace)

fuzz: ## a minute for each reader; needs a nightly compiler
	tools/fuzz.sh 60

fmt: ## the house format
	cargo fmt --all

clippy: ## no warnings
	cargo clippy --workspace --all-targets -- -D warnings

docs: build ## the book, with what the program prints today: $CARGO_TARGET_DIR/book; its numbers and examples are checked
	tools/setup.sh docs
	tools/numbers.py --check
	UNSTARVE="$$CARGO_TARGET_DIR/release/unstarve" tools/book/build.sh "$$CARGO_TARGET_DIR/book"

api-docs: ## the API's documentation
	cargo doc --workspace --no-deps

clean: ## build results
	cargo clean
