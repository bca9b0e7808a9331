# stampede-guard - one load per cache key, fleet-wide.
#
#   make              build/catalogd, the service, build/stampede, the stampede tester, and build/fleetlock, flock(1)
#                     for a fleet
#   make demo         private Redis and PostgreSQL, 1 000 requests on a cold product, three modes: ten lines and a
#                     page
#   make scenarios    stampedes and faults, each judged (8 minutes): T="redis leader"; pages in build/scenarios/
#   make run          the playground until Ctrl-C: the service over private servers, a page to break it with, curl
#                     lines
#   make db           loads the schema, or brings an older one up to date, and seed data into an empty database:
#                     DATABASE_URL=postgres://... [SCALE=50000]
#   make test         every test with real servers; T="unit burst": programs whose path contains one of these.
#                     LONG="lab": what it skips by name otherwise in the programs with one of these
#   make test-long    what of e2e/sentinel, e2e/cluster, e2e/playground, e2e/peers and live/tester/lab make test skips
#                     by name: all that may befall the masters, each button, each scheme (25 minutes); T="playground lab"
#   make test-install what a copy of guard/, an installed package and an operator's tools make of it; `make test`
#                     leaves tests/install out (4 minutes)
#   make fail         what tests/fail does, and every call of it: make test has a seventh of those that take long
#   make objects      compiles what the tests need and links no test: for another compiler's warnings
#   make warnings     what clang warns of in every source, as errors; nothing is compiled
#   make fuzz         libFuzzer, SECONDS=60 for each target; T=core: only targets whose name contains it
#   make coverage     branches of guard/ that the unit, fuzz, fail and live tests reach, and those they do not
#   make valgrind     ten thousand requests with faults: no error, no leak, no descriptor left open
#   make chaos        four processes and their servers under a seeded storm of faults, judged from what clients
#                     saw: SECONDS=60 SEED=1; T=sentinel, T=cluster: over a master under Sentinels, over a Redis
#                     Cluster
#   make soak         the same for long, at a gentler pace; everything must end flat: MINUTES=60 SEED=1
#   make sim          the cores, the guard's and that of the locks, in a simulated fleet under faults: SEEDS=100000.
#                     The first ones must run as recorded in tests/sim/*courses
#   make swarm        ten million schedules of them on all cores: SWARM=10000000 FROM=1
#   make golden       writes tests/golden/*.txt anew, after a change that means to change what others rely on
#   make courses      writes tests/sim/*courses anew, after a change that means to change what a core does
#   make mutants      does the simulator find sown bugs; PARTS=10: a tenth of them, another one every day
#   make mutants-live the same against real servers, and who killed whom (some 7 s for each): T=fill for names with
#                     it; RESUME=1: those that did not pass in the run before
#   make model        the protocols in the model checker spin, sown bugs too; LONG=1: the large searches as well
#                     (half an hour, 6 GB of memory)
#   make bench        the measurements the README quotes; T="hits waiters": only these. T=gate: what a request costs
#                     in instructions, allocations, calls and commands, against load/bench/gate.txt; RENEW=1 writes it
#                     anew
#   make peers        the known caches on the same work, side by side (8 minutes): T="nginx module burst"
#   make lab          the locks of the literature and what breaks each (7 minutes): T="redisson guard changed",
#                     T=queue
#   make docs         guide, cookbook and reference as HTML: build/docs/index.html
#   make promises     what is promised, and by which tests it is held
#   make lint         include directions, format, cppcheck, clang-tidy
#   make format       applies .clang-format
#   make world        the README's two commands in a bare Debian, on HEAD: RELEASE=trixie, by default the one of
#                     Debian 12 and 13 that this is not; RELEASE=sid may fail. T="demo test"; tests/world/world.sh has
#                     all. Needs a mirror, and root or a user's namespaces (half an hour)
#   make empty-root   what guard/README.md says, in such a Debian (a minute)
#   make nginx        the module for nginx, build/VARIANT/nginx/ngx_http_stampede_module.so: guard/nginx/README.md
#   make amalgamation build/amalgamation/guard.c and its headers: the guard as one file
#   make install      programs, library (shared, static), headers, pkg-config and CMake files, manuals, completion,
#                     units, schema, texts, under $(DESTDIR)$(PREFIX); BINDIR= LIBDIR= SYSCONFDIR= ... for other
#                     places
#   make install-lib  of these the library alone, with its headers, pkg-config and CMake files, and the plug-ins of
#                     its locks: needs neither the service's libraries nor a server
#   make uninstall    takes them away again, but for the settings in $(SYSCONFDIR)/catalogd
#   make man          build/man/*: manuals out of what --help says
#   make dist         build/dist/stampede-guard-VERSION.tar.gz: HEAD, the same bytes each time
#   make deb          build/deb/*.deb, judged by lintian; make deb-test installs and uses them in an empty Debian
#                     (root)
#   make clean        removes build/
#   make compat       what speaks with Redis, against Debian's redis-server and its valkey-server, unpacked and not
#                     installed: T="live/guard/near live/locks", REDIS_SERVER=/path/to/another or "valkey-server"; a line for
#                     each
#   make help         prints this
#
#   CC=clang          another compiler                       \  each has its own folder of objects
#   SAN=address       address and undefined sanitizers        > below build/, so that they never mix
#   SAN=thread        thread sanitizer                       /
#   WERROR=1          warnings are errors
#   V=1               prints every command
#   CFLAGS= LDFLAGS= LDLIBS= PREFIX= DESTDIR=                as usual; .packaging/packaging.mk has all folders
#   TEST_LIMIT_S=1800 a test program is killed after this long; JOBS=4: so many run at a time
#
# Missing Debian packages are installed by name on the first build (apt-get, with sudo when not root; no
# service is started); `sh load/deps.sh --list build` names them.

ifeq ($(origin CC),default)
CC := gcc
endif
SAN ?=
SCALE ?= 50000
SECONDS ?= 60
SEEDS ?= 100000
SWARM ?= 10000000
FROM ?= 1
MINUTES ?= 60
LONG ?=
SEED ?= 1
RENEW ?=
TEST_LIMIT_S ?= 1800
CFLAGS ?= -O2 -g
T ?=

