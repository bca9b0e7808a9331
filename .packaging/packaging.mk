# SPDX-License-Identifier: MIT
# packaging.mk - install, manuals, tarball and Debian packages. Included by the Makefile, whose head says what each
# target is.

# GNU's directories; all of them may be given. DOCDIR and the like follow PREFIX.
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
DOCDIR ?= $(DATADIR)/doc/stampede-guard
BASHCOMPDIR ?= $(DATADIR)/bash-completion/completions
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)

# What an archive needs beside what its pkg-config file requires.
GUARD_LIBS_PRIVATE = $(GUARD_LOCKS_LIBS) $(GUARD_TLS_LIBS)
PUT = DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' BINDIR='$(BINDIR)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' \
	DATADIR='$(DATADIR)' MANDIR='$(MANDIR)' DOCDIR='$(DOCDIR)' BASHCOMPDIR='$(BASHCOMPDIR)' UNITDIR='$(UNITDIR)' \
	SYSCONFDIR='$(SYSCONFDIR)' BUILD='$(BUILD)' GUARD_LIB='$(GUARD_LIB)' GUARD_SHARED='$(GUARD_SHARED)' \
	GUARD_PLUGINS='$(GUARD_PLUGINS)' GUARD_ABI='$(GUARD_ABI)' \
	GUARD_SONAME='$(GUARD_SONAME)' GUARD_LIBS_PRIVATE='$(GUARD_LIBS_PRIVATE)' VERSION='$(GUARD_VERSION)' \
	GUARD_LIBS_PUBLIC= PC_PRIVATE=.private \
	PC_LIBDIR='$(LIBDIR:$(PREFIX)/%=$${prefix}/%)' PC_INCLUDEDIR='$(INCLUDEDIR:$(PREFIX)/%=$${prefix}/%)' \
	sh .packaging/install.sh

# What is installed, without the tools that measure it.
LIBRARY := $(GUARD_LIB) $(GUARD_SHARED) $(GUARD_PLUGINS)
installable: $(INSTALLED) $(STAMPEDE) $(LIBRARY) man

install: installable
	@$(PUT) .packaging/files.library .packaging/files

.PHONY: install-lib
install-lib: $(LIBRARY)
	@$(PUT) .packaging/files.library

uninstall:
	@$(PUT) --remove .packaging/files.library .packaging/files

# ---- manuals: what --help says, and in .packaging/man/ what it does not ----

MANUALS := $(addprefix build/man/,catalogd.8 stampede.1 fleetlock.1 stampede-scenario.5 \
	stampede-guard.3 stampede-guard-advanced.3 stampede-guard-host.3 stampede-guard-locks.3)
# The day of the commit, or of the tarball.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y guard/guard.h)
man: $(MANUALS)

$(filter-out %.3,$(MANUALS)): .packaging/man/page.sh
$(MANUALS): .packaging/packaging.mk | build/man
build/man:
	@sh load/deps.sh man
	@mkdir -p $@

manual = sh .packaging/man/page.sh $(notdir $@) $(1) $(filter %.h2m,$^) $(GUARD_VERSION) $(SOURCE_DATE_EPOCH) $(2) >$@
build/man/catalogd.8: .packaging/man/catalogd.h2m $(BUILD)/catalogd
	$(call manual,$(BUILD)/catalogd)
build/man/fleetlock.1: .packaging/man/fleetlock.h2m $(FLEETLOCK)
	$(call manual,$(FLEETLOCK))
build/man/stampede.1: .packaging/man/stampede.h2m $(STAMPEDE)
	$(call manual,$(STAMPEDE))
build/man/stampede-scenario.5: .packaging/man/stampede-scenario.h2m $(STAMPEDE)
	$(call manual,$(STAMPEDE),scenario)

build/man/stampede-guard.3: guard/guard.h
build/man/stampede-guard-advanced.3: guard/advanced.h
build/man/stampede-guard-locks.3: guard/locks.h
build/man/stampede-guard-host.3: guard/host.h
$(filter %.3,$(MANUALS)): .packaging/man/header.sh guard/guide/reference.awk
	sh $< $(filter %.h,$^) $(GUARD_VERSION) $(SOURCE_DATE_EPOCH) >$@

# ---- tarball: HEAD, whoever makes it and whenever ----

DIST ?= build/dist
DIST_NAME := stampede-guard-$(GUARD_VERSION)
dist:
	@mkdir -p $(DIST)
	git -c tar.umask=0022 -c tar.tar.gz.command='gzip -n' archive --prefix=$(DIST_NAME)/ -o $(DIST)/$(DIST_NAME).tar.gz HEAD || \
	    { rm -f $(DIST)/$(DIST_NAME).tar.gz; exit 1; }
	@echo $(DIST)/$(DIST_NAME).tar.gz

# ---- Debian packages ----

deb:
	@sh load/deps.sh packaging
	@MAKE='$(MAKE)' sh .packaging/deb.sh build/deb $(GUARD_VERSION)

deb-test:
	@sh load/deps.sh packaging
	@sh .packaging/deb_test.sh build/deb $(filter-out -,$(RELEASE))
