# SPDX-License-Identifier: Apache-2.0
#
# A thin front: CMake knows how to build, CMakePresets.json knows the kinds of build.
# Packages that are missing are installed first (tools/packages.txt).

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS ?= 2
TEST_TIMEOUT ?= 300

.PHONY: all demo test check check-all bench install uninstall format clean help

all: ## build everything into build/ (the default)
	@tools/install-deps build
	@test -f build/build.ninja || cmake --preset default >/dev/null
	@cmake --build build -j $(JOBS)

demo: all ## train a small language model on four ranks of this machine
	@tools/demo

# Configured anew because the test libraries may have arrived since the first configuration.
test: ## build and run the tests
	@tools/install-deps build test
	@tools/python-env build/python
	@cmake --preset default -DTUTTI_TESTS=ON >/dev/null
	@cmake --build build -j $(JOBS)
	@tools/run-tests build -LE '^check$$' --timeout $(TEST_TIMEOUT) -j $(TEST_JOBS); code=$$?; \
	tools/python-env --report build/python; exit $$code

check: ## slow tests of what was changed, and a share of the others (at most 30 minutes)
	@tools/install-deps build test check
	@JOBS=$(JOBS) TEST_JOBS=$(TEST_JOBS) tools/check

check-all: ## all slow tests: sanitizers, cross-compile, fuzzers, many seeds
	@tools/install-deps build test check
	@JOBS=$(JOBS) TEST_JOBS=$(TEST_JOBS) tools/check --all

bench: all ## list the benchmark programs that were built
	@tools/bench

install: all ## install below PREFIX (default /usr/local); DESTDIR is put before it
	@DESTDIR='$(DESTDIR)' cmake --install build --prefix '$(PREFIX)'
	@cp build/install_manifest.txt build/installed.txt
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

uninstall: ## remove what the last install from this tree wrote
	@DESTDIR='$(DESTDIR)' tools/uninstall build/installed.txt

format: ## format C sources in place
	@tools/install-deps check
	@git ls-files -z '*.c' '*.h' | xargs -0 -r clang-format -i

clean: ## remove every build folder
	@rm -rf build build-*

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
