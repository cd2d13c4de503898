# SPDX-License-Identifier: Apache-2.0
BUILD ?= build

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	cmake -S . -B $(BUILD) -G Ninja

test: all
	ctest --test-dir $(BUILD) --output-on-failure

.PHONY: all test
