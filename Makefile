# make study: does thread placement matter on this machine? make test: everything that must hold.
# make test-kernel: what must hold of the scheduler in a kernel, in virtual machines; SET=short: the quicker part of it.

# Where `make setup` may have put Rust.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# Where cargo builds, unless it is configured to do so elsewhere.
RELEASE = $(or $(CARGO_TARGET_DIR),target)/release
STAYPUT = $(RELEASE)/stayput
CPUS = all
SET = all

.PHONY: install uninstall study test test-on-slurm test-others test-kernel bench bench-workloads graphs setup build fuzz clean

setup:
	@./setup.sh build

build: setup
	cargo build --release

# PREFIX: where to. Under sudo nothing is built: `make build` first, as yourself. What debuggers want stays where it was built.
PREFIX ?= /usr/local
root = $(DESTDIR)$(PREFIX)
libexec = $(root)/libexec/stayput
# What the command starts for its users: too plain names for everybody's PATH.
parts = $(shell sed -n '/^\[\[bin\]\]/,/^name/s/^name = "\(.*\)"/\1/p' workloads/Cargo.toml) \
    stayput-sched stayput-replay stayput-guest libstayput_misses.so
man = $(root)/share/man/man1
# The C interface of jobs among which `stayput share` shares CPUs out.
header = crates/share/include/stayput_share.h
bash = $(root)/share/bash-completion/completions
zsh = $(root)/share/zsh/site-functions
fish = $(root)/share/fish/vendor_completions.d

install: $(if $(SUDO_USER),,build)
	@test -x $(RELEASE)/stayput || { echo "install: nothing is built yet: run \`make build' as yourself first" >&2; exit 1; }
	@mkdir -p $(root)/bin $(root)/include $(libexec) $(man) $(bash) $(zsh) $(fish) || \
	    { echo "install: $(root) can't be written: use sudo, or PREFIX=\$$HOME/.local" >&2; exit 1; }
	@install -s $(RELEASE)/stayput $(root)/bin
	@install -s $(addprefix $(RELEASE)/,$(parts)) $(libexec)
	@install -m 644 $(header) $(root)/include
	@$(RELEASE)/stayput man $(man)
	@$(RELEASE)/stayput completions bash > $(bash)/stayput
	@$(RELEASE)/stayput completions zsh > $(zsh)/_stayput
	@$(RELEASE)/stayput completions fish > $(fish)/stayput.fish
	@echo "install: stayput is in $(root)/bin, what it starts in $(libexec), $(notdir $(header)) in $(root)/include, with pages for man and completion in $(root)/share"

uninstall:
	rm -rf $(libexec)
	rm -f $(root)/bin/stayput $(root)/include/$(notdir $(header)) $(man)/stayput.1 $(man)/stayput-*.1 $(bash)/stayput $(zsh)/_stayput $(fish)/stayput.fish

study: build
	$(STAYPUT) study -n 1,$(CPUS) --place unbound,compact,scatter --budget 4min --out npb-w.stayput npb:ep.W npb:cg.W

test:
	@./setup.sh test
	cargo fmt --all --check
	git ls-files '*.c' '*.h' | xargs -r clang-format --dry-run -Werror
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --locked --no-run
	@$(MAKE) --no-print-directory --jobs 2 test-on-slurm test-others

# They wait for Slurm's daemons more than for a CPU, and run beside all others. Of these two jobs a make that a test starts must not know.
ON_SLURM = slurm_ranks:: slurm_simulations:: slurm_studies::
test-on-slurm:
	MAKEFLAGS= cargo test --workspace --locked --test slurm
test-others:
	MAKEFLAGS= cargo test --workspace --locked -- $(addprefix --skip=,$(ON_SLURM))

# Two guests at once, however many CPUs there are: what runs in them waits for the clock as often as for a CPU. Without what it
# takes, the tests say what is missing and pass. Results: target/kernel/*.json.
test-kernel:
	@$(if $(filter all short,$(SET)),,$(error SET is all or short, not `$(SET)'))./setup.sh kernel || true
	cargo test --workspace --locked --test kernel -- --ignored --nocapture --test-threads 2 $(SKIP_$(SET))
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
