# make study: does thread placement matter on this machine? make test: everything that must hold.
# make test-kernel: what must hold of the scheduler in a kernel, in virtual machines; SET=short: the quicker part of it.

# Where `make setup` may have put Rust.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

STAYPUT = target/release/stayput
CPUS = all
SET = all

.PHONY: study test test-kernel bench bench-workloads graphs setup build fuzz clean

setup:
	@./setup.sh build

build: setup
	cargo build --release

study: build
	$(STAYPUT) study -n 1,$(CPUS) --place unbound,compact,scatter --budget 4min --out npb-w.stayput npb:ep.W npb:cg.W

test:
	@./setup.sh test
	cargo fmt --all --check
	git ls-files '*.c' '*.h' | xargs -r clang-format --dry-run -Werror
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo check --manifest-path fuzz/Cargo.toml --locked
	cargo test --workspace --locked

# Two guests at once, however many CPUs there are: what runs in them waits for the clock as often as for a CPU. Without what it
# takes, the tests say what is missing and pass. Results: target/kernel/*.json.
test-kernel:
	@$(if $(filter all short,$(SET)),,$(error SET is all or short, not `$(SET)'))./setup.sh kernel || true
	cargo test --package stayput-replay --locked --test kernel -- --ignored --nocapture --test-threads 2 $(SKIP_$(SET))
SKIP_all =
SKIP_short = --skip long::

bench: build
	@./setup.sh bench
	cargo bench --workspace

# REFERENCE: directories with NPB executables such as ft.A, separated by colons. CLASS: another class than A.
bench-workloads: setup
	@REFERENCE="$(REFERENCE)" CLASS="$(or $(CLASS),A)" cargo bench --package stayput-workloads --bench reference

# The task graphs of the simulator, derived from runs on this machine: see docs/graph-files.md.
graphs: build
	set -e; for job in mva matrix gravity; do \
	    $(STAYPUT) workloads $$job --graph W > crates/sim/graphs/$$job.toml.new; \
	    mv crates/sim/graphs/$$job.toml.new crates/sim/graphs/$$job.toml; done

fuzz: FUZZ_SECONDS ?= 60
fuzz: export LSAN_OPTIONS = suppressions=$(CURDIR)/fuzz/hwloc.supp:print_suppressions=0
fuzz:
	@./setup.sh test
	@cargo +nightly fuzz --version >/dev/null || { echo "fuzz: needs a nightly compiler and cargo-fuzz; see fuzz/README.md" >&2; exit 1; }
	set -e; for target in $$(cargo +nightly fuzz list); do \
	    mkdir -p fuzz/corpus/$$target; \
	    cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(FUZZ_SECONDS); done

clean:
	cargo clean
