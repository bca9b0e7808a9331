/* SPDX-License-Identifier: MIT */
/*
 * package_test.c - what `make install` leaves, as those use it who have only that: programs, library, manuals,
 * completion.
 *
 * Of the plain build, whichever variant this test is of: nobody installs a sanitizer.
 */
#include "load/stack/stack.h"
#include "tests/support/test.h"

enum { BUILD_LIMIT_MS = 900000 };

static char folder[PROC_PATH_BYTES]; /* own/: what was installed; the rest is the tests' */
static struct stack_redis redis;

/*
 * Runs a shell command here, in the project; $T is the folder, $U what is installed in it, $REDIS a URL. "not" is for
 * what must not be: set -e does not see a "!".
 */
static bool shell(const char *command)
{
    char whole[4096];
    const char *argv[] = {"bash", "-euo", "pipefail", "-c", whole, NULL};
    const char *settings[] = {"MAKEFLAGS=", "MAKELEVEL=", NULL};
    snprintf(whole, sizeof whole,
             "unset CFLAGS LDFLAGS CC SAN BUILD WERROR T CATALOGD\nREDIS=%s; T='%s'; U=$T/own\n"
             "not() { if \"$@\"; then echo \"holds, but must not: $*\" >&2; return 1; fi; }\n"
             "export PKG_CONFIG_PATH=$U/lib/pkgconfig LD_LIBRARY_PATH=$U/lib\n%s",
             redis.url, folder, command);
    return proc_run(&(struct proc_options){.argv = argv, .settings = settings}, BUILD_LIMIT_MS);
}

static bool install(void)
{
    return proc_folder("package", NULL, folder) && stack_redis_start(&redis, NULL) &&
           shell("make -j2 install PREFIX=$T/own; cd $T; "
                 "sed -n '/^```c$/,/^```$/{/^```/d;p}' $OLDPWD/guard/README.md >server.c");
}

static bool remove_all(void)
{
    stack_redis_stop(&redis);
    proc_remove(folder);
    return true;
}

/* ---- make install ---- */

TEST(an_install_builds_nothing_that_is_fresh_and_an_uninstall_leaves_only_the_settings, P164)
{
    assert_true(shell("mkdir -p $T/again/etc/catalogd; echo ours >$T/again/etc/catalogd/catalogd.env; "
                      "make install DESTDIR=$T/again PREFIX=/usr; "
                      "(cd build; [ -z \"$(find man gcc/guard gcc/installed gcc/stampede -type f -newer "
                      "$T/server.c)\" ]); "
                      "diff <(cd $U; find . -not -path './etc*') <(cd $T/again/usr; find .); "
                      "make uninstall DESTDIR=$T/again PREFIX=/usr; cd $T/again; "
                      "[ \"$(find . -type f -o -type l | sort | tr '\\n' ' ')\" = "
                      "'./etc/catalogd/catalogd.env ./etc/logrotate.d/catalogd ' ]; "
                      "[ \"$(cat etc/catalogd/catalogd.env)\" = ours ]; "
                      "[ -z \"$(find . -name '*stampede*')\" ]"));
}

TEST(each_place_can_be_chosen)
{
    assert_true(
        shell("make install DESTDIR=$T/chosen PREFIX=/usr BINDIR=/b LIBDIR=/usr/lib/here INCLUDEDIR=/i "
              "SYSCONFDIR=/e UNITDIR=/u MANDIR=/m; cd $T/chosen; ls b/catalogd i/stampede-guard/guard.h "
              "i/stampede-guard/guard.hpp "
              "e/catalogd/catalogd.env u/catalogd.socket m/man8/catalogd.8 usr/lib/here/libstampede-guard.a; "
              "unset LD_LIBRARY_PATH; b/fleetlock --help >help; b/catalogd --help >help; "
              "grep -q '^ExecStart=/b/catalogd' u/catalogd.service; "
              "grep -q '^EnvironmentFile=/e/catalogd/catalogd.env' u/catalogd.service; "
              "grep -qx 'includedir=/i' usr/lib/here/pkgconfig/stampede-guard.pc; "
              "grep -qx 'libdir=${prefix}/lib/here' usr/lib/here/pkgconfig/stampede-guard.pc; "
              "not grep -rnI '@[A-Z_]*@' ."));
}

