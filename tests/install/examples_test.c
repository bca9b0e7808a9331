/* SPDX-License-Identifier: MIT */
/* examples_test.c - the example servers at work: started, asked over HTTP, ended by a signal. */
#include "load/base/http.h"
#include "load/stack/stack.h"
#include "tests/support/files.h"
#include "tests/support/sockets.h"
#include "tests/support/test.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { WAIT_MS = 30000, CLIENTS = 60, PROGRAM_BYTES = PROC_PATH_BYTES + 32 };

static char folder[PROC_PATH_BYTES]; /* of what they serve and say */
static struct stack_redis redis;

static bool make_folder(void)
{
    char path[PROC_PATH_BYTES + 16];
    if (!proc_folder("examples", NULL, folder) || !stack_redis_start(&redis, NULL))
        return false;
    snprintf(path, sizeof path, "%s/page.txt", folder);
    file_write(path, "a slow page\n");
    return true;
}

static bool remove_folder(void)
{
    stack_redis_stop(&redis);
    proc_remove(folder);
    return true;
}

/* Each test begins with an empty cache. */
static bool empty_cache(void)
{
    freeReplyObject(stack_redis_command(&redis, "FLUSHALL"));
    return true;
}

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

static void find_program(const char *name, char program[PROGRAM_BYTES])
{
    const char *built = getenv("EXAMPLES");
    snprintf(program, PROGRAM_BYTES, "%s/%s", built != NULL ? built : "build/gcc/example", name);
}

/* Debian 13 has no libh2o. */
static const char *need_h2o(void)
{
    static const char name[] = "h2oserver";
    char program[PROGRAM_BYTES];
    find_program(name, program);
    if (access(program, X_OK) == -1)
        test_skip("libh2o-dev is not there");
    return name;
}

static void example_start(struct example *example, const char *name, const char *delay_ms)
{
    static unsigned number;
    char program[PROGRAM_BYTES];
    find_program(name, program);
    snprintf(example->out_path, sizeof example->out_path, "%s/%s.%u", folder, name, ++number);
    const char *argv[] = {program, "0", folder, redis.url, delay_ms, NULL};
    example->pid = proc_start(&(struct proc_options){.argv = argv, .output_path = example->out_path});
    assert_true(example->pid > 0);
    WAIT_UNTIL(read_port(example));
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

/* Some of these servers answer as HTTP/1.1 whatever they are asked as. */
static bool has_status(const struct client *client, const char *status)
{
    const char *answer = client->answer.bytes;
    return strncmp(answer, "HTTP/1.", 7) == 0 && strncmp(answer + 8, status, strlen(status)) == 0;
}

static void ask(const struct example *example, const char *request, const char *status)
{
    struct client client = {.port = example->port, .request = request};
    client_run(&client);
    if (!has_status(&client, status))
        fail_msg("%s answered %s", request, client.answer.bytes);
    http_raw_clear(&client.answer);
}

static bool has_said(const struct example *example, const char *text)
{
    return stack_log_count(example->out_path, 0, text) > 0;
}

/* All at once: civetweb takes its time. */
static void end_examples(struct example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(kill(examples[i].pid, SIGTERM), 0);
    for (size_t i = 0; i < count; i++) {
        int status = -1;
        assert_true(proc_wait(examples[i].pid, WAIT_MS, &status));
        assert_int_equal(status, 0);
    }
}

/* Each of them is answered; how many loads that was. */
static unsigned ask_as_many(const struct example examples[2])
{
    static struct client clients[CLIENTS];
    unsigned whole = 0, loads = 0;
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] =
            (struct client){.port = examples[i % 2].port, .request = "GET /page.txt HTTP/1.0\r\n\r\n"};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_run, &clients[i]), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        whole += has_status(&clients[i], " 200 ") &&
                 strstr(clients[i].answer.bytes, "\r\n\r\na slow page\n") != NULL;
        http_raw_clear(&clients[i].answer);
    }
    assert_int_equal(whole, CLIENTS);
    for (size_t i = 0; i < 2; i++)
        loads += stack_log_count(examples[i].out_path, 0, "load file:page.txt");
    return loads;
}

/* The examples are as patient with Redis as a guard is by itself. On a machine that stands still for longer each
 * process loads for itself: then it is asked again, of others. */
