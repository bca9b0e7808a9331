/* SPDX-License-Identifier: MIT */
/*
 * copy_test.c - guard/ in another project: the folder alone, plain make, the host's own symbols and compilers.
 */
#include "load/base/net.h"
#include "load/stack/stack.h"
#include "tests/support/files.h"
#include "tests/support/herd_server.h"
#include "tests/support/test.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <unistd.h>

enum { BUILD_LIMIT_MS = 900000, WAIT_MS = 60000 };

static char folder[PROC_PATH_BYTES]; /* with a copy of guard/ */
static pid_t httpd;                  /* its children outlive one that is killed alone */
static struct stack_redis redis;     /* $REDIS in a command; empty before each test */

/* Runs a shell command in the folder; the output is shown if it fails. */
static bool shell(const char *command)
{
    char whole[2048];
    const char *argv[] = {"sh", "-ec", whole, NULL};
    const char *settings[] = {"MAKEFLAGS=", "MAKELEVEL=", "CFLAGS=-O0 -Wall -Werror", NULL};
    snprintf(whole, sizeof whole, "REDIS=%s; cd '%s'; %s", redis.url, folder, command);
    return proc_run(&(struct proc_options){.argv = argv, .settings = settings}, BUILD_LIMIT_MS);
}

static void write_file(const char *name, const char *text)
{
    char path[PROC_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file_write(path, text);
}

/* Without the libraries that only some locks and TLS need: those of the README's install line are enough. */
static bool copy_and_build(void)
{
    char command[PROC_PATH_BYTES + 64];
    const char *argv[] = {"sh", "-c", command, NULL};
    if (!proc_folder("copy", NULL, folder) || !stack_redis_start(&redis, NULL))
        return false;
    snprintf(command, sizeof command, "cp -r guard tests/install/hpp.cpp '%s/'", folder);
    if (!proc_run(&(struct proc_options){.argv = argv}, WAIT_MS))
        return false;
    return shell("make -C guard/example clean; make -j2 -C guard/example GUARD_LOCKS_WITH= GUARD_TLS=");
}

static bool remove_copy(void)
{
    proc_kill_tree(&httpd);
    stack_redis_stop(&redis);
    proc_remove(folder);
    return true;
}

static bool empty_cache(void)
{
    freeReplyObject(stack_redis_command(&redis, "FLUSHALL"));
    return true;
}

/* ---- the folder alone ---- */

static bool has(const char *program)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s >/dev/null", program);
    return shell(command);
}

/* In each of these kinds of C++: all uses of guard.hpp, over Redis. */
static void hpp_works(const char *compiler, const char *kinds)
{
    char command[768];
    snprintf(command, sizeof command,
             "for std in %s; do %s -std=$std -O1 -Wall "
             "-Wextra -Wpedantic -Wconversion -Wshadow -Werror -pthread -Iguard hpp.cpp -o hpp "
             "guard/example/build/libstampede-guard.a @guard/example/build/libs; "
             "redis-cli -u $REDIS flushall; timeout 60 ./hpp $REDIS; done",
             kinds, compiler);
    assert_true(shell(command));
}

TEST(guard_hpp_works_in_cpp17_and_cpp20_with_exceptions_and_without)
{
    hpp_works("g++", "c++17 'c++17 -fno-exceptions' c++20 'c++20 -fno-exceptions'");
}

TEST(guard_hpp_works_with_clang)
{
    if (!has("clang++"))
        test_skip("clang is not there");
    hpp_works("clang++", "'c++17 -fno-exceptions' c++20");
}

/* Those of C, which alone.o has, and those of each C++. */
static void defaults_are_the_same(const char *compiler)
{
    char command[256];
    snprintf(
        command, sizeof command,
        "for std in c++11 c++17 c++20; do %s -std=$std -Wall -Wextra -Wpedantic -Wshadow -Werror alone.cc "
        "alone.o -o defaults; ./defaults; done",
        compiler);
    assert_true(shell(command));
}

