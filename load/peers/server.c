/* SPDX-License-Identifier: MIT */
/* server.c - see server.h. */
#include "load/peers/server.h"

#include "load/base/http.h"
#include "load/base/net.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { START_LIMIT_MS = 15000, STOP_LIMIT_MS = 5000, ASK_LIMIT_MS = 1000, START_TRIES = 3 };

/* Texts with the server's own port and folder in them. */
struct texts {
    char at[SERVER_ARGUMENTS_MAX][SERVER_TEXT_BYTES];
    const char *list[SERVER_ARGUMENTS_MAX + 1];
};

static bool fill_in(const struct server *server, const char *text, char *out)
{
    static const char port[] = "{port}", folder[] = "{folder}";
    size_t used = 0;
    out[0] = '\0';
    while (*text != '\0' && used + PROC_PATH_BYTES < SERVER_TEXT_BYTES) {
        if (strncmp(text, port, strlen(port)) == 0) {
            used += (size_t)snprintf(out + used, SERVER_TEXT_BYTES - used, "%u", (unsigned)server->port);
            text += strlen(port);
        } else if (strncmp(text, folder, strlen(folder)) == 0) {
            used += (size_t)snprintf(out + used, SERVER_TEXT_BYTES - used, "%s", server->folder);
            text += strlen(folder);
        } else {
            out[used++] = *text++;
            out[used] = '\0';
        }
    }
    return *text == '\0';
}

static bool fill_in_all(const struct server *server, const char *const *from, struct texts *texts)
{
    size_t count = 0;
    for (; from != NULL && from[count] != NULL; count++) {
        if (count == SERVER_ARGUMENTS_MAX || !fill_in(server, from[count], texts->at[count])) {
            fprintf(stderr, "peers: too many or too long arguments: %s\n", from[count]);
            return false;
        }
        texts->list[count] = texts->at[count];
    }
    texts->list[count] = NULL;
    return true;
}

static bool answers(const struct server *server)
{
    struct http_answer answer;
    const struct http_request request = {
        .host = "127.0.0.1", .port = server->port, .path = "/ping", .deadline_ms = ASK_LIMIT_MS};
    bool good = http_ask(&request, &answer) && answer.status == 200;
    http_answer_clear(&answer);
    return good;
}

static bool wait_until_up(struct server *server)
{
    uint64_t end_us = net_now_us() + (uint64_t)START_LIMIT_MS * 1000;
    while (net_now_us() < end_us) {
        if (answers(server))
            return true;
        if (proc_wait(server->pid, 5, NULL)) {
            server->pid = 0;
            return false;
        }
    }
    return false;
}

static bool launch(struct server *server, const struct server_plan *plan)
{
    struct texts arguments, settings;
    server->port = net_free_port();
    if (!fill_in_all(server, plan->arguments, &arguments) || !fill_in_all(server, plan->settings, &settings))
        return false;
    const struct proc_options options = {.argv = arguments.list,
                                         .settings = settings.list,
                                         .output_path = server->log_path,
                                         .user = plan->user,
                                         .end_signal = SIGTERM};
    server->pid = proc_start(&options);
    if (server->pid > 0 && wait_until_up(server))
        return true;
    if (server->pid > 0)
        proc_kill_tree(&server->pid);
    server->pid = 0;
    return false;
}

bool server_start(struct server *server, const struct server_plan *plan)
{
    *server = (struct server){.pid = 0};
    if (!proc_folder(plan->name, plan->user, server->folder))
        return false;
    snprintf(server->log_path, sizeof server->log_path, "%s/output", server->folder);
    for (int i = 0; i < START_TRIES; i++) { /* somebody may take the port first */
        if (launch(server, plan))
            return true;
    }
    fprintf(stderr, "peers: %s did not start; its log ends:\n", plan->name);
    proc_show_tail(server->log_path);
    return false;
}

void server_stop(struct server *server)
{
    if (server->pid > 0)
        proc_stop(&server->pid, SIGTERM, STOP_LIMIT_MS);
    if (server->folder[0] != '\0')
        proc_remove(server->folder);
    *server = (struct server){.pid = 0};
}

bool server_first_line(const char *command, char *line, size_t line_bytes)
{
    char whole[1024];
    snprintf(whole, sizeof whole, "{ %s; } 2>&1", command);
    FILE *output = popen(whole, "re");
    line[0] = '\0';
    if (output == NULL)
        return false;
    if (fgets(line, (int)line_bytes, output) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    while (fgets(whole, sizeof whole, output) != NULL) /* it may have more to say */
        ;
    int status = pclose(output);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