/* ---- the library ---- */

TEST(the_shared_library_shows_what_its_headers_declare_and_nothing_else, P164)
{
    assert_true(
        shell("nm -D --defined-only $U/lib/libstampede-guard.so | sed -n 's/.* T \\([a-z_]*\\)@@.*/\\1/p' | "
              "sort >$T/shown; cd $U/include/stampede-guard; "
              "sed -n 's/^GUARD_API [^(]*[ *]\\(guard_[a-z_]*\\)(.*/\\1/p' *.h | sort >$T/declared; "
              "[ $(wc -l <$T/declared) = $(cat *.h | grep -c '^GUARD_API') ]; diff $T/declared $T/shown; "
              "[ $(nm -D --defined-only $U/lib/libstampede-guard.so | grep -vc ' A ') = "
              "$(wc -l <$T/declared) ]"));
}

TEST(the_shared_library_has_a_soname_and_stays_in_memory, P164)
{
    assert_true(shell("version=$(sed -n 's/.*GUARD_VERSION \"\\(.*\\)\"/\\1/p' guard/guard.h); "
                      "readelf -dW $U/lib/libstampede-guard.so >$T/dynamic; "
                      "grep -q \"SONAME.*\\[libstampede-guard.so.${version%.*}\\]\" $T/dynamic; "
                      "grep -q NODELETE $T/dynamic; not grep -q 'TEXTREL\\|RPATH\\|RUNPATH' $T/dynamic; "
                      "[ \"$(readlink -f $U/lib/libstampede-guard.so)\" = "
                      "\"$(readlink -f $U)/lib/libstampede-guard.so.$version\" ]"));
}

/* Whoever only caches gets neither the locks' client libraries nor what those need. */
TEST(each_part_needs_only_what_it_uses)
{
    assert_true(shell(
        "needs() { said=$(readelf -dW $1 | sed -n 's/.*NEEDED.*\\[\\(lib[a-z_-]*\\)[0-9.]*so.*/\\1/p' | "
        "sort | tr '\\n' ' '); [ \"$said\" = \"$2 \" ] || { echo \"$1: $said\"; exit 1; }; }; "
        "cd $U; P=lib/stampede-guard/0.3; "
        "needs lib/libstampede-guard.so 'libc libcrypto libhiredis libssl'; "
        "needs $P/postgres.so 'libc libpq'; needs $P/zookeeper.so 'libc libzookeeper_mt'; "
        "needs bin/fleetlock 'libc libstampede-guard'; "
        "ldd lib/libstampede-guard.so bin/fleetlock >$T/said; "
        "not grep -q 'not found\\|zookeeper\\|libpq\\|krb5\\|ldap' $T/said; "
        "for plugin in $P/*; do [ \"$(nm -D --defined-only $plugin)\" = "
        "\"$(nm -D $plugin | grep ' guard_lock_plugin$')\" ]; done"));
}

/* Where the service's libraries are not to be found: a pkg-config that does not know them, and no way to install
 * any. */