static const char HEADERS[] = "#include \"guard/locks.h\"\n#include \"guard/host.h\"\n";

TEST(the_headers_stand_alone_in_c_and_in_cpp_with_the_same_defaults, P147)
{
    char text[2048];
    snprintf(text, sizeof text,
             "%sstruct guard_config c_config = GUARD_CONFIG_DEFAULTS;\n"
             "struct guard_policy c_policy = GUARD_POLICY_DEFAULTS;\n"
             "struct guard_lock_request c_request = GUARD_LOCK_REQUEST_DEFAULTS;\n"
             "struct guard_locks_config c_locks = GUARD_LOCKS_CONFIG_DEFAULTS;\n",
             HEADERS);
    write_file("alone.c", text);
    snprintf(
        text, sizeof text,
        "%s#include <string.h>\n"
        "extern \"C\" {\nextern guard_config c_config;\nextern guard_policy c_policy;\n"
        "extern guard_lock_request c_request;\nextern guard_locks_config c_locks;\n}\n"
        "static guard_config config = GUARD_CONFIG_DEFAULTS;\n"
        "static guard_policy policy = GUARD_POLICY_DEFAULTS;\n"
        "static guard_lock_request request = GUARD_LOCK_REQUEST_DEFAULTS;\n"
        "static guard_locks_config locks = GUARD_LOCKS_CONFIG_DEFAULTS;\n"
        "template <class Text> static bool same(Text &a, Text &b)\n"
        "{ if (strcmp(a, b) != 0) return false; a = b; return true; }\n"
        "int main()\n{\n"
        "if (!same(config.redis_url, c_config.redis_url) ||\n"
        "!same(config.name_space, c_config.name_space) || !same(locks.name_space, c_locks.name_space))\n"
        "return 1;\n"
        "return memcmp(&config, &c_config, sizeof config) || memcmp(&policy, &c_policy, sizeof policy) ||\n"
        "memcmp(&request, &c_request, sizeof request) || memcmp(&locks, &c_locks, sizeof locks);\n}\n",
        HEADERS);
    write_file("alone.cc", text);
    /* uv.h names what is POSIX's */
    assert_true(shell("for std in c99 c11 c17; do cc -std=$std -Wall -Wextra -Wpedantic -Werror -c alone.c; "
                      "for adapter in guard/adapters/*.h; do cc -std=$std -D_GNU_SOURCE -Wall -Wextra "
                      "-Wpedantic -Wconversion "
                      "-Wshadow -Werror -Iguard $(pkgconf --cflags glib-2.0) -fsyntax-only -x c -include "
                      "$adapter /dev/null; done; done"));
    defaults_are_the_same("g++");
}

/* After the one above, whose sources these are. */
TEST(clang_has_nothing_to_say_of_the_headers)
{
    if (!has("clang++"))
        test_skip("clang is not there");
    defaults_are_the_same("clang++");
    assert_true(shell("clang -std=c99 -pedantic -Weverything -Wno-padded -Wno-declaration-after-statement "
                      "-Werror -fsyntax-only -x c -include guard/locks.h -include guard/host.h /dev/null"));
}

TEST(the_first_150_lines_are_enough_for_a_first_call, P147)
{
    assert_true(
        shell("head -n 150 guard/guard.h > first; for name in open kind_add load_key load_done load_fail "
              "get_wait value_unref invalidate_wait close; do grep -q \"^GUARD_API .*guard_$name(\" first; "
              "done"));
}

TEST(only_public_symbols_are_visible)
{
    assert_true(shell("nm --defined-only --extern-only guard/example/build/libstampede-guard.a >symbols; "
                      "grep -q ' T guard_open$' symbols; grep -q ' T guard_host_rang$' symbols; "
                      "if grep ' [A-Z] ' symbols | grep -v ' T guard_'; then exit 1; fi"));
}