ifneq ($(filter-out address thread,$(SAN)),)
$(error SAN=$(SAN): either address or thread)
endif

BUILD := build/$(notdir $(firstword $(CC)))$(SAN:%=-%)

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.PHONY: all installable uninstall man dist deb deb-test compat demo run h2o-example nginx nginx-headers nginx-where-it-is scenarios db test test-long test-install fail tests objects warnings fuzz coverage golden valgrind chaos soak sim swarm courses mutants mutants-live model bench peers lab lint promises format world empty-root install amalgamation docs clean help
.SUFFIXES:
ifndef V
MAKEFLAGS += --silent
endif

# ---- flags ----

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wformat=2 -Werror=format-security $(if $(WERROR),-Werror)
# clang 19 has it in -Wextra and is wrong: constants of an anonymous enum are this code's numbers.
WARNINGS += -Wno-enum-float-conversion
# Each is used if the compiler knows it. The sanitizers do their own, better, checking.
OPTIMISED := $(filter-out -O0,$(filter -O%,$(CFLAGS)))
HARDENING := $(if $(OPTIMISED),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3) -fstack-protector-strong -fstack-clash-protection \
	-fcf-protection=full -fno-strict-overflow -ftrivial-auto-var-init=zero
HARDENING_LINK := -Wl,-z,relro,-z,now,-z,noexecstack
SANITIZE := $(if $(filter address,$(SAN)),-fsanitize=address -fsanitize=undefined -fno-sanitize-recover=all)
SANITIZE += $(if $(filter thread,$(SAN)),-fsanitize=thread)
ifneq ($(SAN),)
SANITIZE += -fno-omit-frame-pointer
HARDENING :=
endif

OUR_CFLAGS = -std=c11 -D_GNU_SOURCE -pthread -I. -I$(BUILD) $(PACKAGE_CFLAGS) $(WARNINGS) $(FLAGS)
FLAGS = $(HARDENED) -fPIE -fvisibility=hidden $(SANITIZE)
LINK = $(CC) -pie -Wl,--as-needed $(HARDENING_LINK) $(SANITIZE) $(CFLAGS) $(LDFLAGS) -o $@
# What the library needs, and what all of it does.
GOALS := $(or $(MAKECMDGOALS),all)
NEEDS := $(if $(filter-out install-lib uninstall,$(GOALS)),build,library)
PACKAGES := hiredis $(if $(filter build,$(NEEDS)),libuv libmicrohttpd jansson libpq libsystemd cmocka)

# The compiler and the libraries are asked once per variant, after the packages are there; make reads the
# answer and starts over.
ifneq ($(filter-out help clean db dist deb deb-test format fuzz coverage amalgamation world empty-root,$(GOALS)),)
include $(BUILD)/$(NEEDS).mk
endif

$(BUILD)/$(NEEDS).mk: Makefile load/deps.sh
	@mkdir -p $(@D)
	@sh load/deps.sh $(NEEDS) $(firstword $(CC))
	@{ for flag in $(HARDENING); do \
	       if $(CC) -Werror $$flag -x c -c -o /dev/null /dev/null 2>/dev/null; then echo "HARDENED += $$flag"; fi; \
	   done; \
	   echo "PACKAGE_CFLAGS := $$(pkg-config --cflags $(PACKAGES) | sed 's/-I/-isystem /g')"; \
	   for package in $(PACKAGES); do echo "LIBS_$$package := $$(pkg-config --libs $$package)"; done; \
	 } >$@.$$$$ && mv $@.$$$$ $@

# ---- objects, archives, programs ----

GUARD_DIR := guard
GUARD_BUILD := $(BUILD)/guard
include guard/guard.mk
# The last word: -fPIE is for programs.
GUARD_CFLAGS += $(OUR_CFLAGS) -fPIC
GUARD_SHARED_LINK = $(HARDENING_LINK)

