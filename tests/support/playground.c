/* SPDX-License-Identifier: MIT */
/* playground.c - see playground.h. */
#include "tests/support/playground.h"

#include "load/base/clock.h"
#include "load/base/http.h"
#include "load/stack/stack.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct playground playground;

static bool wait_until_said(const char *text)
{
    uint64_t end_us = clock_after_ms(PLAYGROUND_LIMIT_MS);
    do {
        clock_pause_ms(5);
        file_look(playground.output_path, playground.output, sizeof playground.output);
    } while (strstr(playground.output, text) == NULL && clock_us() < end_us &&
             !proc_wait(playground.pid, 0, NULL));
    if (strstr(playground.output, text) == NULL)
        fprintf(stderr, "\"%s\" is not in:\n%s\n", text, playground.output);
    return strstr(playground.output, text) != NULL;
}

/* The folder is that of the logs it names: /tmp/stampede-guard.XXXXXX. */
static bool read_address(void)
{
    const char *line = strstr(playground.output, "The playground: ");
    const char *log = strstr(playground.output, "/stampede-guard."), *start = log;
    if (line == NULL || log == NULL || sscanf(line, "The playground: %127s", playground.url) != 1 ||
        sscanf(playground.url, "http://127.0.0.1:%hu/#%63s", &playground.port, playground.token) != 2)
        return false;
    while (start > playground.output && start[-1] != ' ')
        start--;
    snprintf(playground.folder, sizeof playground.folder, "%.*s", (int)(log - start) + 22, start);
    snprintf(playground.host, sizeof playground.host, "127.0.0.1:%u", (unsigned)playground.port);
    snprintf(playground.origin, sizeof playground.origin, "Origin: http://%s\r\n", playground.host);
    return true;
}

bool playground_start(const char *const *settings)
{
    static char program[PATH_MAX];
    char folder[PROC_PATH_BYTES];
    const char *const argv[] = {program, "serve", "--scale", "200", NULL};
    snprintf(program, sizeof program, "%.*s/stampede",
             (int)(strrchr(stack_catalogd_program(), '/') - stack_catalogd_program()),
             stack_catalogd_program());
    if (!proc_folder("playground", NULL, folder))
        return false;
    snprintf(playground.output_path, sizeof playground.output_path, "%s/output", folder);
    const struct proc_options options = {
        .argv = argv, .settings = settings, .output_path = playground.output_path, .end_signal = SIGTERM};
    playground.pid = proc_start(&options);
    return playground.pid > 0 && wait_until_said("Ctrl-C ends it.") && read_address();
}

bool playground_stop(void)
{
    return playground.pid <= 0 || proc_stop(&playground.pid, SIGINT, PLAYGROUND_LIMIT_MS);
}

unsigned playground_ask(const char *format, ...)
{
    static char request[10240];
    struct http_raw raw;
    unsigned status = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(request, sizeof request, format, arguments);
    va_end(arguments);
    http_raw_ask("127.0.0.1", playground.port, request, strlen(request), PLAYGROUND_ASK_LIMIT_MS, &raw);
    sscanf(raw.bytes, "HTTP/1.1 %u", &status);
    assert_null(strstr(raw.bytes, "Access-Control-Allow"));
    http_raw_clear(&raw);
    return status;
}

unsigned playground_act(const char *body, const char *said_token, const char *from, const char *type)
{
    return playground_ask("POST /act HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: "
                          "%s\r\n%sConnection: close\r\n"
                          "Content-Length: %zu\r\n\r\n%s",
                          playground.host, said_token, type, from, strlen(body), body);
}

unsigned playground_press(const char *body)
{
    return playground_act(body, playground.token, playground.origin, "application/json");
}
