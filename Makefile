# SPDX-License-Identifier: Apache-2.0
#
# A thin front: CMake does the work, CMakePresets.json has the kinds of build.
# Packages that are missing are installed first (tools/packages.txt).

PREFIX ?= /usr/local
DESTDIR ?=
STAGE = $(if $(DESTDIR),$(abspath $(DESTDIR)))
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS ?= 2
TEST_TIMEOUT ?= 300
BUILD_TARGETS ?= all

# Configured every time: libraries, MPI or UCX may have been installed since the last one.
CONFIGURE = cmake --preset default >/dev/null

.PHONY: all demo tests test check check-all bench figures docs install uninstall format clean help

all: ## build library, command, examples and plugins into build/ (the default)
	@tools/install-deps build
	@$(CONFIGURE)
	@cmake --build build -j $(JOBS) --target $(BUILD_TARGETS)

demo: all ## train a small language model on four ranks of this machine
	@tools/demo

tests: ## also build the tests
	@tools/install-deps build test
	@$(CONFIGURE) -DTUTTI_TESTS=ON
	@cmake --build build -j $(JOBS) --target all tests

test: tests ## build and run the tests
	@tools/run-tests build -LE '^check$$' --timeout $(TEST_TIMEOUT) -j $(TEST_JOBS); code=$$?; \
	tools/python-env --report /usr/bin/python3; exit $$code

check: ## run slow tests of changed parts, and a share of the others (at most 30 minutes)
	@tools/install-deps build test check
	@JOBS=$(JOBS) TEST_JOBS=$(TEST_JOBS) tools/check

check-all: ## run all slow tests: sanitizers, cross-compile, fuzzers, many seeds
	@tools/install-deps build test check
	@JOBS=$(JOBS) TEST_JOBS=$(TEST_JOBS) tools/check --all

bench: all ## build the benchmark programs and list them
	@cmake --build build -j $(JOBS) --target benches
	@tools/bench

figures: ## regenerate tables and pictures of the documents from the results in bench/
	@tools/figures.py

docs: ## build a site from the documents, with search, in build/site
	@tools/install-deps docs
	@tools/make-site

install: all ## install below PREFIX (default /usr/local); DESTDIR is put before it
	@DESTDIR='$(STAGE)' cmake --install build --prefix '$(PREFIX)'
	@awk '{ print "$(STAGE)" $$0 }' build/install_manifest.txt >build/installed.txt
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

uninstall: ## remove the files of the last install from this tree
	@tools/uninstall build/installed.txt

format: ## format C sources in place
	@tools/install-deps check
	@git ls-files -z '*.c' '*.h' | xargs -0 -r clang-format -i

clean: ## remove every build folder
	@rm -rf build build-*

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