static void many_clients_cost_one_load(const char *name)
{
    enum { RUNS = 5 };
    struct example examples[2];
    unsigned loads = 0;
    for (int runs = 0; loads != 1; runs++) {
        assert_true(runs < RUNS);
        if (runs > 0)
            end_examples(examples, 2);
        empty_cache();
        for (size_t i = 0; i < 2; i++)
            example_start(&examples[i], name, "300");
        loads = ask_as_many(examples);
    }
    ask(&examples[0], "GET /nothing HTTP/1.0\r\n\r\n", " 404 ");
    ask(&examples[1], "GET /nothing HTTP/1.0\r\n\r\n", " 404 ");
    ask(&examples[0], "GET /../etc/passwd HTTP/1.0\r\n\r\n", " 400 ");
    ask(&examples[0], "POST / HTTP/1.0\r\n\r\n", " 400 ");
    assert_int_equal(stack_log_count(examples[0].out_path, 0, "load file:nothing") +
                         stack_log_count(examples[1].out_path, 0, "load file:nothing"),
                     1);
    end_examples(examples, 2);
}

/* In two processes each; preforkserver has two times four. */
TEST(many_clients_of_a_server_with_threads_cost_one_load, P163)
{
    many_clients_cost_one_load("civetserver");
}

TEST(many_clients_of_h2o_cost_one_load, P163)
{
    many_clients_cost_one_load(need_h2o());
}

TEST(many_clients_of_a_server_whose_loader_is_asynchronous_cost_one_load, P163)
{
    many_clients_cost_one_load("evhttpserver");
}

TEST(many_clients_of_workers_that_were_forked_cost_one_load, P163)
{
    many_clients_cost_one_load("preforkserver");
}

TEST(the_guard_of_a_parent_says_in_its_worker_whose_it_is)
{
    struct example example;
    example_start(&example, "preforkserver", "0");
    ask(&example, "GET /page.txt HTTP/1.0\r\n\r\n", " 200 ");
    WAIT_UNTIL(has_said(&example, "the parent's guard says in a worker: invalid"));
    assert_true(has_said(&example, "this guard was opened before fork(), in another process"));
    end_examples(&example, 1);
}

/* One hangs up while it waits, one never asks: the others are answered, and the process ends. */
static void outlives_clients_that_leave(const char *name)
{
    struct example example;
    empty_cache();
    example_start(&example, name, "300");
    int leaving = socket_connect(example.port, 0), silent = socket_connect(example.port, 0);
    socket_say(leaving, "GET /page.txt HTTP/1.0\r\n\r\n");
    WAIT_UNTIL(has_said(&example, "load file:page.txt"));
    close(leaving);
    ask(&example, "GET /page.txt HTTP/1.0\r\n\r\n", " 200 ");
    assert_int_equal(stack_log_count(example.out_path, 0, "load file:page.txt"), 1);
    end_examples(&example, 1);
    close(silent);
}

TEST(a_server_with_an_event_loop_outlives_clients_that_leave)
{
    outlives_clients_that_leave("evhttpserver");
}

TEST(h2o_outlives_clients_that_leave)
{
    outlives_clients_that_leave(need_h2o());
}

static void ends_in_order_while_a_client_waits(const char *name)
{
    struct example example;
    struct client client = {.request = "GET /page.txt HTTP/1.0\r\n\r\n"};
    empty_cache();
    example_start(&example, name, "300");
    client.port = example.port;
    assert_int_equal(pthread_create(&client.thread, NULL, client_run, &client), 0);
    WAIT_UNTIL(has_said(&example, "load file:page.txt"));
    end_examples(&example, 1);
    pthread_join(client.thread, NULL);
    if (strstr(client.answer.bytes, "a slow page") == NULL)
        fail_msg("%s answered %s", name, client.answer.bytes);
    http_raw_clear(&client.answer);
}

TEST(every_server_ends_in_order_while_a_client_waits)
{
    static const char *const names[] = {"preforkserver", "civetserver", "evhttpserver"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ends_in_order_while_a_client_waits(names[i]);
}

TEST(h2o_ends_in_order_while_a_client_waits)
{
    ends_in_order_while_a_client_waits(need_h2o());
}

TEST_GROUP(.up = make_folder, .down = remove_folder, .before = empty_cache);