LOAD_FOLDERS := base stack herd witness report play ground bench
LOAD_SOURCES := $(filter-out load/bench/bench.c,$(foreach folder,$(LOAD_FOLDERS),$(wildcard load/$(folder)/*.c)))
comma := ,
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))

FLEETLOCK_OBJECTS := $(call objects,$(wildcard app/fleetlock/*.c))
FLEETLOCK := $(BUILD)/fleetlock
COMMON_OBJECTS := $(call objects,$(wildcard app/common/*.c))
APP_OBJECTS := $(filter-out $(FLEETLOCK_OBJECTS),$(call objects,$(wildcard app/*/*.c)))
LOAD_OBJECTS := $(COMMON_OBJECTS) $(call objects,$(LOAD_SOURCES))
PEERS_OBJECTS := $(call objects,$(filter-out load/peers/peers.c,$(wildcard load/peers/*.c)))
PEERS := $(BUILD)/peers
LAB_OBJECTS := $(call objects,$(wildcard load/lab/*.c))
LAB := $(BUILD)/lab
FUZZ_SOURCES := $(filter-out tests/fuzz/fuzz_main.c %_test.c,$(wildcard tests/fuzz/*.c))
FUZZED := $(addprefix app/,http/head.c http/strict.c http/route.c http/access_line.c \
	$(addprefix base/,settings.c address.c document.c number.c trace.c)) \
	app/common/spelling.c load/base/access_line.c load/base/http_parse.c load/base/number.c load/base/text.c \
	$(addprefix load/witness/,wire.c wire_postgres.c wire_mysql.c wire_http.c) tests/support/left_head.c
SIM_SOURCES := $(filter-out tests/sim/sim_main.c %_test.c,$(wildcard tests/sim/*.c))
SUPPORT_OBJECTS := $(call objects,$(wildcard tests/support/*.c) $(FUZZ_SOURCES) $(SIM_SOURCES))
CHAOS_OBJECTS := $(call objects,$(filter-out %_test.c %_main.c %_shim.c,$(wildcard tests/chaos/*.c)))
CHAOS := $(BUILD)/tests/chaos/chaos
CHAOS_SHIM := $(BUILD)/tests/chaos/clock_shim.so
LIBRARIES = $(LIBS_libmicrohttpd) $(LIBS_libsystemd) $(LIBS_jansson) $(LIBS_libpq) $(GUARD_LOCKS_LIBS) -Wl,--push-state,--as-needed -lssl -lcrypto -Wl,--pop-state $(LIBS_hiredis) $(LIBS_libuv) -lm -pthread $(LDLIBS)

CATALOGD := $(if $(wildcard app/main.c),$(BUILD)/catalogd)
STAMPEDE := $(BUILD)/stampede
BENCH := $(BUILD)/bench
LOAD_PROGRAMS := $(STAMPEDE) $(BENCH)
TEST_PROGRAMS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/*/*_test.c tests/live/*/*_test.c))
ifeq ($(strip $(GUARD_TLS)),)
TEST_PROGRAMS := $(filter-out %/tls_test %/tls_session_test %/tls_process_test,$(TEST_PROGRAMS))
endif

# Those of make test-install cost as much CPU as a third of all others.
EVERYDAY := $(filter-out $(BUILD)/tests/install/%,$(TEST_PROGRAMS))

# build/catalogd and build/stampede are the ones built last, of whichever variant.
PROGRAMS := $(CATALOGD) $(FLEETLOCK) $(LOAD_PROGRAMS) $(PEERS) $(LAB)
all: $(PROGRAMS) $(if $(SAN),,$(GUARD_SHARED) $(GUARD_PLUGINS))
	@for program in $(notdir $(PROGRAMS)); do ln -sfn $(notdir $(BUILD))/$$program build/$$program; done

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC   $<"
	$(CC) $(CPPFLAGS) $(OUR_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# A test runs once: -O2 takes up to ten times as long to compile, and gains nothing.
$(BUILD)/tests/%_test.o: override CFLAGS := $(patsubst -O2,-Og,$(CFLAGS))

# The statements of sql/ become string literals.
STATEMENTS := $(filter-out sql/schema.sql sql/seed.sql,$(wildcard sql/*.sql))
$(APP_OBJECTS) $(BUILD)/app/main.o: | $(BUILD)/app_statements.h
$(BUILD)/app_statements.h: sql/embed.sh $(STATEMENTS)
	sh sql/embed.sh $@ $(STATEMENTS)

# Pages become bytes, their styles and scripts inside: that of a report, of the live view and of the playground.
PAGES := $(addprefix $(BUILD)/,page_template.h view_page.h ground_page.h)
$(BUILD)/load/report/page.o: | $(BUILD)/page_template.h
$(BUILD)/page_template.h: load/report/page.html app/view/palette.css load/report/page.css app/view/plot.js load/report/page_plots.js \
	load/report/page.js
$(BUILD)/app/view/stream.o: | $(BUILD)/view_page.h
$(BUILD)/view_page.h: $(addprefix app/view/,page.html palette.css view.css plot.js widgets.js page.js)
$(BUILD)/load/ground/serve.o: | $(BUILD)/ground_page.h
$(BUILD)/ground_page.h: load/ground/page.html app/view/palette.css app/view/view.css load/ground/page.css app/view/plot.js \
	load/ground/page.js
$(PAGES): load/embed.sh
	@mkdir -p $(@D)
	sh load/embed.sh $@ $(filter-out %.sh,$^)

$(BUILD)/libapp.a: $(APP_OBJECTS)
$(BUILD)/libload.a: $(LOAD_OBJECTS)
$(BUILD)/libsupport.a: $(SUPPORT_OBJECTS)
$(BUILD)/libchaos.a: $(CHAOS_OBJECTS)
$(BUILD)/libpeers.a: $(PEERS_OBJECTS)
$(BUILD)/libapp.a $(BUILD)/libload.a $(BUILD)/libsupport.a $(BUILD)/libchaos.a $(BUILD)/libpeers.a:
	@mkdir -p $(@D)
	rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/catalogd: $(BUILD)/app/main.o $(BUILD)/libapp.a $(GUARD_LIB)
	@echo "  LINK $@"
	$(LINK) $^ $(LIBRARIES)

$(FLEETLOCK): $(FLEETLOCK_OBJECTS) $(BUILD)/libapp.a $(GUARD_LIB)
	@echo "  LINK $@"
	$(LINK) $^ $(GUARD_LIBS) $(LDLIBS)

# As they are installed: with the shared library, so that each asks for what it uses, and a lock's server for its
# plug-in. They find it in LIBDIR, as that lies from BINDIR; RUNPATH= where the system does that.
RUNPATH ?= $$ORIGIN/$(shell realpath -ms --relative-to='$(BINDIR)' '$(LIBDIR)')
INSTALLED := $(addprefix $(BUILD)/installed/,catalogd fleetlock)
$(BUILD)/installed/catalogd: $(BUILD)/app/main.o $(BUILD)/libapp.a $(GUARD_SHARED)
$(BUILD)/installed/fleetlock: $(FLEETLOCK_OBJECTS) $(BUILD)/libapp.a $(GUARD_SHARED)
$(INSTALLED): $(BUILD)/installed/runpath
	@echo "  LINK $@"
	$(LINK) $(filter-out %/runpath,$^) $(RUNPATH:%=-Wl,-rpath,'%') $(LIBRARIES)

$(BUILD)/installed/runpath: FORCE
	@mkdir -p $(@D)
	@echo '$(RUNPATH)' | cmp -s - $@ || echo '$(RUNPATH)' >$@
.PHONY: FORCE
FORCE:

# The tester includes nothing of the guard, but is released with it.
$(BUILD)/load/stampede.o: private CPPFLAGS += -DSTAMPEDE_VERSION='$(shell sed -n 's/^.define GUARD_VERSION //p' guard/guard.h)'
$(BUILD)/load/stampede.o: guard/guard.h

$(STAMPEDE): $(BUILD)/load/stampede.o $(BUILD)/libload.a
$(BENCH): $(BUILD)/load/bench/bench.o $(BUILD)/libload.a $(BUILD)/guard/example/queries.o $(GUARD_LIB)
$(addprefix $(BUILD)/load/bench/,host.o bench_loads.o bench_growth.o) $(BUILD)/guard/example/queries.o: private CPPFLAGS += -Iguard
$(LOAD_PROGRAMS):
	@echo "  LINK $@"
	$(LINK) $^ $(LIBRARIES)

$(PEERS): $(BUILD)/load/peers/peers.o $(BUILD)/libpeers.a $(BUILD)/libload.a
	@echo "  LINK $@"
	$(LINK) $^ $(LIBRARIES)

$(LAB): $(LAB_OBJECTS) $(BUILD)/libload.a $(GUARD_LIB)
	@echo "  LINK $@"
	$(LINK) $^ $(LIBRARIES)

# The module for nginx: nginx's own configure says what its headers declare and which order modules have; compiled as
# all else here. Another nginx: NGINX_SRC=, its sources with auto/, and NGINX_FLAGS=, what `nginx -V` says of its own.
NGINX_SRC ?= /usr/share/nginx/src
NGINX_FLAGS ?=
HAS_NGINX = test -e $(NGINX_SRC)/configure
NGINX_BUILD := $(BUILD)/nginx
NGINX_MODULE := $(NGINX_BUILD)/ngx_http_stampede_module.so
NGINX_OBJECTS := $(patsubst guard/nginx/%.c,$(NGINX_BUILD)/%.o,$(wildcard guard/nginx/*.c))
NGINX_INCLUDES := $(patsubst %,-isystem $(NGINX_BUILD)/src/%,objs src/core src/event src/event/modules src/event/quic \
	src/os/unix src/http src/http/modules src/http/v2 src/http/v3)
NGINX_CFLAGS = -std=gnu11 -D_GNU_SOURCE -pthread -fPIC -fvisibility=hidden -Iguard $(NGINX_INCLUDES) \
	$(filter-out -Wpedantic,$(WARNINGS)) $(HARDENED) $(SANITIZE)
NGINX_HEADERS := $(NGINX_BUILD)/src/objs/ngx_modules.made
# Where something else is made beside it that needs it too, one make builds it for both.
nginx: nginx-where-it-is
	@$(HAS_NGINX) || { echo "make nginx: there are no sources of nginx in $(NGINX_SRC); NGINX_SRC=FOLDER says where" >&2; exit 1; }
$(NGINX_HEADERS): guard/nginx/config load/deps.sh
	@sh load/deps.sh nginx
	@rm -rf $(NGINX_BUILD)/src && mkdir -p $(NGINX_BUILD) && cp -r $(NGINX_SRC)/. $(NGINX_BUILD)/src
	@cd $(NGINX_BUILD)/src && unset CFLAGS CPPFLAGS LDFLAGS && STAMPEDE_GUARD=/nowhere bash -c 'test -z "$(NGINX_FLAGS)" && . ./conf_flags; \
	    ./configure "$${NGX_CONF_FLAGS[@]}" $(NGINX_FLAGS) --add-dynamic-module=$(CURDIR)/guard/nginx' >../configure.log 2>&1 || \
	    { cat ../configure.log >&2; exit 1; }
	@touch $@
$(NGINX_OBJECTS) $(NGINX_BUILD)/modules.o: $(NGINX_HEADERS)
$(NGINX_OBJECTS): $(NGINX_BUILD)/%.o: guard/nginx/%.c
	@echo "  CC   $<"
	$(CC) $(CPPFLAGS) $(NGINX_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(NGINX_BUILD)/modules.o:
	$(CC) $(NGINX_CFLAGS) -fvisibility=default -w $(CFLAGS) -c -o $@ $(NGINX_BUILD)/src/objs/ngx_http_stampede_module_modules.c
# Of the guard what it takes: no lock, and no library of one.
$(NGINX_MODULE): $(NGINX_OBJECTS) $(NGINX_BUILD)/modules.o $(GUARD_PARTS) guard/nginx/exports
	@echo "  LINK $@"
	$(CC) -shared $(HARDENING_LINK) -Wl,-z,nodelete -Wl,--version-script=guard/nginx/exports $(SANITIZE) $(CFLAGS) $(LDFLAGS) -o $@ \
	    $(NGINX_OBJECTS) $(NGINX_BUILD)/modules.o $(GUARD_PARTS) $(GUARD_TLS_LIBS) -lhiredis $(LDLIBS)
-include $(NGINX_OBJECTS:.o=.d)

# The libraries of the loops that there are adapters for, and of the servers among the examples.
$(BUILD)/hosts.ready: load/deps.sh
	@sh load/deps.sh hosts
	@touch $@

# Everything a test may include comes from an archive, so it is linked with what it uses and no more.
# In tests/fail every call of these from an object of ours goes to the test first.
FAIL_PROGRAMS := $(filter $(BUILD)/tests/fail/%,$(TEST_PROGRAMS))
$(FAIL_PROGRAMS): private WRAPPED := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc strdup free \
	socket connect bind listen send recv getrandom poll pthread_create pthread_mutex_lock)
$(BUILD)/tests/unit/core_memory_test $(BUILD)/tests/unit/lock_memory_test: private WRAPPED := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc)
$(BUILD)/tests/live/guard/loads_on_test: private WRAPPED := -Wl,--wrap=defer_start
# The simulator's cores run out of memory.
$(BUILD)/sim $(BUILD)/tests/sim/sim_test: private WRAPPED := -Wl$(comma)--wrap=calloc
EXAMPLES := $(addprefix $(BUILD)/example/,preforkserver civetserver evhttpserver)
$(BUILD)/example/civetserver: private EXAMPLE_LIBRARIES := -lcivetweb
$(BUILD)/example/evhttpserver: private EXAMPLE_LIBRARIES := -levent -levent_pthreads
$(BUILD)/example/h2oserver: private EXAMPLE_LIBRARIES := -lh2o -lssl -lcrypto -luv
H2O_EXAMPLE := $(BUILD)/example/h2oserver
EXAMPLE_OBJECTS := $(patsubst $(BUILD)/example/%,$(BUILD)/guard/example/%.o,$(EXAMPLES)) $(BUILD)/guard/example/files.o
$(EXAMPLE_OBJECTS) $(BUILD)/guard/example/h2oserver.o: private CPPFLAGS += -Iguard
$(EXAMPLE_OBJECTS) $(BUILD)/guard/example/h2oserver.o: | $(BUILD)/hosts.ready
$(EXAMPLES) $(H2O_EXAMPLE): $(BUILD)/example/%: $(BUILD)/guard/example/%.o $(BUILD)/guard/example/files.o $(GUARD_LIB)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	$(LINK) $^ $(EXAMPLE_LIBRARIES) $(GUARD_LIBS) $(LDLIBS)
-include $(EXAMPLE_OBJECTS:.o=.d) $(BUILD)/guard/example/h2oserver.d
$(BUILD)/tests/install/examples_test: | $(EXAMPLES) h2o-example

# Not every Debian has h2o: its example is built where it is, which is known once the packages are there.
HAS_H2O = $(CC) $(CPPFLAGS) -E -include h2o.h -x c /dev/null >/dev/null 2>&1
h2o-example: | $(BUILD)/hosts.ready $(GUARD_LIB) $(BUILD)/guard/example/files.o
	@! $(HAS_H2O) || $(MAKE) $(H2O_EXAMPLE)

LOOP_PROGRAMS := $(addprefix $(BUILD)/tests/live/guard/,guard_loop_test forget_test loads_on_test adapters_test)
$(LOOP_PROGRAMS): private LOOP_LIBRARIES := -levent_core -lev -lglib-2.0
$(LOOP_PROGRAMS:=.o) $(BUILD)/tests/live/guard/defer_test.o: private CPPFLAGS += -Iguard
$(LOOP_PROGRAMS:=.o): private CPPFLAGS += $$(pkgconf --cflags glib-2.0 | sed 's/-I/-isystem /g')
$(LOOP_PROGRAMS:=.o): | $(BUILD)/hosts.ready
# Where gold is there: it links a test, of which there are two hundred, in half the time.
TEST_LINKER := $(if $(shell command -v ld.gold),-fuse-ld=gold)
ARCHIVES := $(BUILD)/libchaos.a $(BUILD)/libsupport.a $(BUILD)/libload.a $(BUILD)/libapp.a $(GUARD_PARTS)
$(TEST_PROGRAMS): %: %.o $(ARCHIVES)
	@echo "  LINK $@"
	$(LINK) $(TEST_LINKER) $(WRAPPED) $(filter %.o,$^) $(filter %.a,$^) $(LIBS_cmocka) $(LOOP_LIBRARIES) $(LIBRARIES)

# Not every system has what modules are built with; the test says that it has not.
nginx-where-it-is: $(GUARD_PARTS)
nginx-headers nginx-where-it-is:
	@sh load/deps.sh nginx
	@! $(HAS_NGINX) || $(MAKE) --no-print-directory $(if $(filter %-headers,$@),$(NGINX_HEADERS),$(NGINX_MODULE))
$(BUILD)/tests/e2e/nginx_test $(BUILD)/tests/e2e/peers_test: | nginx-where-it-is

# The programs that tests run: most the service, some the others.
$(filter-out $(foreach level,unit sim fuzz fail,$(BUILD)/tests/$(level)/%),$(TEST_PROGRAMS)): | $(CATALOGD)
$(filter %/lab_test %/package_test %/fleetlock_test %/peers_test %/playground_test %/stampede_tool_test,$(TEST_PROGRAMS)): \
    | $(FLEETLOCK) $(LOAD_PROGRAMS) $(PEERS) $(LAB)

# Programs of their own below load/ have names of their own, too: only their tests link them.
$(filter %/peers_test,$(TEST_PROGRAMS)): $(PEERS_OBJECTS)
$(filter %/lab_test,$(TEST_PROGRAMS)): $(filter-out %/lab.o,$(LAB_OBJECTS))
$(BUILD)/tests/unit/nginx_verdict_test: $(call objects,guard/nginx/verdict.c)

$(CHAOS): $(BUILD)/tests/chaos/chaos_main.o $(BUILD)/libchaos.a $(BUILD)/libsupport.a $(BUILD)/libload.a | $(CATALOGD) $(CHAOS_SHIM)
	@echo "  LINK $@"
	$(LINK) $^ $(LIBRARIES)

# It goes into servers that are not ours: no sanitizer.
$(CHAOS_SHIM): tests/chaos/clock_shim.c
	@mkdir -p $(@D)
	@echo "  LINK $@"
	$(CC) -std=c11 -D_GNU_SOURCE $(WARNINGS) $(HARDENED) -fPIC -fvisibility=hidden -shared $(CFLAGS) $(LDFLAGS) -o $@ $<

-include $(patsubst %.o,%.d,$(APP_OBJECTS) $(FLEETLOCK_OBJECTS) $(BUILD)/app/main.o $(LOAD_OBJECTS) $(SUPPORT_OBJECTS) \
	$(BUILD)/load/stampede.o $(BUILD)/load/bench/bench.o $(BUILD)/guard/example/queries.o $(TEST_PROGRAMS:=.o) $(CHAOS_OBJECTS) $(BUILD)/tests/chaos/chaos_main.o \
	$(PEERS_OBJECTS) $(BUILD)/load/peers/peers.o $(LAB_OBJECTS) \
	$(BUILD)/tests/sim/sim_main.o $(BUILD)/tests/fuzz/fuzz_main.o)

# ---- what one does with it ----

chosen = $(strip $(foreach word,$(T),$(findstring $(word),$(1:$(BUILD)/%=%))))

demo: all
	@CATALOGD=$(BUILD)/catalogd $(BUILD)/stampede demo $(if $(filter file,$(origin SCALE)),,--scale $(SCALE))

# Ctrl-C is how it ends, not a failure of make.
run: all
	@trap : INT; CATALOGD=$(BUILD)/catalogd $(BUILD)/stampede serve --scale $(SCALE) || test $$? = 130

# The example for a service of one's own needs one: it runs only when it is named.
SCENARIOS := $(wildcard load/scenarios/*.scenario)
SCENARIOS := $(if $(T),$(foreach file,$(SCENARIOS),$(if $(call chosen,$(notdir $(file))),$(file))),$(filter-out %/own-service.scenario,$(SCENARIOS)))
scenarios: all
	@CATALOGD=$(BUILD)/catalogd $(BUILD)/stampede scenario $(SCENARIOS) --json build/scenarios --html build/scenarios

PSQL = psql "$(DATABASE_URL)" -X -q -v ON_ERROR_STOP=1
db:
	@test -n "$(DATABASE_URL)" || { echo "make db DATABASE_URL=postgres://user@host/database [SCALE=$(SCALE)]" >&2; exit 2; }
	@sh load/deps.sh client
	$(PSQL) -f sql/schema.sql
	@if test "$$($(PSQL) -At -c 'SELECT EXISTS (SELECT FROM categories)')" = t; then \
	    echo "the database holds a catalog: brought up to date, not seeded"; \
	else \
	    $(PSQL) -v scale=$(SCALE) -f sql/seed.sql; \
	fi

tests: all $(EVERYDAY) $(CHAOS_SHIM) $(BUILD)/mutants.checked

# All that `make tests` compiles. With another compiler the links of test programs would say nothing new.
objects: all $(TEST_PROGRAMS:=.o) $(ARCHIVES) $(EXAMPLE_OBJECTS) $(CHAOS_SHIM) h2o-example

# With the flags that some have of their own.
warnings: $(GUARD_MADE) $(BUILD)/app_statements.h $(PAGES) nginx-headers | $(BUILD)/hosts.ready
	@$(HAS_NGINX) || echo "  guard/nginx: SKIPPED, no $(NGINX_SRC)/configure"
	@echo $(filter-out $(shell $(HAS_H2O) || echo guard/example/h2oserver.c) $(shell $(HAS_NGINX) || echo guard/nginx/%),$(SOURCES)) | \
	    sh tests/support/warnings.sh $(CC) $(OUR_CFLAGS) $(CFLAGS) -Werror $(GUARD_CFLAGS) $(NGINX_INCLUDES) -Iguard -DSTAMPEDE_VERSION='""' \
	    $$(pkgconf --cflags glib-2.0 | sed 's/-I/-isystem /g')

# Every sown bug still has its place in the code.
$(BUILD)/mutants.checked: tests/mutants/table tests/mutants/sow.awk $(wildcard guard/*.c guard/*/*.c guard/*/*/*.c guard/*/scripts/*.lua app/*.c app/*/*.c sql/*.sql tests/sim/lock_model.c)
	awk -v check=1 -f tests/mutants/sow.awk tests/mutants/table
	@touch $@

BROWSER_TESTS := %/browser_test %/page_test %/view_test %/playground_test
SELECTED := $(sort $(if $(T),$(foreach program,$(TEST_PROGRAMS),$(if $(call chosen,$(program)),$(program))),$(EVERYDAY)))

test: $(if $(T),$(SELECTED) $(CHAOS_SHIM),tests)
	$(if $(filter $(BROWSER_TESTS),$(SELECTED)),@sh load/deps.sh page-test)
	$(if $(filter %/formats_test,$(SELECTED)),@sh load/deps.sh formats)
	$(if $(filter %/alerts_test,$(SELECTED)),@sh load/deps.sh alerts)
	$(if $(filter %/systemd_test,$(SELECTED)),@sh load/deps.sh units)
	$(if $(filter %/copy_test,$(SELECTED)),@sh load/deps.sh docs)
	$(if $(filter %/lock_contract_test %/lock_zookeeper_test %/lock_provider_fail_test %/lab_test %/fleetlock_test,$(SELECTED)),@sh load/deps.sh zookeeper)
	$(if $(filter %/copy_test,$(SELECTED)),@sh load/deps.sh hosts)
	$(if $(filter %/copy_test %/stampede_tool_test %/nginx_test,$(SELECTED)),@sh load/deps.sh nginx)
	$(if $(filter %/package_test,$(SELECTED)),@sh load/deps.sh package-test)
	$(if $(filter %/lock_postgres_test,$(SELECTED)),@sh load/deps.sh pgbouncer)
	$(if $(filter %/stampede_tool_test,$(SELECTED)),@sh load/deps.sh mariadb)
	@CATALOGD=$(BUILD)/catalogd EXAMPLES=$(BUILD)/example NGINX_MODULE=$(NGINX_MODULE) NGINX_PRELOAD=$(if $(filter address%,$(SAN)),$(shell $(CC) -print-file-name=libasan.so)) CHAOS_SHIM=$(CHAOS_SHIM) TEST_LIMIT_S=$(TEST_LIMIT_S) sh tests/support/run.sh $(SELECTED)

# Those with tests that are skipped without LONG=1.
LONG_PROGRAMS := $(addprefix tests/,e2e/sentinel_test e2e/cluster_test e2e/playground_test e2e/peers_test live/tester/lab_test)
test-long:
	@$(MAKE) test LONG=1 T="$(if $(T),$(foreach each,$(LONG_PROGRAMS),$(if $(call chosen,$(BUILD)/$(each)),$(each))),$(LONG_PROGRAMS))"

test-install:
	@$(MAKE) test T=tests/install

fail:
	@$(MAKE) test T=tests/fail FAIL_EVERY=1

# What speaks with Redis: connection, scripts and guard, locks, Sentinels, Clusters, TLS, users with an ACL, what
# check says of it.
COMPAT := $(addprefix live/guard/,guard_test model near permit_script permits push script shards tag_script tags) live/redis \
	$(addprefix live/locks/,lock_contract lock_fault lock_model lock_test redlock) $(addprefix e2e/,check sentinel cluster)
compat:
	@MAKE="$(MAKE)" REDIS_SERVER="$(REDIS_SERVER)" sh tests/support/compat.sh "$(or $(T),$(COMPAT))"

golden: $(BUILD)/tests/golden/golden_test
	@CATALOGD=$(BUILD)/catalogd GOLDEN=write $<

# Built with clang in a folder of its own; what is found lands there, what is worth keeping in tests/fuzz/corpus/.
fuzz:
	@sh load/deps.sh fuzz
	@$(MAKE) CC=clang SAN=address BUILD=build/fuzz CFLAGS="-O1 -g1 -fsanitize=fuzzer-no-link" build/fuzz/fuzz
	@sh tests/fuzz/run.sh build/fuzz $(SECONDS) $(T)

$(BUILD)/fuzz: $(call objects,tests/fuzz/fuzz_main.c $(FUZZ_SOURCES) $(FUZZED)) $(GUARD_PARTS)
	@echo "  LINK $@"
	$(LINK) -fsanitize=fuzzer $^ $(LIBRARIES)

# -O0, so that a branch of the program is one of the source.
coverage:
	@$(MAKE) CC=gcc BUILD=build/coverage CFLAGS="-O0 -g --coverage" tests
	@find build/coverage -name "*.gcda" -delete
	@for tests in $(or $(T),tests/unit tests/fuzz tests/fail tests/live); do \
	    $(MAKE) CC=gcc BUILD=build/coverage CFLAGS="-O0 -g --coverage" T=$$tests test || exit 1; \
	done
	@sh tests/support/coverage.sh build/coverage/guard guard

VALGRIND_TEST := $(BUILD)/tests/e2e/faults_process_test
valgrind: $(VALGRIND_TEST)
	$(if $(SAN),$(error valgrind and SAN=$(SAN) exclude each other))
	@sh load/deps.sh valgrind
	@rm -rf $(BUILD)/valgrind && mkdir -p $(BUILD)/valgrind
	@CATALOGD=tests/support/valgrind.sh VALGRIND_PROGRAM=$(CATALOGD) VALGRIND_LOGS=$(BUILD)/valgrind \
	    timeout -k 10 $(TEST_LIMIT_S) $(VALGRIND_TEST) 'ten_thousand_requests_*'
	@sh tests/support/valgrind.sh --judge $(BUILD)/valgrind

chaos soak: $(CHAOS)
	@CATALOGD=$(BUILD)/catalogd CHAOS_SHIM=$(CHAOS_SHIM) $(CHAOS) $@ \
	    --seconds $(if $(filter soak,$@),$$(($(MINUTES) * 60)),$(SECONDS)) --seed $(SEED) $(if $(T),--redis $(T))

# A course is a hash of what happened in a seed and when. Code that only moves leaves every one of them as it is. The
# files have a line for each 100 seeds.
# The guard's simulator, a fifth as many seeds of it over several masters and with wishes, a tenth with outages, then
# that of the locks.
sim: $(BUILD)/sim
	@for of in "" shards wishes outages locks; do \
	    case $$of in wishes) one=wish ;; *) one=$${of%s} ;; esac; file=tests/sim/$${one:+$${one}_}courses; \
	    $(BUILD)/sim $$of COURSES=$$((100 * $$(wc -l <$$file))) | diff $$file - >$(BUILD)/courses.diff || \
	    { first=$$(sed -n '2s/^[<>] \([0-9]*\) .*/\1/p' $(BUILD)/courses.diff); \
	        echo "$$of SEED=$$first to SEED=$$((first + 99)): the first of $$(grep -c '^>' $(BUILD)/courses.diff)" \
	        "groups of seeds that take another course than in $$file. If that is meant, say why in the commit and run" \
	        "make courses. If not, run $(BUILD)/sim $$of FROM=$$first COURSES=100 EACH=1 before and after the" \
	        "change to see which seed differs, then $(BUILD)/sim $$of SEED= of it to see where"; exit 1; } >&2; \
	    case $$of in shards | wishes) seeds=$$((($(SEEDS) + 4) / 5)) ;; outages) seeds=$$((($(SEEDS) + 9) / 10)) ;; \
	        *) seeds=$(SEEDS) ;; esac; \
	    $(BUILD)/sim $$of SEEDS=$$seeds || exit 1; \
	done

# Each schedule draws which faults it has. Ten million take an hour or so on two cores. FROM: other seeds.
swarm: $(BUILD)/sim
	@sh tests/sim/swarm.sh $(BUILD)/sim $(SWARM) $(FROM)

courses: $(BUILD)/sim
	@$(BUILD)/sim COURSES=2000 >tests/sim/courses
	@$(BUILD)/sim shards COURSES=500 >tests/sim/shard_courses
	@$(BUILD)/sim wishes COURSES=500 >tests/sim/wish_courses
	@$(BUILD)/sim outages COURSES=300 >tests/sim/outage_courses
	@$(BUILD)/sim locks COURSES=500 >tests/sim/lock_courses

# Are sown bugs found? In the model Redis, and in the core.
mutants: $(BUILD)/sim
	@$(BUILD)/sim MUTANTS=20000
	@$(BUILD)/sim shards MUTANTS=20000
	@$(BUILD)/sim wishes MUTANTS=20000
	@$(BUILD)/sim outages MUTANTS=20000
	@CC=$(CC) sh tests/sim/mutants.sh 100000 '' $(PARTS)

# By the simulator and by real servers: the matrix.
mutants-live: all
	@for what in hosts zookeeper pgbouncer nginx mariadb; do sh load/deps.sh $$what || exit 1; done
	@CC=$(CC) SAN=$(SAN) BUILD=$(BUILD) TEST_LIMIT_S=$(TEST_LIMIT_S) sh tests/mutants/run.sh "$(T)"

$(BUILD)/sim: $(BUILD)/tests/sim/sim_main.o $(BUILD)/libsupport.a $(GUARD_PARTS)
	@echo "  LINK $@"
	$(LINK) $(WRAPPED) $^ $(LIBRARIES)

model:
	@sh load/deps.sh model
	@LONG=$(LONG) sh tests/model/run.sh build/model

bench: all $(BUILD)/bench
	@$(if $(filter gate,$(or $(T),gate)),sh load/deps.sh gate)
	@$(if $(filter-out gate,$(or $(T),all)),sh load/deps.sh bench)
	@CATALOGD=$(BUILD)/catalogd GATE_RENEW=$(RENEW) $(BUILD)/bench $(T)

# What cannot be installed is reported as not run.
peers: all
	@sh load/peers/install.sh build/peers_node $(T)
	@! $(HAS_NGINX) || $(MAKE) --no-print-directory $(NGINX_MODULE)
	@CATALOGD=$(BUILD)/catalogd PEERS_NODE=build/peers_node NGINX_MODULE=$(NGINX_MODULE) $(PEERS) $(T)

# Exits with 1 where ours does not keep what it promises.
lab: all $(CHAOS_SHIM)
	@sh load/deps.sh lab
	@CHAOS_SHIM=$(CHAOS_SHIM) $(LAB) $(T)

SOURCES = $(wildcard guard/*.c guard/*/*.c guard/*/*/*.c app/*.c app/*/*.c load/*.c load/*/*.c tests/*/*.c tests/live/*/*.c)
CPP = $(wildcard guard/*.hpp guard/example/*.cpp tests/install/*.cpp)
HEADERS = $(wildcard guard/*.h guard/*/*.h guard/*/*/*.h app/*.h app/*/*.h load/*/*.h tests/*/*.h tests/live/*/*.h)

# What is promised, and by which tests it is held.
promises:
	@sh tests/support/promises.sh

lint: $(GUARD_MADE) $(BUILD)/app_statements.h $(PAGES) nginx-headers
	@$(HAS_NGINX) || echo "  guard/nginx: SKIPPED, no $(NGINX_SRC)/configure"
	@sh load/deps.sh lint
	@sh load/deps.sh hosts
	@sh load/lint.sh
	$(or $(FORMATTER:%=% --dry-run -Werror $(SOURCES) $(HEADERS) $(CPP)),@echo "  the format: SKIPPED$(comma) $(NO_FORMATTER)")
	cppcheck --quiet -j $(LINT_JOBS) --std=c11 --enable=warning,portability,performance --inline-suppr --error-exitcode=1 \
	    $(CPPCHECK_OFF:%=--suppress=%) --include=/usr/include/utlist.h -D_GNU_SOURCE \
	    -DJSON_INTEGER_FORMAT='"lld"' '-D_Noreturn=__attribute__((noreturn))' $(filter -DGUARD_%,$(GUARD_CFLAGS)) \
	    -I. -I$(BUILD) -I$(GUARD_BUILD) -I$(GUARD_DIR) $(CHECKED)
	@rm -f $(BUILD)/tidy.*
	@echo "  clang-tidy, $(LINT_JOBS) at a time"
	@echo $(CHECKED) | $(HUGE_PAGES) xargs -P $(LINT_JOBS) -n 6 sh -c 'clang-tidy --quiet --warnings-as-errors="*" --checks="$(TIDY_CHECKS)" "$$@" -- \
	    -std=c11 -D_GNU_SOURCE $(filter -DGUARD_%,$(GUARD_CFLAGS)) -I. -I$(BUILD) -I$(GUARD_BUILD) -I$(GUARD_DIR) $(PACKAGE_CFLAGS) \
	    $(NGINX_INCLUDES) -Xclang -analyzer-config -Xclang max-nodes=$(LINT_STEPS) 2>$(BUILD)/tidy.$$$$ || \
	    { cat $(BUILD)/tidy.$$$$ >&2; exit 1; }' tidy

LINT_JOBS = $(shell nproc)
# In huge pages clang-tidy takes a fifth less CPU.
HUGE_PAGES = GLIBC_TUNABLES=glibc.malloc.hugetlb=1
# Steps through one function before the analyzer leaves it; its own 225000 takes three times as long.
LINT_STEPS ?= 75000
CHECKED = $(filter-out tests/% $(shell $(HAS_NGINX) || echo guard/nginx/%) $(shell $(HAS_H2O) || echo guard/example/h2oserver.c),$(SOURCES))
# Left out: what -Wconversion judges better, advice that does not fit C11, and the path-sensitive checks that
# stumble over the list macros of uthash.
TIDY_CHECKS := -*,bugprone-*,clang-analyzer-unix.*,clang-analyzer-deadcode.*,misc-redundant-expression
TIDY_CHECKS := $(TIDY_CHECKS),-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier
TIDY_CHECKS := $(TIDY_CHECKS),-bugprone-narrowing-conversions,-bugprone-implicit-widening-of-multiplication-result
TIDY_CHECKS := $(TIDY_CHECKS),-bugprone-not-null-terminated-result,-bugprone-sizeof-expression
# New by clang-tidy 19, and wrong here: pointers to pointers that qsort() and memcpy() take, a member found by its
# offset, `if ((x = f()) != 0)`, `*at++` in a condition, a switch over characters, what is cast to void, a descriptor
# that does not block.
TIDY_CHECKS := $(TIDY_CHECKS),-bugprone-multi-level-implicit-pointer-conversion,-bugprone-casting-through-void
TIDY_CHECKS := $(TIDY_CHECKS),-bugprone-assignment-in-if-condition,-bugprone-inc-dec-in-conditions
TIDY_CHECKS := $(TIDY_CHECKS),-bugprone-switch-missing-default-case,-bugprone-unused-return-value
TIDY_CHECKS := $(TIDY_CHECKS),-clang-analyzer-unix.BlockInCriticalSection
# It reads no header of the system, so what an #error is about is not known to it; the last one only says that it
# leaves a function early, as it does by default from 2.11 on.
CPPCHECK_OFF := missingIncludeSystem funcArgOrderDifferent ctuuninitvar uninitvar preprocessorErrorDirective \
	normalCheckLevelMaxBranches

format:
	@sh load/deps.sh lint
	$(or $(FORMATTER:%=% -i $(SOURCES) $(HEADERS) $(CPP)),@echo "make format: $(NO_FORMATTER)" >&2; exit 1)

# The format is that of this version: others lay the same lines out in other ways.
FORMAT_VERSION := 14
FORMATTER = $(shell for each in clang-format-$(FORMAT_VERSION) clang-format; do \
	$$each --version 2>/dev/null | grep -q 'version $(FORMAT_VERSION)\.' && echo $$each && break; done)
NO_FORMATTER = clang-format $(FORMAT_VERSION) is not here, and no other version has its format

# Further Debians, in build/world.
RELEASE ?= -
world empty-root:
	@sh load/deps.sh world
	@sh tests/world/world.sh $(RELEASE) $(if $(filter world,$@),$(or $(T),demo test guard machines),guard)

include .packaging/packaging.mk

amalgamation:
	sh guard/amalgamate.sh build/amalgamation

docs:
	@sh load/deps.sh docs
	sh guard/guide/docs.sh build/docs

# What a user's namespace has made there is not the user's to remove.
clean:
	@if [ -e build/world ]; then . tests/world/root.sh && remove_root build/world; fi
	rm -rf build

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile
