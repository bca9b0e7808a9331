/* SPDX-License-Identifier: MIT */
/* act.c - see act.h. */
#include "load/play/act.h"

#include "load/base/clock.h"
#include "load/base/sql.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

_Static_assert(ACT_COMMANDS_MAX == 16, "as in the text");

enum { COMMAND_LIMIT_MS = 30000, SYNC_LIMIT_MS = 200 };

static enum act_outcome fail(char *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static enum act_outcome fail(char *why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, SCENARIO_WHY_BYTES, format, arguments);
    va_end(arguments);
    return ACT_FAILED;
}

/*
 * ---- errands: statements and POSTs, one after the other, by a thread of their own ----
 *
 * A database that hangs holds up the next statement, but neither the faults nor the clock of a run.
 *
 *     [0 .. reported)     errands_poll() has returned them
 *     [reported .. done)  over
 *     [done .. count)     the first of them is under way
 *
 * Locking: `mutex` guards everything but `servers`; it is not held while an errand is run.
 */

enum { SQL_LIMIT_MS = 5000, POST_LIMIT_MS = 1000 };
enum { ERRANDS_MAX = 2 * SCENARIO_EVENTS_MAX };
_Static_assert((int)SCENARIO_WHY_BYTES >= SQL_WHY_BYTES, "any reason fits");

struct errand {
    const struct scenario_action *action; /* lent */
    size_t tag;
    bool failed;
    char why[SCENARIO_WHY_BYTES];
};

struct errands {
    const struct servers *servers;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_told_to_end;
    struct errand all[ERRANDS_MAX];
    size_t count, done, reported;
};

static bool run_errand(const struct servers *servers, const struct scenario_action *action, char *why)
{
    if (action->verb == SCENARIO_POST)
        return servers_post(servers, action->argument, POST_LIMIT_MS, why);
    return sql_run(servers_database(servers), action->argument, SQL_LIMIT_MS, NULL, 0, why);
}

static void *run_errands(void *context)
{
    struct errands *errands = context;
    pthread_mutex_lock(&errands->mutex);
    while (!errands->is_told_to_end) {
        if (errands->done == errands->count) {
            pthread_cond_wait(&errands->changed, &errands->mutex);
            continue;
        }
        struct errand *errand = &errands->all[errands->done];
        pthread_mutex_unlock(&errands->mutex);
        bool failed = !run_errand(errands->servers, errand->action, errand->why);
        pthread_mutex_lock(&errands->mutex);
        errand->failed = failed;
        errands->done++;
    }
    pthread_mutex_unlock(&errands->mutex);
    return NULL;
}

/* NULL: no memory or thread. */
static struct errands *errands_begin(const struct servers *servers)
{
    struct errands *errands = calloc(1, sizeof *errands);
    if (errands == NULL)
        return NULL;
    errands->servers = servers;
    pthread_mutex_init(&errands->mutex, NULL);
    pthread_cond_init(&errands->changed, NULL);
    if (pthread_create(&errands->thread, NULL, run_errands, errands) == 0)
        return errands;
    pthread_cond_destroy(&errands->changed);
    pthread_mutex_destroy(&errands->mutex);
    free(errands);
    return NULL;
}

/* The action is lent until errands_end(). False: too many. */
static bool errands_add(struct errands *errands, const struct scenario_action *action, size_t tag)
{
    pthread_mutex_lock(&errands->mutex);
    bool fits = errands->count < ERRANDS_MAX;
    if (fits) {
        errands->all[errands->count] = (struct errand){.action = action, .tag = tag};
        errands->count++;
        pthread_cond_signal(&errands->changed);
    }
    pthread_mutex_unlock(&errands->mutex);
    return fits;
}

/* One that is over since, by its tag. *open counts those that are not. */
static bool errands_poll(struct errands *errands, size_t *tag, size_t *open,
                         char why[static SCENARIO_WHY_BYTES])
{
    pthread_mutex_lock(&errands->mutex);
    bool is_over = errands->reported < errands->done;
    if (is_over) {
        const struct errand *errand = &errands->all[errands->reported++];
        *tag = errand->tag;
        snprintf(why, SCENARIO_WHY_BYTES, "%s", errand->failed ? errand->why : "");
    }
    *open = errands->count - errands->done;
    pthread_mutex_unlock(&errands->mutex);
    return is_over;
}

/* Ends after the one under way, at most 5 s later. */
static void errands_end(struct errands **errands)
{
    struct errands *ended = *errands;
    if (ended == NULL)
        return;
    pthread_mutex_lock(&ended->mutex);
    ended->is_told_to_end = true;
    pthread_cond_signal(&ended->changed);
    pthread_mutex_unlock(&ended->mutex);
    pthread_join(ended->thread, NULL);
    pthread_cond_destroy(&ended->changed);
    pthread_mutex_destroy(&ended->mutex);
    free(ended);
    *errands = NULL;
}

/* ---- Redis alone ---- */

/* What the replica has not got when the first one dies is lost, as in life; a moment is given to what was sent. */
static enum act_outcome fail_over(struct servers *servers, char *why)
{
    if (servers->has_failed_over)
        return fail(why, "there is one replica, and it has been promoted already");
    stack_redis_wait_in_sync(&servers->replica, &servers->redis, SYNC_LIMIT_MS);
    stack_redis_kill(&servers->redis);
    if (!stack_redis_promote(&servers->replica))
        return fail(why, "the replica could not be promoted");
    servers->has_failed_over = true;
    proxy_retarget(servers->proxy, servers->redis_route, servers->replica.port);
    return ACT_DONE;
}

/* ---- any server ---- */

/* Which; `index` is of catalogd, for others 0. */
struct server {
    enum scenario_party party;
    size_t index;
};

static pid_t *find_server(struct servers *servers, struct server server, char *name, size_t name_bytes)
{
    if (server.party == SCENARIO_CATALOGD) {
        snprintf(name, name_bytes, "catalogd %zu", server.index + 1);
        return &servers->catalogd[server.index].pid;
    }
    bool is_redis = server.party == SCENARIO_REDIS;
    snprintf(name, name_bytes, "%s", is_redis ? "Redis" : "PostgreSQL");
    return is_redis ? &servers_redis(servers)->pid : &servers->postgres.pid;
}

static void kill_server(struct servers *servers, struct server server, pid_t *pid)
{
    if (server.party == SCENARIO_REDIS)
        stack_redis_kill(servers_redis(servers));
    else
        proc_kill_tree(pid);
}

static bool restart(struct servers *servers, struct server server)
{
    if (server.party == SCENARIO_REDIS)
        return stack_redis_restart(servers_redis(servers));
    if (server.party == SCENARIO_POSTGRES)
        return stack_postgres_restart(&servers->postgres);
    return stack_catalogd_restart(&servers->catalogd[server.index], servers->settings);
}

static enum act_outcome act_on_server(struct servers *servers, struct server server, enum scenario_verb verb,
                                      char *why)
{
    char name[32];
    pid_t *pid = find_server(servers, server, name, sizeof name);
    if (*pid <= 0 && verb != SCENARIO_START && verb != SCENARIO_RESTART)
        return fail(why, "%s is not running", name);
    if (*pid > 0 && verb == SCENARIO_START)
        return fail(why, "%s is already running", name);
    switch (verb) {
    case SCENARIO_KILL:
        kill_server(servers, server, pid);
        return ACT_DONE;
    case SCENARIO_START:
    case SCENARIO_RESTART:
        return restart(servers, server) ? ACT_DONE
                                        : fail(why, "%s did not start; the reason is on stderr", name);
    case SCENARIO_STOP:
        return proc_stop(pid, SIGTERM, COMMAND_LIMIT_MS) ? ACT_DONE
                                                         : fail(why, "%s did not end on SIGTERM", name);
    case SCENARIO_PAUSE:
        return proc_pause(*pid) ? ACT_DONE : fail(why, "%s did not stop on SIGSTOP", name);
    case SCENARIO_RESUME:
        proc_resume(*pid);
        return ACT_DONE;
    case SCENARIO_FLUSH:
        return servers_empty_redis(servers) ? ACT_DONE
                                            : fail(why, "Redis did not answer: nothing was flushed");
    case SCENARIO_FAILOVER:
        return fail_over(servers, why);
    default:
        return fail(why, "%s cannot do that", name);
    }
}

