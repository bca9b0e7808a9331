# guard.mk - builds the library from a copy of this folder, inside any Makefile:
#
#     GUARD_DIR   = third_party/guard
#     GUARD_BUILD = build/guard
#     include $(GUARD_DIR)/guard.mk
#     CPPFLAGS   += -I$(GUARD_DIR)
#
#     server: server.o $(GUARD_LIB)
#             $(CC) $(LDFLAGS) -o $@ $^ $(GUARD_LIBS)
#
# Needs a C11 compiler, hiredis, and the headers of uthash and xxhash 0.8 (Debian: libhiredis-dev uthash-dev
# libxxhash-dev). Your CC, AR, OBJCOPY, CPPFLAGS and CFLAGS are used; everything made goes into GUARD_BUILD. Nothing
# is installed, no target of yours is taken, and the first target of your Makefile stays the default one.
#
# Only what the public headers declare is visible in GUARD_LIB: a function of yours may well be called redis_open.
# Link time optimization ends at that border, so -flto is left out here. GUARD_PARTS has the same objects with
# all their symbols, for tests of the inside. GUARD_SHARED is the same as a shared library, which nothing but a rule
# of yours builds; its soname is major.minor while major is 0, when each minor version may break what was compiled
# against another. It stays in memory after dlclose(): a DNS lookup may outlive guard_close(). It links neither libpq
# nor ZooKeeper's client: these are in GUARD_PLUGINS, which it looks for beside itself, in
# stampede-guard/$(GUARD_ABI)/.
#
# Without make: cc program.c $(GUARD_BUILD)/libstampede-guard.a @$(GUARD_BUILD)/libs, which has what the archive
# needs.
#
# GUARD_LOCKS_WITH says what locks can stand on beside Redis: each of postgres (libpq-dev) and zookeeper
# (libzookeeper-mt-dev) whose library is there. Set it before the include to decide yourself; empty: neither. Folders
# of guard/locks/ that you delete are left out (postgres, zookeeper, redlock), and so are all locks without
# guard/locks/.
#
# GUARD_TLS says whether there is TLS to Redis: openssl (libssl-dev) if its library is there. Set it before the
# include to decide yourself; empty: there is none, and URLs that ask for it are refused.

GUARD_DIR ?= guard
GUARD_BUILD ?= build/guard
GUARD_VERSION := $(shell sed -n 's/.*define GUARD_VERSION "\(.*\)"/\1/p' $(GUARD_DIR)/guard.h)
GUARD_ABI := $(basename $(GUARD_VERSION))
GUARD_SONAME := libstampede-guard.so.$(GUARD_ABI)
GUARD_LIB := $(GUARD_BUILD)/libstampede-guard.a
GUARD_SHARED := $(GUARD_BUILD)/libstampede-guard.so.$(GUARD_VERSION)
GUARD_PLUGINS = $(GUARD_LOCKS_WITH:%=$(GUARD_BUILD)/plugins/%.so)
GUARD_PARTS := $(GUARD_BUILD)/libguard_parts.a
GUARD_LIBS = $(GUARD_LOCKS_LIBS) $(GUARD_TLS_LIBS) -lhiredis -pthread

OBJCOPY ?= $(shell $(CC) -print-prog-name=objcopy)

