# SPDX-License-Identifier: MIT
# machine.mk - guard/ and its unit tests for another machine or another C library, as a copier's Makefile would build
# it:
#
#     make -f tests/world/machine.mk test BUILD=build/arm64 CC=aarch64-linux-gnu-gcc TEST_RUN=qemu-aarch64
#
# Needs what guard/guard.mk needs, and cmocka and libuv, the loop of some tests. machines.sh says
# which machines there are.

BUILD ?= build/machine
CC := gcc
CFLAGS ?= -O2 -g1
TEST_RUN ?=
WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wformat=2 -Werror

GUARD_DIR := guard
GUARD_BUILD := $(BUILD)/guard
all: tests
include guard/guard.mk
GUARD_CFLAGS += -I. $(WARNINGS)

# Those that include nothing of app/, load/ or the simulator, nor of a provider that is left out or the module for
# nginx: they know guard/ alone.
LEFT_OUT := $(patsubst %,|guard/locks/%/,$(filter-out $(GUARD_LOCKS_WITH),postgres zookeeper)) |guard/nginx/
SOURCES := $(shell grep -LE \
	'^.include "(app/|load/|tests/(sim|fuzz|chaos)/|tests/support/(files|left_head)\.h$(subst $() ,,$(LEFT_OUT)))' \
	tests/unit/*_test.c)
PROGRAMS := $(SOURCES:%.c=$(BUILD)/%)
$(BUILD)/tests/unit/core_memory_test $(BUILD)/tests/unit/lock_memory_test: \
    private WRAPPED := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

# A test runs once.
$(BUILD)/tests/%.o: tests/%.c | $(GUARD_MADE)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(GUARD_CFLAGS) $(patsubst -O2,-Og,$(CFLAGS)) -MMD -MP -c -o $@ $<
-include $(PROGRAMS:=.d)

$(PROGRAMS): %: %.o $(BUILD)/tests/support/test.o $(GUARD_PARTS)
	$(CC) $(WRAPPED) $(LDFLAGS) -o $@ $^ -lcmocka -luv $(GUARD_LIBS) -lm

tests: $(PROGRAMS) $(GUARD_LIB)
test: tests
	TEST_RUN='$(TEST_RUN)' sh tests/support/run.sh $(PROGRAMS)
.PHONY: all tests test
