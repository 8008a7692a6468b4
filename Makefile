# make study: does thread placement matter on this machine? make test: everything that must hold.

STAYPUT = target/release/stayput
CPUS = all

.PHONY: study test bench setup build fuzz clean

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
	cargo test --workspace --locked

bench: build
	@./setup.sh bench
	cargo bench --workspace

fuzz:
	@./setup.sh test
	for target in $$(cd fuzz && cargo +nightly fuzz list); do \
	    (cd fuzz && cargo +nightly fuzz run $$target -- -max_total_time=$(or $(SECONDS),60)) || exit 1; done

clean:
	cargo clean