GUARD_SCRIPTS := $(wildcard $(GUARD_DIR)/wire/scripts/*.lua)
GUARD_LOCK_SCRIPTS := $(wildcard $(GUARD_DIR)/locks/scripts/*.lua)
GUARD_MADE := $(if $(GUARD_SCRIPTS),$(GUARD_BUILD)/guard_scripts.h) \
	$(if $(GUARD_LOCK_SCRIPTS),$(GUARD_BUILD)/guard_lock_scripts.h)
GUARD_CFLAGS = -std=c11 -D_GNU_SOURCE -pthread -fPIC -fvisibility=hidden -I$(GUARD_BUILD)

# Is this header there, and its library?
guard_finds = $(shell echo 'int main(void) { return 0; }' | $(CC) $(CPPFLAGS) $(3) -include $(1) -x c -o /dev/null - $(2) \
	2>/dev/null && echo yes)
GUARD_POSTGRES_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags libpq 2>/dev/null))
ifeq ($(origin GUARD_LOCKS_WITH),undefined)
GUARD_LOCKS_WITH := $(if $(call guard_finds,libpq-fe.h,-lpq,$(GUARD_POSTGRES_CFLAGS)),postgres)
GUARD_LOCKS_WITH += $(if $(call guard_finds,zookeeper/zookeeper.h,-lzookeeper_mt),zookeeper)
endif
# A provider whose folder was not copied, or was taken out, is none. RedLock needs nothing but its folder.
override GUARD_LOCKS_WITH := $(foreach with,$(GUARD_LOCKS_WITH),$(if $(wildcard $(GUARD_DIR)/locks/$(with)),$(with)))
GUARD_PROVIDERS := $(if $(wildcard $(GUARD_DIR)/locks/redlock),redlock) $(GUARD_LOCKS_WITH)
GUARD_DEFINES_redlock := -DGUARD_LOCKS_WITH_REDLOCK
GUARD_DEFINES_postgres := -DGUARD_LOCKS_WITH_POSTGRES $(GUARD_POSTGRES_CFLAGS)
GUARD_DEFINES_zookeeper := -DGUARD_LOCKS_WITH_ZOOKEEPER
GUARD_LIBS_postgres := -lpq
GUARD_LIBS_zookeeper := -lzookeeper_mt
GUARD_CFLAGS += $(foreach provider,$(GUARD_PROVIDERS),$(GUARD_DEFINES_$(provider)))
GUARD_LOCKS_LIBS += $(foreach provider,$(GUARD_PROVIDERS),$(GUARD_LIBS_$(provider)))

GUARD_ROOMS := base core redis wire run locks $(addprefix locks/,$(GUARD_PROVIDERS))
GUARD_SOURCES := $(wildcard $(GUARD_DIR)/api.c) $(foreach room,$(GUARD_ROOMS),$(wildcard $(GUARD_DIR)/$(room)/*.c))
GUARD_OBJECTS := $(patsubst $(GUARD_DIR)/%.c,$(GUARD_BUILD)/%.o,$(GUARD_SOURCES))

GUARD_TLS_LIBS :=
ifeq ($(origin GUARD_TLS),undefined)
GUARD_TLS := $(if $(call guard_finds,openssl/ssl.h,-lssl -lcrypto),openssl)
endif
ifneq ($(strip $(GUARD_TLS)),)
GUARD_CFLAGS += -DGUARD_WITH_TLS
GUARD_TLS_LIBS := -lssl -lcrypto
endif

guard_default_goal := $(.DEFAULT_GOAL)

# On i386 each object has the same helpers in a group of its own; a group cannot be made local.
$(GUARD_LIB): $(GUARD_OBJECTS)
	$(CC) -r -nostdlib -Wl,--force-group-allocation -o $(GUARD_BUILD)/guard.o $(GUARD_OBJECTS)
	$(OBJCOPY) --localize-hidden $(GUARD_BUILD)/guard.o
	rm -f $@
	$(AR) rcs $@ $(GUARD_BUILD)/guard.o
	echo '$(GUARD_LIBS)' >$(GUARD_BUILD)/libs

# Its symbols carry the version, so that a process may hold two of them.
GUARD_SHARED_OBJECTS := $(filter-out $(GUARD_LOCKS_WITH:%=$(GUARD_BUILD)/locks/%/%.o),$(GUARD_OBJECTS))
GUARD_SHARED_OBJECTS := $(GUARD_SHARED_OBJECTS:$(GUARD_BUILD)/locks/provider.o=$(GUARD_BUILD)/plugins/provider.o)
guard_link = $(CC) -shared -Wl,--version-script,$@.exports,-z,defs,-z,nodelete $(GUARD_SHARED_LINK) $(CFLAGS) $(LDFLAGS)
$(GUARD_SHARED): $(GUARD_SHARED_OBJECTS)
	echo 'STAMPEDE_GUARD_$(GUARD_ABI) { global: guard_*; local: *; };' >$@.exports
	$(guard_link) -Wl,-soname,$(GUARD_SONAME) -o $@ $^ $(GUARD_TLS_LIBS) -lhiredis -pthread

$(GUARD_PLUGINS): $(GUARD_BUILD)/plugins/%.so: $(GUARD_BUILD)/plugins/%.o $(GUARD_PARTS)
	echo '{ global: guard_lock_plugin; local: *; };' >$@.exports
	$(guard_link) -o $@ $^ $(GUARD_LIBS_$*) -pthread

guard_compile = $(CC) $(CPPFLAGS) $(GUARD_CFLAGS) $(filter-out -flto%,$(CFLAGS)) -MMD -MP -c -o $@ $<
$(GUARD_BUILD)/plugins/provider.o: $(GUARD_DIR)/locks/provider.c
	@mkdir -p $(@D)
	$(guard_compile) -UGUARD_LOCKS_WITH_POSTGRES -UGUARD_LOCKS_WITH_ZOOKEEPER -DGUARD_LOCKS_PLUGINS='"$(GUARD_ABI)"'
$(GUARD_PLUGINS:.so=.o): $(GUARD_BUILD)/plugins/%.o: $(GUARD_DIR)/locks/plugin.c
	@mkdir -p $(@D)
	$(guard_compile) -DLOCK_PLUGIN_OPEN=lock_$*_open

$(GUARD_PARTS): $(GUARD_OBJECTS)
	rm -f $@
	$(AR) rcs $@ $(GUARD_OBJECTS)

$(GUARD_BUILD)/%.o: $(GUARD_DIR)/%.c | $(GUARD_MADE)
	@mkdir -p $(@D)
	$(guard_compile)

$(GUARD_OBJECTS) $(GUARD_BUILD)/plugins/provider.o $(GUARD_PLUGINS:.so=.o): $(GUARD_DIR)/guard.mk

# A library that has come or gone since.
$(filter $(GUARD_BUILD)/locks/%,$(GUARD_OBJECTS)): $(GUARD_BUILD)/locks_with
$(filter $(GUARD_BUILD)/redis/tls%,$(GUARD_OBJECTS)): $(GUARD_BUILD)/tls_with
$(GUARD_BUILD)/locks_with: guard_with = $(GUARD_LOCKS_WITH)
$(GUARD_BUILD)/tls_with: guard_with = $(GUARD_TLS)
$(GUARD_BUILD)/locks_with $(GUARD_BUILD)/tls_with: guard_looks_again
	@mkdir -p $(@D)
	@echo '$(guard_with)' | cmp -s - $@ || echo '$(guard_with)' >$@
.PHONY: guard_looks_again

$(GUARD_BUILD)/guard_scripts.h: $(GUARD_DIR)/wire/scripts/embed.sh $(GUARD_SCRIPTS)
	@mkdir -p $(@D)
	sh $(GUARD_DIR)/wire/scripts/embed.sh $@ $(GUARD_SCRIPTS)

$(GUARD_BUILD)/guard_lock_scripts.h: $(GUARD_DIR)/wire/scripts/embed.sh $(GUARD_LOCK_SCRIPTS)
	@mkdir -p $(@D)
	sh $(GUARD_DIR)/wire/scripts/embed.sh $@ $(GUARD_LOCK_SCRIPTS)

-include $(GUARD_OBJECTS:.o=.d) $(wildcard $(GUARD_BUILD)/plugins/*.d)

.DEFAULT_GOAL := $(guard_default_goal)