TEST(the_library_is_installed_alone_without_what_the_service_needs)
{
    assert_true(shell(
        "mkdir $T/less; printf '#!/bin/sh\\ncase \"$*\" in "
        "*microhttpd*|*jansson*|*systemd*|*cmocka*|*libpq*) "
        "exit 1 ;; esac\\nexec %s \"$@\"\\n' $(command -v pkg-config) >$T/less/pkg-config; "
        "printf '#!/bin/sh\\nexit 1\\n' >$T/less/apt-get; chmod +x $T/less/*; "
        "PATH=$T/less:$PATH make -j2 install-lib BUILD=$T/less/build CFLAGS=-O0 GUARD_LOCKS_WITH= "
        "PREFIX=$T/lib; "
        "not grep -qw 'libmicrohttpd-dev\\|libjansson-dev\\|libpq-dev\\|libsystemd-dev\\|libcmocka-dev' "
        "<(sh load/deps.sh --list library); cd $T; "
        "diff <(cd lib; find . -type f | sort) <(cd own; find include lib -type f -not -path '*/systemd/*' "
        "-not "
        "-path "
        "'*/0.3/*' | sed 's|^|./|' | sort); "
        "export PKG_CONFIG_PATH=$T/lib/lib/pkgconfig LD_LIBRARY_PATH=$T/lib/lib; "
        "cc -o alone server.c $(pkg-config --cflags --libs stampede-guard); "
        "[ \"$(./alone redis://127.0.0.1:1 2>/dev/null)\" = 'hello user:7' ]"));
}

/* ---- plug-ins, by fleetlock as it is installed ---- */

/* A copy, in which plug-ins come and go. `refused` PROVIDER TEXT: it ends with 64 and says that. */
#define FLEETLOCK                                                                                            \
    "rm -rf $T/plugged; cp -r $U $T/plugged; P=$T/plugged/lib/stampede-guard/0.3; unset LD_LIBRARY_PATH; "   \
    "refused() { s=0; $T/plugged/bin/fleetlock x --provider $1 --url x:y -- true 2>$T/said || s=$?; "        \
    "[ $s = 64 ] && grep -q \"$2\" $T/said || { cat $T/said; exit 1; }; }; "

TEST(a_plug_in_is_opened_when_a_lock_is_asked_of_its_server)
{
    struct stack_postgres postgres = {.pid = 0};
    char command[1024];
    assert_true(stack_postgres_start(&postgres, 10));
    snprintf(command, sizeof command,
             FLEETLOCK "[ \"$($T/plugged/bin/fleetlock x --provider postgres --url '%s' -- sh -c "
                       "'echo $FLEETLOCK_FENCE')\" = 1 ]; refused zookeeper 'must be host:port'",
             postgres.url);
    assert_true(shell(command));
    stack_postgres_stop(&postgres);
}

TEST(a_plug_in_that_is_missing_is_named_with_its_package_and_looked_for_nowhere_else)
{
    assert_true(shell(
        FLEETLOCK "rm -r $P; cd $U/lib/stampede-guard/0.3; export LD_LIBRARY_PATH=$PWD; "
                  "refused postgres 'postgres is not installed: package libstampede-guard0.3-postgres'; "
                  "refused zookeeper 'zookeeper is not installed: package libstampede-guard0.3-zookeeper'; "
                  "grep -q \"there is no $P/zookeeper.so\" $T/said"));
}

TEST(a_plug_in_of_another_version_or_of_none_is_refused_by_name)
{
    assert_true(shell(
        FLEETLOCK "cd $P; plug() { cc -shared -fPIC -o postgres.so -xc - <<<\"$1\"; }; "
                  "plug 'struct { const char *version; void *open; } guard_lock_plugin = {\"0.3.99\", 0};'; "
                  "refused postgres 'postgres is of version 0.3.99, and this library of 0.3.0'; "
                  "plug 'int nothing;'; refused postgres 'postgres is of version none'; "
                  "echo >postgres.so; refused postgres \"postgres cannot be loaded: $P/postgres.so\""));
}

/* Whoever chooses the current folder would choose the plug-in. */
TEST(a_library_that_was_loaded_by_a_relative_path_opens_no_plug_in)
{
    assert_true(shell(FLEETLOCK "cd $T/plugged/lib; export LD_LIBRARY_PATH=.; "
                                "refused postgres 'load that by an absolute path'"));
}

/* ---- pkg-config and CMake ---- */