TEST(one_file_does_the_work_of_the_folder, P100)
{
    assert_true(shell(
        "sh guard/amalgamate.sh one; cd one; "
        "test \"$(ls | tr '\\n' ' ')\" = 'adapters advanced.h guard.c guard.h guard.hpp host.h locks.h '; "
        "sed -n '/^```c$/,/^```$/{/^```/d;p}' ../guard/README.md >main.c; "
        "cc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fvisibility=hidden -c guard.c; "
        "objcopy --localize-hidden guard.o; "
        "nm --defined-only --extern-only guard.o >symbols; grep -q ' T guard_open$' symbols; "
        "if grep ' [A-Z] ' symbols | grep -v ' T guard_'; then exit 1; fi; "
        "cc -o main main.c guard.o -lhiredis -pthread; "
        "if ./main rediss://127.0.0.1:1 2>said; then exit 1; fi; grep -q 'with -DGUARD_WITH_TLS' said; "
        "test \"$(./main $REDIS)\" = 'hello user:7'; "
        "cc -std=c11 -DGUARD_WITH_TLS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only "
        "guard.c"));
}

TEST(a_copy_without_tls_says_so)
{
    assert_true(
        shell("if nm guard/example/build/libstampede-guard.a | grep -q ' U SSL_'; then exit 1; fi; "
              "sed -n '/^```c$/,/^```$/{/^```/d;p}' guard/README.md >server.c; cc -Iguard -o server server.c "
              "guard/example/build/libstampede-guard.a @guard/example/build/libs; "
              "if ./server rediss://127.0.0.1:1 2>said; then exit 1; fi; "
              "grep -q 'redis_url: rediss:// (TLS) is not built in' said"));
}

/* A program whose functions are called like ours inside. */
TEST(a_host_may_use_any_name_for_itself)
{
    write_file("host.c", "#include \"guard/guard.h\"\n"
                         "int redis_open(void); int redis_open(void) { return 1; }\n"
                         "int value_new(void); int value_new(void) { return 2; }\n"
                         "int core_new, flight_joined, run, load, subscription_open, key_encode;\n"
                         "int main(void) { struct guard *guard = 0; struct guard_config config = "
                         "GUARD_CONFIG_DEFAULTS; return guard_open(&config, &guard, 0) != GUARD_OK || "
                         "guard_close(&guard, 0) != GUARD_OK || redis_open() + value_new() != 3; }\n");
    assert_true(
        shell("cc -o host host.c guard/example/build/libstampede-guard.a -lhiredis -pthread; ./host"));
}

/* Nothing of the guard but what locks stand on; with TLS, and then in the same folder without. */
TEST(locks_may_be_copied_alone_into_a_makefile_that_keeps_its_goal_and_flags, P127)
{
    assert_true(
        shell("mkdir -p alone/guard/wire/scripts; cd alone; cp -r ../guard/guard.mk ../guard/guard.h "
              "../guard/advanced.h ../guard/host.h ../guard/locks.h "
              "../guard/adapters ../guard/base ../guard/redis ../guard/locks guard; cp "
              "../guard/wire/scripts/embed.sh guard/wire/scripts; cp ../guard/example/nightly.c .; "
              "printf 'GUARD_LOCKS_WITH =\nGUARD_DIR = guard\nGUARD_BUILD = out\ninclude guard/guard.mk\n"
              "CPPFLAGS += -Iguard\ngreet: ; @echo the first target\nnightly: nightly.o $(GUARD_LIB)\n"
              "\t$(CC) -o $@ $^ $(GUARD_LIBS)\n' >Makefile; test \"$(make)\" = 'the first target'; "
              "make -j2 nightly CFLAGS='-O0 -flto'; nm out/libstampede-guard.a >symbols; "
              "grep -q ' T guard_locks_open$' symbols; grep -q ' U SSL_new$' symbols; "
              "make -j2 nightly CFLAGS=-O0 GUARD_TLS=; "
              "if nm out/libstampede-guard.a | grep -q ' U SSL_'; then exit 1; fi; "
              "./nightly $REDIS | grep -q 'this host does it, fence [1-9]'"));
}

/* Locks' providers are folders: what is deleted is not built. */
TEST(a_copy_without_a_providers_folder_or_without_all_locks_builds)
{
    assert_true(shell(
        "mkdir fewer; cp -r guard fewer/; cd fewer; sed -n '/^```c$/,/^```$/{/^```/d;p}' guard/README.md "
        ">server.c; "
        "printf 'GUARD_TLS =\ninclude guard/guard.mk\nCPPFLAGS += -Iguard\nserver: server.o $(GUARD_LIB)\n"
        "\t$(CC) -o $@ $^ $(GUARD_LIBS)\n' >Makefile; "
        "builds() { rm -rf one; make -j2 CFLAGS=-O0; ./server redis://127.0.0.1:1 2>/dev/null; "
        "nm build/guard/libstampede-guard.a >symbols; sh guard/amalgamate.sh one; "
        "cc -std=c11 -O0 -Wall -Wextra -Wpedantic -Werror -fsyntax-only one/guard.c; }; "
        "rm -r guard/locks/postgres guard/locks/zookeeper guard/locks/redlock; builds; "
        "grep -q ' t lock_redis_open$' symbols; if grep 'PQ\\|zoo_\\|redlock' symbols; then exit 1; fi; "
        "rm -r guard/locks guard/locks.h build/guard/*.a; builds; if grep 'guard_lock' symbols; then exit 1; "
        "fi"));
}

/* ---- the README's own lines ---- */

/* The program, the Makefile and nothing else, in a folder that has the copy where the README says. */
static void follow_the_readme(void)
{
    assert_true(shell(
        "rm -rf nothing; mkdir -p nothing/third_party; cp -r guard nothing/third_party/; "
        "rm -rf nothing/third_party/guard/example; cd nothing; "
        "block() { sed -n \"/^\\`\\`\\`$1\\$/,/^\\`\\`\\`\\$/{/^\\`\\`\\`/d;p}\" ../guard/README.md; }; "
        "block c >server.c; block make >Makefile; block sh >install; "
        "grep -q guard_get_wait server.c; grep -q guard.mk Makefile; "
        "test \"$(cut -d' ' -f1,2 install)\" = 'apt-get install'"));
}

TEST(the_lines_of_the_readme_build_its_program_from_nothing, P100)
{
    follow_the_readme();
    assert_true(shell("cd nothing; env -i PATH=\"$PATH\" make -j2 CFLAGS=-O0"));
    /* With all that is installed here linked in, a recipe is built by the line of the cookbook. */
    assert_true(
        shell("cd nothing; awk -v to=. -f ../guard/guide/recipes.awk ../guard/guide/cookbook.md >list; "
              "mv threads.c recipe.c; $(sed -n 's/^`\\(cc -I [^`]*\\)` builds one.*/\\1/p' "
              "../guard/guide/cookbook.md) -o recipe; ldd recipe | grep -q libssl; rm *.prints"));
    /* The second time from the cache, and then without a Redis, which it says. */
    assert_true(shell("cd nothing; for run in 1 2; do "
                      "test \"$(./server $REDIS 2>said)\" = 'hello user:7'; test ! -s said; done; "
                      "test \"$(./server redis://127.0.0.1:1 2>said)\" = 'hello user:7'; cat said; "
                      "grep -q '^stampede-guard first: redis ' said"));
}

/* Every header that the folder includes comes from a package of the install line or with a C compiler. */
TEST(the_install_line_of_the_readme_has_all_that_is_included, P100)
{
    if (!has("dpkg"))
        test_skip("dpkg is not there");
    follow_the_readme();
    assert_true(
        shell("cd nothing; sh third_party/guard/amalgamate.sh one; "
              "cc -std=c11 -M one/guard.c server.c -Ithird_party/guard | tr ' ' '\\n' | grep "
              "'^/usr/include/' | sort -u >headers; "
              "grep -q uthash.h headers; "
              "dpkg -S $(cat headers) | cut -d: -f1 | sort -u >packages; "
              "for package in $(cat packages); do case \"$package \" in "
              "libc6-dev*|linux-libc-dev*|libgcc-*-dev*) continue;; esac; "
              "grep -q \" $package\\( \\|$\\)\" install || { echo \"the install line lacks $package\"; exit "
              "1; }; done; "
              "grep -q ' build-essential ' install"));
}

/* By the lines of its own head, without locks. What the project installs is the project's alone. */
TEST(cmake_builds_a_program_with_the_target_guard)
{
    follow_the_readme();
    assert_true(shell("cd nothing; rm -r third_party/guard/locks third_party/guard/locks.h; { echo "
                      "'cmake_minimum_required(VERSION 3.16)'; echo 'project(server C)'; "
                      "echo 'add_executable(server server.c)'; "
                      "sed -n 's/^#     //p' third_party/guard/CMakeLists.txt; } >CMakeLists.txt; "
                      "export CFLAGS=-O0; cmake -S . -B out >said; cmake --build out -j2 >said; "
                      "test \"$(out/server rediss://127.0.0.1:1 2>/dev/null)\" = 'hello user:7'; "
                      "cmake --install out --prefix $PWD/put >said; test ! -e put; "
                      "nm --defined-only --extern-only out/third_party/guard/libstampede-guard.a >symbols; "
                      "grep -q ' T guard_open$' symbols; if grep ' [A-Z] ' symbols | grep -v ' T guard_'; "
                      "then exit 1; fi"));
}

/* The shared library of it, installed, and found by a project that has no copy. */
TEST(cmake_installs_a_shared_library_that_cmake_and_pkg_config_find, P164)
{
    assert_true(shell(
        "export CFLAGS=-O0; cmake -S guard -B shared -DBUILD_SHARED_LIBS=ON >said; cmake --build shared -j2 "
        ">said; cmake --install shared --prefix $PWD/cmade >said; mkdir user; cd user; "
        "sed -n '/^```c$/,/^```$/{/^```/d;p}' ../guard/README.md >server.c; "
        "{ echo 'cmake_minimum_required(VERSION 3.18)'; echo 'project(server C)'; "
        "echo 'find_package(stampede-guard 0.3 REQUIRED)'; echo 'add_executable(server server.c)'; "
        "echo 'target_link_libraries(server PRIVATE stampede-guard::guard)'; } >CMakeLists.txt; "
        "cmake -S . -B out -DCMAKE_PREFIX_PATH=$PWD/../cmade >said; cmake --build out >said; "
        "test \"$(out/server redis://127.0.0.1:1 2>/dev/null)\" = 'hello user:7'; "
        "readelf -dW out/server >said; grep -q 'NEEDED.*libstampede-guard.so.0.3' said; "
        "PKG_CONFIG_PATH=$PWD/../cmade/lib/pkgconfig pkg-config --exact-version=$(sed -n "
        "'s/.*GUARD_VERSION \"\\(.*\\)\"/\\1/p' ../guard/guard.h) stampede-guard"));
}

/* ---- the examples ---- */

TEST(the_example_in_cpp_compiles_without_a_warning_and_runs)
{
    assert_true(shell("make -C guard/example raii CXXFLAGS='-O0 -Werror' GUARD_LOCKS_WITH= GUARD_TLS=; "
                      "test \"$(guard/example/raii $REDIS)\" = 'hello user:7, and no other'"));
}

TEST(an_example_whose_library_is_missing_is_named_and_left_out)
{
    assert_true(
        shell("make -C guard/example GUARD_LOCKS_WITH= GUARD_TLS= CXX=/nowhere LIBS_h2oserver=-lnowhere "
              "LIBS_civetserver=-lnowhere >said; test \"$(grep -c '^left out: ' said)\" = 3; "
              "grep -q '^left out: civetserver, which needs libcivetweb-dev$' said; "
              "grep -q '^left out: h2oserver, which needs libh2o-dev libssl-dev$' said; "
              "grep -q '^left out: raii, which needs g++$' said"));
}

