/* SPDX-License-Identifier: MIT */
/*
 * civetserver.c - the guard in civetweb, whose threads may block: the handler asks and waits.
 *
 *     civetserver PORT FOLDER [REDIS_URL [DELAY_MS]]        see files.h; link with -lcivetweb
 *
 *   a thread of civetweb's: serve() -> guard_get_wait() -> load worker: files_load() -> every waiting thread
 */
#include "files.h"
#include <civetweb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DRAIN_MS = 5000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t served = PTHREAD_COND_INITIALIZER;
static unsigned serving; /* handlers at work, under the mutex */

static void count_serving(int change)
{
    pthread_mutex_lock(&mutex);
    serving += (unsigned)change;
    pthread_cond_signal(&served);
    pthread_mutex_unlock(&mutex);
}

static int answer(struct mg_connection *connection, int status, const char *from,
                  const struct guard_value *value)
{
    size_t bytes = value != NULL ? value->body_bytes : 0;
    mg_printf(connection, "HTTP/1.1 %d %s\r\nContent-Length: %zu\r\nX-From: %s\r\nConnection: close\r\n\r\n",
              status, mg_get_response_code_text(connection, status), bytes, from);
    if (value != NULL)
        mg_write(connection, value->body, bytes);
    return status;
}

static int ask(struct mg_connection *connection, const struct files *files, const char *key)
{
    struct guard_result result;
    guard_get_wait(files->guard, &(struct guard_request){.kind = files->kind, .key = key}, &result);
    bool answered = result.status == GUARD_OK || result.status == GUARD_ABSENT;
    const char *from = answered ? guard_source_name(result.source) : guard_status_name(result.status);
    int status = result.status == GUARD_OK ? 200 : answered ? 404 : 503;
    answer(connection, status, from, result.value);
    guard_value_unref(&result.value);
    return status;
}

static int serve(struct mg_connection *connection, void *files)
{
    const struct mg_request_info *info = mg_get_request_info(connection);
    char key[FILES_KEY_BYTES];
    if (strcmp(info->request_method, "GET") != 0 ||
        !files_key(info->request_uri, strlen(info->request_uri), key))
        return answer(connection, 400, "nowhere", NULL);
    count_serving(1);
    int status = ask(connection, files, key);
    count_serving(-1);
    return status;
}

/* mg_stop() lets handlers return, but throws away what they still write. */
static void await_handlers(void)
{
    pthread_mutex_lock(&mutex);
    while (serving > 0)
        pthread_cond_wait(&served, &mutex);
    pthread_mutex_unlock(&mutex);
}

int main(int argc, char **argv)
{
    static struct files files;
    int signals = files_signals();
    files_open(&files, argc, argv);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[1]);
    const char *options[] = {"listening_ports", address, "num_threads", "64", NULL};
    struct mg_context *server = mg_start(NULL, NULL, options);
    struct mg_server_port port;
    if (server == NULL || mg_get_server_ports(server, 1, &port) != 1)
        return 1;
    mg_set_request_handler(server, "/", serve, &files);
    files_listening((unsigned)port.port);

    char signal_info[128];
    (void)!read(signals, signal_info, sizeof signal_info); /* SIGTERM or SIGINT */
    guard_drain(files.guard);
    await_handlers();
    mg_stop(server);
    return guard_close(&files.guard, DRAIN_MS) == GUARD_OK ? 0 : 1;
}
