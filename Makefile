# `make` alone lists the targets. Everything is built with the release profile, into a cache outside the checkout, so that
# test, demo and benchmark share one build and a fresh clone finds its dependencies built.

SHELL := bash
CACHE := $(or $(STORMGLASS_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/stormglass)
export CARGO_TARGET_DIR ?= $(CACHE)/target
CARGO_FLAGS := --release --locked
KAFKA := testcontainers/kafka.sh
PORT := 9092

.DEFAULT_GOAL := help
.PHONY: help setup setup-build demo test check bench torture kafka-start kafka-stop

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Tests want more of what they share with the program than the program does. Where they are built, the demo takes the program as
# it was built with them, or it would wait until thirty crates are built once more without what it does not use.
BUILT_WITH_TESTS = $(if $(wildcard $(CARGO_TARGET_DIR)/release/deps/libtestcontainers-*.rlib),--test suite)

demo: setup-build ## Count 1,000,000 lines, kill it, audit it: its own broker, or KAFKA_BOOTSTRAP; leaves nothing behind
	@cargo build $(CARGO_FLAGS) --bin stormglass $(BUILT_WITH_TESTS)
	@testcontainers/demo.sh "$(CARGO_TARGET_DIR)/release/stormglass" "$(CARGO_TARGET_DIR)"

test: setup ## Run all tests; without a broker those that need one are ignored, or fail if REQUIRE_KAFKA=1
	cargo test $(CARGO_FLAGS)

check: setup ## Format, lints, documentation, licences
	cargo fmt --check
	cargo clippy $(CARGO_FLAGS) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) --no-deps --quiet
	@if command -v cargo-deny >/dev/null; then cargo deny --log-level warn check bans licenses sources; \
	else echo "Skipped: cargo-deny is not installed, so licences and sources of the dependencies were not checked."; fi

bench: setup ## Measure against Apache Kafka
	$(KAFKA) with cargo bench --locked --bench '*'

torture: setup ## Kill, stop and starve the program under load, in an order by SEED (1); KILLS (20) in about MINUTES (5)
	TORTURE_SEED=$(or $(SEED),1) TORTURE_KILLS=$(or $(KILLS),20) TORTURE_MINUTES=$(or $(MINUTES),5) REQUIRE_KAFKA=1 \
	cargo test $(CARGO_FLAGS) --test kafka -- torture::

kafka-start: setup ## Start Apache Kafka on PORT (9092) for work by hand
	@$(KAFKA) start $(PORT)

kafka-stop: ## Stop it and remove its data
	@$(KAFKA) stop $(PORT)

# The compiler of librdkafka and zstd, and what librdkafka links.
BUILD_PACKAGES = command -v g++ >/dev/null || missing+=(g++); \
	command -v pkg-config >/dev/null || missing+=(pkg-config); \
	pkg-config --exists openssl 2>/dev/null || missing+=(libssl-dev); \
	pkg-config --exists zlib 2>/dev/null || missing+=(zlib1g-dev)
# Apache Kafka without Docker: where it is not to be had its tests are ignored, so that nobody is kept from the others.
KAFKA_PACKAGES = command -v java >/dev/null || missing+=(default-jre-headless); \
	command -v mvn >/dev/null || missing+=(maven)
INSTALL = [ $${\#missing[@]} -gt 0 ] || exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing $${missing[*]}"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends "$${missing[@]}" >/dev/null; \
		exit; \
	fi

setup-build: ## Install what the build needs (Debian, as root), or name it
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup." >&2; exit 1; }; \
	missing=(); $(BUILD_PACKAGES); $(INSTALL); \
	echo "To build Stormglass, install $${missing[*]} (the names of Debian's packages)." >&2; exit 1

setup: setup-build ## And what Apache Kafka needs for the tests
	@missing=(); $(KAFKA_PACKAGES); $(INSTALL); \
	echo "For Apache Kafka without Docker, install $${missing[*]} (the names of Debian's packages)." >&2