/* To all before any is waited for: they are to die, or to stop, at the same moment, not one after the other. */
static void signal_together(const struct servers *servers, int signal)
{
    for (size_t i = 0; i < servers->scenario->process_count; i++) {
        if (servers->catalogd[i].pid > 0)
            kill(servers->catalogd[i].pid, signal);
    }
}

static enum act_outcome act_on_processes(struct servers *servers, const struct scenario_action *action,
                                         char *why)
{
    enum act_outcome outcome = ACT_DONE;
    bool is_all = action->process == SCENARIO_ALL;
    size_t first = is_all ? 0 : action->process - 1;
    size_t end = is_all ? servers->scenario->process_count : action->process;
    if (is_all && (action->verb == SCENARIO_KILL || action->verb == SCENARIO_PAUSE))
        signal_together(servers, action->verb == SCENARIO_KILL ? SIGKILL : SIGSTOP);
    for (size_t i = first; outcome == ACT_DONE && i < end; i++)
        outcome = act_on_server(servers, (struct server){SCENARIO_CATALOGD, i}, action->verb, why);
    return outcome;
}

static enum act_outcome act_on_leader(struct act *act, enum scenario_verb verb, char *why)
{
    bool is_of_the_last = verb == SCENARIO_START || verb == SCENARIO_RESUME;
    if (is_of_the_last && !act->has_leader)
        return fail(why, "no leader has been killed or paused");
    if (!is_of_the_last && !servers_find_leader(act->servers, &act->leader))
        return ACT_AGAIN;
    act->has_leader = true;
    return act_on_server(act->servers, (struct server){SCENARIO_CATALOGD, act->leader}, verb, why);
}

/* ---- statements, requests, commands ---- */

static enum act_outcome act_errand(struct act *act, const struct scenario_action *action, size_t tag,
                                   char *why)
{
    if (act->errands == NULL)
        act->errands = errands_begin(act->servers);
    if (act->errands != NULL && errands_add(act->errands, action, tag))
        return ACT_DONE;
    return fail(why, "too many statements and requests, or no memory");
}

enum { VARIABLE_BYTES = SCENARIO_TEXT_BYTES + 16 };

static void environment_of(struct servers *servers, char texts[3][VARIABLE_BYTES])
{
    static struct work work; /* large; there is one thread */
    const struct scenario *scenario = servers->scenario;
    bool is_stack = scenario->process_count > 0;
    work = scenario->work;
    servers_name_targets(servers, &work);
    snprintf(texts[0], VARIABLE_BYTES, "TARGET=http://%s", work.target_count > 0 ? work.targets[0].name : "");
    snprintf(texts[1], VARIABLE_BYTES, "REDIS_URL=%s",
             is_stack ? servers_redis(servers)->url : scenario->redis_url);
    snprintf(texts[2], VARIABLE_BYTES, "DATABASE_URL=%s",
             is_stack ? servers->postgres.url : scenario->database_url);
}

static enum act_outcome act_run(struct act *act, const char *shell, size_t tag, char *why)
{
    char texts[3][VARIABLE_BYTES], folder[PROC_PATH_BYTES];
    const char *const settings[] = {texts[0], texts[1], texts[2], NULL};
    const char *const argv[] = {"/bin/sh", "-c", shell, NULL};
    size_t free = 0;
    while (free < ACT_COMMANDS_MAX && act->commands[free].pid > 0)
        free++;
    if (free == ACT_COMMANDS_MAX || !proc_folder("command", NULL, folder))
        return fail(why, "16 commands run already: let one end, or run them later");
    struct act_command *command = &act->commands[free];
    environment_of(act->servers, texts);
    snprintf(command->output_path, sizeof command->output_path, "%s/output", folder);
    const struct proc_options options = {
        .argv = argv, .settings = settings, .output_path = command->output_path};
    command->pid = proc_start(&options);
    command->tag = tag;
    command->end_by_us = clock_after_ms(COMMAND_LIMIT_MS);
    if (command->pid > 0)
        return ACT_DONE;
    command->pid = 0;
    return fail(why, "the command could not be started");
}