/* Nothing but the library is named, and nothing but the library is needed by the program itself. */
TEST(pkg_config_links_a_program_with_the_shared_library, P164)
{
    assert_true(
        shell("g++ -o $T/raii guard/example/raii.cpp $(pkg-config --cflags --libs stampede-guard); cd $T; "
              "[ \"$(./raii $REDIS)\" = 'hello user:7, and no other' ]; "
              "[ \"$(pkg-config --libs-only-l stampede-guard)\" = '-lstampede-guard ' ]; "
              "cc -std=c11 -Wall -Werror -o shared server.c $(pkg-config --cflags --libs stampede-guard); "
              "readelf -dW shared >needed; grep -q 'NEEDED.*libstampede-guard.so.0.3' needed; "
              "not grep -q 'NEEDED.*\\(libuv\\|hiredis\\)' needed; "
              "[ \"$(./shared $REDIS 2>said)\" = 'hello user:7' ]; not [ -s said ]"));
}

TEST(pkg_config_links_a_program_with_the_archive, P164)
{
    assert_true(
        shell("cd $T; cc -std=c11 -o archive server.c $(pkg-config --cflags --libs --static stampede-guard "
              "| sed 's/-lstampede-guard/-l:libstampede-guard.a/'); "
              "readelf -dW archive >needed; not grep -q 'NEEDED.*stampede' needed; "
              "unset LD_LIBRARY_PATH; [ \"$(./archive $REDIS 2>said)\" = 'hello user:7' ]; not [ -s said ]"));
}

/* In one folder, so that the compiler is looked at once. */
TEST(cmake_finds_what_is_installed_if_it_is_of_this_version, P164)
{
    assert_true(shell(
        "mkdir $T/cmake; cd $T/cmake; cp ../server.c .; "
        "printf 'cmake_minimum_required(VERSION 3.18)\\nproject(server C)\\n"
        "find_package(stampede-guard ${WANTED} REQUIRED)\\nadd_executable(server server.c)\\n"
        "target_link_libraries(server PRIVATE stampede-guard::guard)\\n' >CMakeLists.txt; "
        "export CMAKE_PREFIX_PATH=$U; cmake -S . -B out -DWANTED= >said; cmake -S . -B out -DWANTED=0.3 "
        ">said; "
        "cmake --build out >said; [ \"$(out/server redis://127.0.0.1:1 2>/dev/null)\" = 'hello user:7' ]; "
        "for other in 0.1 0.4 0.3.99 1; do "
        "not cmake -S . -B out -DWANTED=$other 2>said; grep -q 'compatible' said; done"));
}

/* ---- programs, manuals, completion ---- */

/* So does what names the packages. */
TEST(every_program_tells_its_version, P165)
{
    assert_true(shell("version=$(sed -n 's/.*GUARD_VERSION \"\\(.*\\)\"/\\1/p' guard/guard.h); "
                      "cd .packaging/debian; head -n 1 changelog | grep -q \"^stampede-guard ($version-\"; "
                      "grep -q \"^Package: libstampede-guard${version%.*}$\" control; "
                      "head -n 1 *.symbols | grep -q \"^libstampede-guard.so.${version%.*} \"; "
                      "for program in catalogd fleetlock stampede; do "
                      "[ \"$($U/bin/$program --version)\" = \"$program $version\" ]; done"));
}

/* From an empty folder: its scenario, its schema and catalogd are found beside it. */
TEST(an_installed_tester_plays_its_scenarios, P164)
{
    assert_true(
        shell("mkdir $T/elsewhere; cd $T/elsewhere; "
              "$U/bin/stampede demo --requests 20 --scale 100 --delay 20 >said || { cat said; exit 1; }; "
              "ls demo.json demo.html"));
}

