# guard.mk - builds libguard.a from a copy of this folder, inside any Makefile:
#
#     GUARD_DIR   = third_party/guard
#     GUARD_BUILD = build/guard
#     include $(GUARD_DIR)/guard.mk
#     CPPFLAGS   += -I$(GUARD_DIR)
#
#     server: server.o $(GUARD_LIB)
#             $(CC) $(LDFLAGS) -o $@ $^ $(GUARD_LIBS)
#
# Needs a C11 compiler, libuv, hiredis and uthash (Debian: libuv1-dev libhiredis-dev uthash-dev). Your CC, AR, OBJCOPY, CPPFLAGS
# and CFLAGS are used; everything made goes into GUARD_BUILD. Nothing is installed, no target of yours is
# taken, and the first target of your Makefile stays the default one.
#
# Only what guard.h declares is visible in GUARD_LIB: a function of yours may well be called redis_open. Link
# time optimization ends at that border, so -flto is left out here. GUARD_PARTS has the same objects with
# all their symbols, for tests of the inside.

GUARD_DIR ?= guard
GUARD_BUILD ?= build/guard
GUARD_LIB := $(GUARD_BUILD)/libguard.a
GUARD_PARTS := $(GUARD_BUILD)/libguard_parts.a
GUARD_LIBS = -lhiredis -luv -pthread

OBJCOPY ?= objcopy

GUARD_ROOMS := base core redis wire run locks
GUARD_SOURCES := $(GUARD_DIR)/api.c $(foreach room,$(GUARD_ROOMS),$(wildcard $(GUARD_DIR)/$(room)/*.c))
GUARD_SCRIPTS := $(wildcard $(GUARD_DIR)/wire/scripts/*.lua)
GUARD_LOCK_SCRIPTS := $(wildcard $(GUARD_DIR)/locks/scripts/*.lua)
GUARD_MADE := $(GUARD_BUILD)/guard_scripts.h $(GUARD_BUILD)/guard_lock_scripts.h
GUARD_OBJECTS := $(patsubst $(GUARD_DIR)/%.c,$(GUARD_BUILD)/%.o,$(GUARD_SOURCES))
GUARD_CFLAGS = -std=c11 -D_GNU_SOURCE -pthread -fPIC -fvisibility=hidden -I$(GUARD_BUILD)

guard_default_goal := $(.DEFAULT_GOAL)

$(GUARD_LIB): $(GUARD_OBJECTS)
	$(CC) -r -nostdlib -o $(GUARD_BUILD)/libguard.o $(GUARD_OBJECTS)
	$(OBJCOPY) --localize-hidden $(GUARD_BUILD)/libguard.o
	rm -f $@
	$(AR) rcs $@ $(GUARD_BUILD)/libguard.o

$(GUARD_PARTS): $(GUARD_OBJECTS)
	rm -f $@
	$(AR) rcs $@ $(GUARD_OBJECTS)

$(GUARD_BUILD)/%.o: $(GUARD_DIR)/%.c $(GUARD_MADE)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(GUARD_CFLAGS) $(filter-out -flto%,$(CFLAGS)) -MMD -MP -c -o $@ $<

$(GUARD_BUILD)/guard_scripts.h: $(GUARD_DIR)/wire/scripts/embed.sh $(GUARD_SCRIPTS)
	@mkdir -p $(@D)
	sh $(GUARD_DIR)/wire/scripts/embed.sh $@ $(GUARD_SCRIPTS)

$(GUARD_BUILD)/guard_lock_scripts.h: $(GUARD_DIR)/wire/scripts/embed.sh $(GUARD_LOCK_SCRIPTS)
	@mkdir -p $(@D)
	sh $(GUARD_DIR)/wire/scripts/embed.sh $@ $(GUARD_LOCK_SCRIPTS)

-include $(GUARD_OBJECTS:.o=.d)

.DEFAULT_GOAL := $(guard_default_goal)