/* ---- the guide ---- */

/* Each recipe is built and run, and prints what stands below it. */
TEST(every_recipe_of_the_cookbook_prints_what_it_shows, P147)
{
    struct stack_postgres postgres = {.pid = 0};
    char command[1024];
    assert_true(stack_postgres_start(&postgres, 10));
    assert_true(
        shell("mkdir -p recipes; cd recipes; "
              "awk -v to=. -f ../guard/guide/recipes.awk ../guard/guide/cookbook.md >list; "
              "test $(wc -l <list) -ge 12; "
              "while read -r name needs; do compile='cc -std=gnu11'; "
              "[ ! -f $name.cpp ] || compile='g++ -std=c++20'; "
              "$compile -Wall -Wextra -Werror -I../guard -isystem /usr/include/postgresql "
              "-o $name $name.c* ../guard/example/build/libstampede-guard.a @../guard/example/build/libs "
              "-lmicrohttpd -lpq -luv; done <list"));
    snprintf(
        command, sizeof command,
        "cd recipes; while read -r name needs; do "
        "database=; [ $needs = 0 ] || database='%s'; "
        "timeout 60 ./$name $REDIS $database >$name.said </dev/null || { echo \"$name fails\"; exit 1; }; "
        "diff $name.prints $name.said || { echo \"$name prints something else\"; exit 1; }; done <list",
        postgres.url);
    assert_true(shell(command));
    stack_postgres_stop(&postgres);
}

/* By the lines of the cookbook. */
static const char BUILD_FOR_APACHE[] =
    "mkdir -p apache/third_party apache/build apache/modules; cd apache\n"
    "ln -s ../../guard third_party/guard; ln -s ../../guard/example/build build/guard\n"
    "awk -v to=. -f ../guard/guide/recipes.awk ../guard/guide/cookbook.md >list\n"
    "sed -n '/^## Apache/,/^## Batch/p' ../guard/guide/cookbook.md >page\n"
    "block() { sed -n \"/^\\`\\`\\`$1\\$/,/^\\`\\`\\`\\$/{/^\\`\\`\\`/d;p}\" page; }\n"
    "block sh | sed 's/^cc/& -Wall -Wextra -Werror/' >build.sh; sh -e build.sh; mv mod_guard.so modules/\n"
    "{ block apache | sed \"s|redis://.*|$REDIS|; s|:8080|:$ORIGIN|\"; cat <<END\n"
    "ServerName localhost\nDefaultRuntimeDir $PWD\nPidFile pid\nErrorLog error.log\n"
    "Listen 127.0.0.1:$PORT\nDocumentRoot /\nKeepAlive Off\n"
    "StartServers $SERVERS\nServerLimit $SERVERS\nMaxRequestWorkers $WORKERS\n"
    "END\n"
    "for name in mpm_$MPM authz_core log_forensic; do "
    "echo LoadModule ${name}_module /usr/lib/apache2/modules/mod_$name.so; done; echo ForensicLog forensic\n"
    "[ $(id -u) != 0 ] || printf 'User nobody\\nGroup nogroup\\n'; } >httpd.conf\n";

/* The origin stands still until every worker of httpd waits for it. */
static const char BURST[] =
    "cd apache; kill -STOP $ORIGIN_PID; timeout 60 sh -c 'until [ -s pid ]; do sleep 0.05; done'\n"
    "curl -sS -m 60 -Z --parallel-immediate --parallel-max 100 -o 'got.#1' "
    "\"http://127.0.0.1:$PORT/typed?[1-100]\" & curl=$!\n"
    "timeout 60 sh -c \"until [ \\$(grep -c '^+' forensic) -ge $WORKERS ]; do sleep 0.05; done\"\n"
    "kill -CONT $ORIGIN_PID; wait $curl\n"
    "for i in $(seq 100); do test \"$(cat got.$i)\" = typed; done\n";