enum act_outcome act_do(struct act *act, const struct scenario_action *action, size_t tag,
                        char why[static SCENARIO_WHY_BYTES])
{
    switch (action->party) {
    case SCENARIO_REDIS:
    case SCENARIO_POSTGRES:
        return act_on_server(act->servers, (struct server){action->party, 0}, action->verb, why);
    case SCENARIO_CATALOGD:
        return act_on_processes(act->servers, action, why);
    case SCENARIO_LEADER:
        return act_on_leader(act, action->verb, why);
    case SCENARIO_LINK_REDIS:
    case SCENARIO_LINK_POSTGRES:
        proxy_set(act->servers->proxy,
                  action->party == SCENARIO_LINK_REDIS ? act->servers->redis_route
                                                       : act->servers->postgres_route,
                  action->fault, action->amount_ms);
        return ACT_DONE;
    case SCENARIO_NOBODY:
        break;
    }
    if (action->verb == SCENARIO_SQL || action->verb == SCENARIO_POST)
        return act_errand(act, action, tag, why);
    if (action->verb == SCENARIO_RUN)
        return act_run(act, action->argument, tag, why);
    return ACT_DONE; /* a note */
}

/* ---- commands that run ---- */

/* The last line that is not empty. */
static void last_line(const char *path, char *line, size_t line_bytes)
{
    char text[512];
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        text[strcspn(text, "\r\n")] = '\0';
        if (text[0] != '\0')
            snprintf(line, line_bytes, "%.*s", (int)line_bytes - 1, text);
    }
    if (file != NULL)
        fclose(file);
}

static void forget(struct act_command *command)
{
    char *slash = strrchr(command->output_path, '/');
    if (slash != NULL)
        *slash = '\0';
    proc_remove(command->output_path);
    command->pid = 0;
}

/* True: it is over; *why is "" if it went well. */
static bool look_after(struct act_command *command, char *why)
{
    char line[160];
    int status = 0;
    bool ended = proc_wait(command->pid, 0, &status);
    if (!ended && clock_us() < command->end_by_us)
        return false;
    bool failed = !ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    last_line(command->output_path, line, sizeof line);
    why[0] = '\0';
    if (!ended) {
        proc_kill_tree(&command->pid);
        fail(why, "it did not end within %d s and was killed: %s", COMMAND_LIMIT_MS / 1000, line);
    } else if (failed) {
        fail(why, "it ended with %s %d: %s", WIFEXITED(status) ? "status" : "signal",
             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), line);
    }
    forget(command);
    return true;
}

bool act_poll(struct act *act, size_t *tag, size_t *running, char why[static SCENARIO_WHY_BYTES])
{
    bool is_over = false;
    *running = 0;
    if (act->errands != NULL)
        is_over = errands_poll(act->errands, tag, running, why);
    for (size_t i = 0; i < ACT_COMMANDS_MAX; i++) {
        struct act_command *command = &act->commands[i];
        if (!is_over && command->pid > 0) {
            is_over = look_after(command, why);
            *tag = is_over ? command->tag : *tag;
        }
        *running += command->pid > 0;
    }
    return is_over;
}

void act_end(struct act *act)
{
    errands_end(&act->errands);
    for (size_t i = 0; i < ACT_COMMANDS_MAX; i++) {
        if (act->commands[i].pid <= 0)
            continue;
        proc_kill_tree(&act->commands[i].pid);
        forget(&act->commands[i]);
    }
}
