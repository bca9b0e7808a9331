/* SPDX-License-Identifier: MIT */
/*
 * copy_test.c - guard/ in another project: the folder alone, plain make, the host's own symbols and compilers.
 */
#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/base/net.h"
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUILD_LIMIT_MS = 150000, WAIT_MS = 10000, CLIENTS = 60 };

static char folder[PROC_PATH_BYTES]; /* with a copy of guard/ */

/* Runs a shell command in the folder; the output is shown if it fails. */
static bool shell(const char *command)
{
    char whole[2048];
    const char *argv[] = {"sh", "-ec", whole, NULL};
    const char *settings[] = {"MAKEFLAGS=", "MAKELEVEL=", "CFLAGS=-O1 -Wall -Werror", NULL};
    snprintf(whole, sizeof whole, "cd '%s'; %s", folder, command);
    return proc_run(&(struct proc_options){.argv = argv, .settings = settings}, BUILD_LIMIT_MS);
}

static void write_file(const char *name, const char *text)
{
    char path[PROC_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Without the libraries that only some locks and TLS need: those of the README's install line are enough. */
static bool copy_and_build(void)
{
    char command[PROC_PATH_BYTES + 64];
    const char *argv[] = {"sh", "-c", command, NULL};
    if (!proc_folder("copy", NULL, folder))
        return false;
    snprintf(command, sizeof command, "cp -r guard '%s/'", folder);
    if (!proc_run(&(struct proc_options){.argv = argv}, WAIT_MS))
        return false;
    return shell("make -C guard/example clean; make -j2 -C guard/example GUARD_LOCKS_WITH= GUARD_TLS=");
}

static bool remove_copy(void)
{
    proc_remove(folder);
    return true;
}

/* ---- the folder alone ---- */

TEST(the_header_stands_alone_in_c99_c11_and_cpp)
{
    write_file(
        "alone.c",
        "#include \"guard/locks.h\"\n#include \"guard/host.h\"\nint main(void) { struct guard_config c = "
        "GUARD_CONFIG_DEFAULTS; struct guard_policy p = GUARD_POLICY_DEFAULTS; "
        "return c.struct_size == p.struct_size; }\n");
    write_file("alone.cc", "#include \"guard/locks.h\"\n#include \"guard/host.h\"\nint main() { return "
                           "guard_status_name(GUARD_OK) == nullptr; }\n");
    assert_true(shell("for std in c99 c11 c17; do cc -std=$std -pedantic -Wall -Wextra -Werror -fsyntax-only "
                      "alone.c; done"));
    assert_true(shell("if command -v g++ >/dev/null; then g++ -pedantic -Wall -Wextra "
                      "-Werror -fsyntax-only alone.cc; fi"));
    assert_true(
        shell("if command -v clang >/dev/null; then clang -std=c99 -pedantic -Weverything -Wno-padded "
              "-Wno-declaration-after-statement -Werror -fsyntax-only -x c -include guard/locks.h -include "
              "guard/host.h /dev/null; fi"));
}

TEST(only_public_symbols_are_visible)
{
    assert_true(shell("nm --defined-only --extern-only guard/example/build/libguard.a >symbols; "
                      "grep -q ' T guard_open$' symbols; grep -q ' T guard_host_rang$' symbols; "
                      "! grep ' [A-Z] ' symbols | grep -v ' T guard_'"));
}

TEST(one_file_does_the_work_of_the_folder)
{
    struct stack_redis redis = {.pid = 0};
    char command[512];
    assert_true(stack_redis_start(&redis, NULL));
    assert_true(shell(
        "sh guard/amalgamate.sh one; cd one; "
        "test \"$(ls | tr '\\n' ' ')\" = 'adapters guard.c guard.h host.h locks.h '; "
        "sed -n '/^```c$/,/^```$/{/^```/d;p}' ../guard/README.md >main.c; "
        "cc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fvisibility=hidden -c guard.c; "
        "nm --defined-only --extern-only guard.o >symbols; grep -q ' T guard_open$' symbols; "
        "! grep ' [A-Z] ' symbols | grep -v ' T guard_'; "
        "cc -o main main.c guard.o -lhiredis -luv -pthread"));
    snprintf(command, sizeof command, "test \"$(one/main %s)\" = 'hello user:7'", redis.url);
    assert_true(shell(command));
    stack_redis_stop(&redis);
}

/* Of the copy that was built without it, of one with it, and of the one file. */
TEST(tls_is_there_if_its_library_is_and_may_be_left_out)
{
    assert_true(shell("! nm guard/example/build/libguard.a | grep -q ' U SSL_'; "
                      "mkdir secure; cp -r guard secure/; cd secure; "
                      "sed -n '/^```c$/,/^```$/{/^```/d;p}' guard/README.md >server.c; "
                      "printf 'GUARD_LOCKS_WITH =\nGUARD_DIR = guard\ninclude guard/guard.mk\n"
                      "CPPFLAGS += -Iguard\nserver: server.o $(GUARD_LIB)\n"
                      "\t$(CC) -o $@ $^ $(GUARD_LIBS)\n' >Makefile; "
                      "make -j2 CFLAGS=-O0; nm build/guard/libguard.a | grep -q ' U SSL_new'; "
                      "test \"$(./server rediss://127.0.0.1:1 2>/dev/null)\" = 'hello user:7'; "
                      "make -j2 CFLAGS=-O0 GUARD_TLS=; ! nm build/guard/libguard.a | grep -q ' U SSL_'; "
                      "! ./server rediss://127.0.0.1:1 2>said; "
                      "grep -q 'redis_url: rediss:// (TLS) is not built in' said"));
    assert_true(
        shell("sh guard/amalgamate.sh asleep; cd asleep; "
              "cc -std=c11 -O0 -DGUARD_WITH_TLS -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror "
              "-c guard.c; nm guard.o | grep -q ' U SSL_new'"));
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
    assert_true(shell("cc -o host host.c guard/example/build/libguard.a -lhiredis -luv -pthread; ./host"));
}

/* Nothing of the guard but what locks stand on. */
TEST(locks_may_be_copied_alone)
{
    struct stack_redis redis = {.pid = 0};
    char command[512];
    assert_true(stack_redis_start(&redis, NULL));
    assert_true(shell(
        "mkdir -p alone/guard/wire/scripts; cd alone; cp -r ../guard/guard.mk ../guard/guard.h "
        "../guard/host.h ../guard/locks.h "
        "../guard/base ../guard/redis ../guard/locks guard; cp ../guard/wire/scripts/embed.sh "
        "guard/wire/scripts; "
        "cp ../guard/example/nightly.c .; "
        "printf 'GUARD_LOCKS_WITH =\nGUARD_TLS =\ninclude guard/guard.mk\nCPPFLAGS += -Iguard\nnightly: "
        "nightly.o $(GUARD_LIB)\n"
        "\t$(CC) -o $@ $^ $(GUARD_LIBS)\n' >Makefile; make -j2 CFLAGS=-O0"));
    snprintf(command, sizeof command, "alone/nightly %s | grep -q 'this host does it, fence [1-9]'",
             redis.url);
    assert_true(shell(command));
    stack_redis_stop(&redis);
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

TEST(the_lines_of_the_readme_build_its_program_from_nothing)
{
    struct stack_redis redis = {.pid = 0};
    char command[512];
    follow_the_readme();
    assert_true(shell("cd nothing; env -i PATH=\"$PATH\" make -j2"));
    assert_true(stack_redis_start(&redis, NULL));
    snprintf(command, sizeof command,
             "cd nothing; test \"$(./server %s 2>said)\" = 'hello user:7'; ! [ -s said ]", redis.url);
    assert_true(shell(command));
    assert_true(shell(command)); /* the second time from the cache */
    stack_redis_stop(&redis);
    snprintf(command, sizeof command,
             "cd nothing; test \"$(./server %s 2>said)\" = 'hello user:7'; cat said; "
             "grep -q '^stampede-guard first: redis ' said",
             redis.url);
    assert_true(shell(command)); /* and without a Redis, which it says */
}

/* Every header that the folder includes comes from a package of the install line or with a C compiler. */
TEST(the_install_line_of_the_readme_has_all_that_is_included)
{
    follow_the_readme();
    assert_true(
        shell("cd nothing; command -v dpkg >/dev/null || exit 0; sh third_party/guard/amalgamate.sh one; "
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

TEST(a_makefile_of_the_hosts_keeps_its_default_goal_and_flags)
{
    write_file("Makefile", "GUARD_DIR = guard\nGUARD_BUILD = out\ninclude guard/guard.mk\n"
                           "greet: ; @echo the first target\n"
                           "library: $(GUARD_LIB)\n");
    assert_true(shell("test \"$(make)\" = 'the first target'"));
    assert_true(shell("make -j2 library CFLAGS='-O1 -flto'; test -f out/libguard.a; nm out/libguard.a | grep "
                      "-q ' T guard_open'"));
}

/* Of the plain build, whichever variant this test is of: nobody installs a sanitizer. */
TEST(what_make_install_leaves_is_all_that_a_program_needs)
{
    char command[PROC_PATH_BYTES + 256];
    const char *argv[] = {"sh", "-ec", command, NULL};
    const char *settings[] = {"MAKEFLAGS=", "MAKELEVEL=", NULL};
    snprintf(
        command, sizeof command,
        "env -u CFLAGS -u LDFLAGS -u CC -u SAN -u BUILD make -j2 install DESTDIR='%s/root' PREFIX=/opt/guard",
        folder);
    assert_true(proc_run(&(struct proc_options){.argv = argv, .settings = settings}, BUILD_LIMIT_MS));
    assert_true(
        shell("test -x root/opt/guard/bin/catalogd; "
              "export PKG_CONFIG_PATH=root/opt/guard/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=root; "
              "sed -n '/^```c$/,/^```$/{/^```/d;p}' guard/README.md >installed.c; "
              "cc -std=c11 -o installed installed.c $(pkg-config --cflags --libs --static stampede-guard); "
              "test \"$(./installed redis://127.0.0.1:1 2>/dev/null)\" = 'hello user:7'"));
}

/* ---- the guide ---- */

/* Each recipe is built and run, and prints what stands below it. */
TEST(every_recipe_of_the_cookbook_prints_what_it_shows)
{
    struct stack_redis redis = {.pid = 0};
    struct stack_postgres postgres = {.pid = 0};
    char command[1024];
    assert_true(stack_redis_start(&redis, NULL));
    assert_true(stack_postgres_start(&postgres, 10));
    assert_true(shell("mkdir -p recipes; cd recipes; "
                      "awk -v to=. -f ../guard/guide/recipes.awk ../guard/guide/cookbook.md >list; "
                      "test $(wc -l <list) -ge 12; "
                      "while read -r name needs; do "
                      "cc -std=gnu11 -Wall -Wextra -Werror -I../guard -isystem /usr/include/postgresql "
                      "-o $name $name.c ../guard/example/build/libguard.a -lhiredis -luv -lmicrohttpd -lpq "
                      "-pthread; done <list"));
    snprintf(command, sizeof command,
             "cd recipes; while read -r name needs; do "
             "database=; [ $needs = 0 ] || database='%s'; "
             "timeout 60 ./$name %s $database >$name.said </dev/null || { echo \"$name fails\"; exit 1; }; "
             "diff $name.prints $name.said || { echo \"$name prints something else\"; exit 1; }; done <list",
             postgres.url, redis.url);
    assert_true(shell(command));
    stack_postgres_stop(&postgres);
    stack_redis_stop(&redis);
}

/* docs.sh refuses what leads nowhere; so does this, if it no longer does. */
TEST(no_link_of_the_guide_leads_nowhere)
{
    assert_true(shell("sh guard/guide/docs.sh pages; test -s pages/index.html; test -s pages/reference.html; "
                      "grep -q 'href=\"reference.html#guard_get\"' pages/index.html"));
    assert_true(shell("mkdir wrong; cp -r guard wrong/; cd wrong/guard/guide; "
                      "echo '[nowhere](#nowhere)' >>guide.md; ! sh docs.sh ../../pages 2>said; "
                      "grep -q 'index.html links to index.html#nowhere' said; "
                      "sed '$s/.*/`guard_nothing()`/' guide.md >guide.new; mv guide.new guide.md; "
                      "! sh docs.sh ../../pages 2>said; grep -q 'names guard_nothing()' said"));
}

/* ---- the example at work ---- */

struct example {
    pid_t pid;
    uint16_t port;
    char out_path[PROC_PATH_BYTES + 16];
};

static bool read_port(struct example *example)
{
    unsigned port = 0;
    FILE *file = fopen(example->out_path, "r");
    if (file == NULL)
        return false;
    char line[128];
    while (port == 0 && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "listening on 127.0.0.1:%u", &port);
    fclose(file);
    example->port = (uint16_t)port;
    return port != 0;
}

static void example_start(struct example *example, const char *name, unsigned number,
                          const struct stack_redis *redis, const char *delay_ms)
{
    char program[PROC_PATH_BYTES + 32], files[PROC_PATH_BYTES + 16];
    snprintf(program, sizeof program, "%s/guard/example/%s", folder, name);
    snprintf(files, sizeof files, "%s/files", folder);
    snprintf(example->out_path, sizeof example->out_path, "%s/%s%u", folder, name, number);
    const char *argv[] = {program, "0", files, redis->url, delay_ms, NULL};
    example->pid = proc_start(&(struct proc_options){.argv = argv, .output_path = example->out_path});
    assert_true(example->pid > 0);
    for (int i = 0; i < WAIT_MS && !read_port(example); i++)
        clock_pause_ms(1);
    assert_true(example->port != 0);
}

struct client {
    pthread_t thread;
    uint16_t port;
    const char *request;
    struct http_raw answer;
};

static void *client_run(void *context)
{
    struct client *client = context;
    http_raw_ask("127.0.0.1", client->port, client->request, strlen(client->request), WAIT_MS,
                 &client->answer);
    return NULL;
}

static int connect_to(uint16_t port)
{
    struct net_address address;
    assert_true(net_address_init(&address, "127.0.0.1", port));
    int fd = net_connect_start(&address);
    assert_true(fd != -1 && net_wait(fd, POLLOUT, clock_after_ms(WAIT_MS)));
    return fd;
}

static void ask(const struct example *example, const char *request, const char *status)
{
    struct client client = {.port = example->port, .request = request};
    client_run(&client);
    if (strncmp(client.answer.bytes, status, strlen(status)) != 0)
        fail_msg("%s answered %s", request, client.answer.bytes);
    http_raw_clear(&client.answer);
}

static void many_clients_cost_one_load(const char *name)
{
    static struct client clients[CLIENTS];
    struct stack_redis redis = {.pid = 0};
    struct example examples[2];
    unsigned whole = 0, loads = 0;
    assert_true(stack_redis_start(&redis, NULL));
    assert_true(shell("mkdir -p files; echo 'a slow page' >files/page.txt"));
    for (unsigned i = 0; i < 2; i++)
        example_start(&examples[i], name, i, &redis, "300");
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] =
            (struct client){.port = examples[i % 2].port, .request = "GET /page.txt HTTP/1.0\r\n\r\n"};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_run, &clients[i]), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        whole += strncmp(clients[i].answer.bytes, "HTTP/1.0 200 ", 13) == 0 &&
                 strstr(clients[i].answer.bytes, "\r\n\r\na slow page\n") != NULL;
        http_raw_clear(&clients[i].answer);
    }
    assert_int_equal(whole, CLIENTS);
    for (size_t i = 0; i < 2; i++)
        loads += stack_log_count(examples[i].out_path, 0, "load page.txt");
    assert_int_equal(loads, 1);

    ask(&examples[0], "GET /nothing HTTP/1.0\r\n\r\n", "HTTP/1.0 404 ");
    ask(&examples[1], "GET /nothing HTTP/1.0\r\n\r\n", "HTTP/1.0 404 ");
    ask(&examples[0], "GET /../etc/passwd HTTP/1.0\r\n\r\n", "HTTP/1.0 400 ");
    ask(&examples[0], "POST / HTTP/1.0\r\n\r\n", "HTTP/1.0 400 ");
    assert_int_equal(stack_log_count(examples[0].out_path, 0, "load nothing") +
                         stack_log_count(examples[1].out_path, 0, "load nothing"),
                     1);
    for (size_t i = 0; i < 2; i++)
        assert_true(proc_stop(&examples[i].pid, SIGTERM, WAIT_MS));
    stack_redis_stop(&redis);
}

TEST(many_clients_of_two_processes_with_threads_cost_one_load)
{
    many_clients_cost_one_load("fileserver");
}

TEST(many_clients_of_two_processes_with_an_event_loop_cost_one_load)
{
    many_clients_cost_one_load("eventserver");
}

/* One hangs up while it waits, one never asks: the others are answered, and the process ends. */
TEST(the_event_loop_outlives_clients_that_leave)
{
    struct stack_redis redis = {.pid = 0};
    struct example example;
    int status = -1;
    assert_true(stack_redis_start(&redis, NULL));
    example_start(&example, "eventserver", 3, &redis, "300");
    int leaving = connect_to(example.port), silent = connect_to(example.port);
    assert_true(send(leaving, "GET /page.txt HTTP/1.0\r\n\r\n", 26, MSG_NOSIGNAL) == 26);
    for (int i = 0; i < WAIT_MS && stack_log_count(example.out_path, 0, "load page.txt") == 0; i++)
        clock_pause_ms(1);
    close(leaving);
    ask(&example, "GET /page.txt HTTP/1.0\r\n\r\n", "HTTP/1.0 200 ");
    assert_int_equal(stack_log_count(example.out_path, 0, "load page.txt"), 1);
    assert_int_equal(kill(example.pid, SIGTERM), 0);
    assert_true(proc_wait(example.pid, WAIT_MS, &status));
    assert_int_equal(status, 0);
    close(silent);
    stack_redis_stop(&redis);
}

static void ends_in_order_while_a_client_waits(const char *name)
{
    struct stack_redis redis = {.pid = 0};
    struct example example;
    struct client client = {.request = "GET /page.txt HTTP/1.0\r\n\r\n"};
    int status = -1;
    assert_true(stack_redis_start(&redis, NULL));
    example_start(&example, name, 2, &redis, "700");
    client.port = example.port;
    assert_int_equal(pthread_create(&client.thread, NULL, client_run, &client), 0);
    for (int i = 0; i < WAIT_MS && stack_log_count(example.out_path, 0, "load page.txt") == 0; i++)
        clock_pause_ms(1);
    assert_int_equal(kill(example.pid, SIGTERM), 0);
    assert_true(proc_wait(example.pid, WAIT_MS, &status));
    assert_int_equal(status, 0);
    pthread_join(client.thread, NULL);
    assert_non_null(strstr(client.answer.bytes, "a slow page"));
    http_raw_clear(&client.answer);
    stack_redis_stop(&redis);
}

TEST(both_examples_end_in_order_while_a_client_waits)
{
    ends_in_order_while_a_client_waits("fileserver");
    ends_in_order_while_a_client_waits("eventserver");
}

TEST_GROUP(.up = copy_and_build, .down = remove_copy);