static const char FURTHER[] =
    "cd apache; url=http://127.0.0.1:$PORT\n"
    "says() { said=$(curl -s -m 30 -o body -w '%{http_code} %{content_type} %{size_download}' \"$@\"); "
    "case $said in \"$expected\"*) ;; *) echo \"$*: $said\"; exit 1;; esac; }\n"
    "expected='200 text/x-typed 5'; says $url/typed; expected='200 text/x-typed 0'; says -I $url/typed\n"
    "expected='404 application/octet-stream 4'; says $url/status/404; says $url/status/404\n"
    "expected='503 '; says $url/status/500; says $url/status/500\n"
    "expected='4'; says $url/$(printf %05000d 0)\n";

/* What of it is left for each MPM. */
static void apache_does(const char *settings, const char *script)
{
    char command[1024];
    write_file("script", script);
    snprintf(command, sizeof command, "export REDIS %s; sh -e script", settings);
    assert_true(shell(command));
}

static void apache_serves(const char *mpm, unsigned servers, unsigned workers, int end_signal)
{
    char site[PROC_PATH_BYTES + 64], settings[256];
    struct herd_server origin;
    unsigned port = net_free_port();
    if (access("/usr/include/apache2/httpd.h", R_OK) != 0)
        test_skip("apache2-dev is not there");
    assert_true(herd_server_start(&origin));
    snprintf(settings, sizeof settings, "PORT=%u ORIGIN=%u ORIGIN_PID=%d MPM=%s SERVERS=%u WORKERS=%u", port,
             (unsigned)origin.ports[HERD_SERVER_HTTP], (int)origin.pid, mpm, servers, workers);
    snprintf(site, sizeof site, "%s/apache", folder);
    const char *argv[] = {"/usr/sbin/apache2", "-d", site, "-f", "httpd.conf", "-DFOREGROUND", NULL};
    proc_remove(site);
    apache_does(settings, BUILD_FOR_APACHE);
    proc_kill_tree(&httpd);
    httpd = proc_start(&(struct proc_options){.argv = argv});
    assert_true(httpd != -1);
    apache_does(settings, BURST);
    assert_int_equal(atomic_load(&origin.seen->requests[HERD_SERVER_HTTP]), 1);
    apache_does(settings, FURTHER);
    assert_int_equal(atomic_load(&origin.seen->requests[HERD_SERVER_HTTP]), 3);
    assert_true(proc_stop(&httpd, end_signal, WAIT_MS));
    apache_does(settings, "if grep -i 'signal [^S]*Seg\\|:crit\\]\\|:emerg\\]\\|:alert\\]\\|SIGKILL' "
                          "apache/error.log; then exit 1; fi\n");
    herd_server_stop(&origin);
}

TEST(the_module_for_apache_loads_a_page_once_under_mpm_event)
{
    apache_serves("event", 4, 100, SIGWINCH);
}

/* Each of its processes has one request at a time; SIGTERM ends it inside a handler. */
TEST(the_module_for_apache_loads_a_page_once_under_prefork)
{
    apache_serves("prefork", 20, 20, SIGTERM);
}

/* docs.sh refuses what leads nowhere; so does this, if it no longer does. */
TEST(no_link_of_the_guide_leads_nowhere, P147)
{
    assert_true(shell("sh guard/guide/docs.sh pages; test -s pages/index.html; test -s pages/reference.html; "
                      "grep -q 'href=\"reference.html#guard_get\"' pages/index.html"));
    assert_true(
        shell("mkdir wrong; cp -r guard wrong/; cd wrong/guard/guide; "
              "echo '[nowhere](#nowhere)' >>guide.md; if sh docs.sh ../../pages 2>said; then exit 1; fi; "
              "grep -q 'index.html links to index.html#nowhere' said; "
              "sed '$s/.*/`guard_nothing()`/' guide.md >guide.new; mv guide.new guide.md; "
              "if sh docs.sh ../../pages 2>said; then exit 1; fi; grep -q 'names guard_nothing()' said"));
}

TEST_GROUP(.up = copy_and_build, .down = remove_copy, .before = empty_cache);