TEST(every_option_that_help_names_is_in_the_manual, P165)
{
    assert_true(shell("has() { man -P cat -l $1 2>/dev/null | col -b >$T/page; shift; "
                      "\"$@\" --help | grep -oE -e '(^| )--[a-z][a-z-]+' | tr -d ' ' | sort -u >$T/options; "
                      "[ -s $T/options ]; while read -r option; do grep -qF -e \"$option\" $T/page || "
                      "{ echo \"$1: the manual has no $option\"; exit 1; }; done <$T/options; }; "
                      "has $U/share/man/man8/catalogd.8 $U/bin/catalogd; "
                      "has $U/share/man/man8/catalogd.8 $U/bin/catalogd check; "
                      "has $U/share/man/man1/fleetlock.1 $U/bin/fleetlock; "
                      "has $U/share/man/man1/stampede.1 $U/bin/stampede; "
                      "has $U/share/man/man5/stampede-scenario.5 $U/bin/stampede scenario"));
}

TEST(groff_and_mandoc_find_nothing_wrong_with_a_manual, P165)
{
    assert_true(
        shell("for page in $U/share/man/man*/*; do "
              "LC_ALL=C.UTF-8 MANWIDTH=80 MANROFFSEQ= man --warnings -E UTF-8 -l $page 2>&1 >/dev/null | "
              "tee $T/said; not [ -s $T/said ]; mandoc -T lint -W warning $page; done; "
              "[ $(ls $U/share/man/man*/* | wc -l) = 8 ]"));
}

TEST(bash_completes_options_values_and_commands, P165)
{
    assert_true(shell(
        "completes() { want=$1; shift; said=$(PATH=$U/bin:$PATH bash .packaging/completion/complete.bash "
        "$U/share/bash-completion/completions/$1 \"$@\" | sort -u | tr '\\n' ' '); "
        "[ \"$said\" = \"$want \" ] || { echo \"$*: $said\"; exit 1; }; }; "
        "completes '--fresh-ms' catalogd --fr; completes 'fleet local off shadow' catalogd --guard-mode ''; "
        "completes 'postgres' fleetlock --provider p; completes '--of --on-lost' fleetlock --o; "
        "completes 'redlock' fleetlock name --provider redl; completes '--burst' stampede --bur; "
        "completes 'check' catalogd ch; completes '--version' catalogd check --vers; "
        "completes '--fresh-ms' catalogd check --fr; completes 'scenario' stampede sc; completes '--help "
        "--html' stampede scenario --h"));
}

/* ---- make dist ---- */

TEST(the_same_commit_makes_the_same_tarball, P165)
{
    assert_true(shell("make dist DIST=$T/one; make dist DIST=$T/two; "
                      "not env GIT_DIR=/nowhere make dist DIST=$T/none 2>$T/said; cd $T; not ls none/*; "
                      "[ $(ls one | wc -l) = 1 ]; cmp one/* two/*; "
                      "tar -tf one/* >list; grep -q '^stampede-guard-[0-9.]*/guard/guard.h$' list"));
}

/* ---- what it is built with ---- */

TEST(a_library_that_is_too_old_stops_the_build_with_a_line_that_names_it_and_what_is_needed)
{
    assert_true(shell(
        "mkdir $T/old; printf 'Name: libuv\\nDescription: old\\nVersion: 1.9\\n' >$T/old/libuv.pc; "
        "for install in yes no; do "
        "! PKG_CONFIG_PATH=$T/old DEPS_INSTALL=$install make BUILD=$T/old 2>$T/said; "
        "[ \"$(grep -vci '^make' $T/said)\" = 1 ]; "
        "grep -qx 'libuv1-dev: libuv 1.44 or later is needed, and pkg-config knows 1.9' $T/said; done"));
}

TEST(where_nothing_can_be_installed_one_line_names_all_that_is_missing)
{
    assert_true(shell(
        "mkdir $T/few; for tool in sh tr grep sed awk; do ln -s $(command -v $tool) $T/few; done; "
        "! PATH=$T/few sh load/deps.sh build 2>$T/said; [ \"$(wc -l <$T/said)\" = 1 ]; "
        "grep -q '^Packages are missing .*: gcc, pkgconf, openssl, redis-server; apt-get install ' $T/said"));
}

TEST_GROUP(.up = install, .down = remove_all);
