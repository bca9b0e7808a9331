/* SPDX-License-Identifier: MIT */
/* scenario_act.c - see scenario_act.h. */
#include "load/play/scenario_act.h"

#include "load/base/clock.h"

#include <hiredis/hiredis.h>

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

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

static enum act_outcome done_if(bool good, char *why, const char *what)
{
    return good ? ACT_DONE : fail(why, "%s; the reason is on stderr", what);
}

/* ---- Redis ---- */

static enum act_outcome flush(struct servers *servers, char *why)
{
    struct redisReply *reply = stack_redis_command(servers_redis(servers), "FLUSHALL");
    bool good = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return good ? ACT_DONE : fail(why, "Redis does not answer: nothing was flushed");
}

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

static enum act_outcome act_on_redis(struct servers *servers, enum scenario_verb verb, char *why)
{
    struct stack_redis *redis = servers_redis(servers);
    if (redis->pid <= 0 && verb != SCENARIO_START && verb != SCENARIO_RESTART)
        return fail(why, "Redis does not run");
    switch (verb) {
    case SCENARIO_KILL:
        stack_redis_kill(redis);
        return ACT_DONE;
    case SCENARIO_PAUSE:
        stack_redis_pause(redis);
        return ACT_DONE;
    case SCENARIO_RESUME:
        stack_redis_resume(redis);
        return ACT_DONE;
    case SCENARIO_START:
        if (redis->pid > 0)
            return fail(why, "Redis runs already");
        return done_if(stack_redis_restart(redis), why, "Redis did not start");
    case SCENARIO_RESTART:
        return done_if(stack_redis_restart(redis), why, "Redis did not start");
    case SCENARIO_FLUSH:
        return flush(servers, why);
    case SCENARIO_FAILOVER:
        return fail_over(servers, why);
    default:
        return fail(why, "not for Redis");
    }
}

/* ---- PostgreSQL ---- */

static enum act_outcome act_on_postgres(struct servers *servers, enum scenario_verb verb, char *why)
{
    struct stack_postgres *postgres = &servers->postgres;
    if (postgres->pid <= 0 && verb != SCENARIO_START && verb != SCENARIO_RESTART)
        return fail(why, "PostgreSQL does not run");
    switch (verb) {
    case SCENARIO_KILL:
        stack_postgres_kill(postgres);
        return ACT_DONE;
    case SCENARIO_PAUSE:
        stack_postgres_pause(postgres);
        return ACT_DONE;
    case SCENARIO_RESUME:
        stack_postgres_resume(postgres);
        return ACT_DONE;
    case SCENARIO_START:
        if (postgres->pid > 0)
            return fail(why, "PostgreSQL runs already");
        return done_if(stack_postgres_restart(postgres), why, "PostgreSQL did not start");
    case SCENARIO_RESTART:
        return done_if(stack_postgres_restart(postgres), why, "PostgreSQL did not start");
    default:
        return fail(why, "not for PostgreSQL");
    }
}

/* ---- catalogd ---- */

static enum act_outcome act_on_process(struct servers *servers, size_t index, enum scenario_verb verb,
                                       char *why)
{
    struct stack_catalogd *catalogd = &servers->catalogd[index];
    unsigned number = (unsigned)index + 1;
    if (catalogd->pid <= 0 && verb != SCENARIO_START && verb != SCENARIO_RESTART)
        return fail(why, "catalogd %u does not run", number);
    switch (verb) {
    case SCENARIO_KILL:
        stack_catalogd_kill(catalogd);
        return ACT_DONE;
    case SCENARIO_STOP:
        return proc_stop(&catalogd->pid, SIGTERM, COMMAND_LIMIT_MS)
                   ? ACT_DONE
                   : fail(why, "catalogd %u did not end on SIGTERM", number);
    case SCENARIO_PAUSE:
        stack_catalogd_pause(catalogd);
        return ACT_DONE;
    case SCENARIO_RESUME:
        stack_catalogd_resume(catalogd);
        return ACT_DONE;
    case SCENARIO_START:
        if (catalogd->pid > 0)
            return fail(why, "catalogd %u runs already", number);
        return done_if(stack_catalogd_restart(catalogd, servers->settings), why, "catalogd did not start");
    case SCENARIO_RESTART:
        return done_if(stack_catalogd_restart(catalogd, servers->settings), why, "catalogd did not start");
    default:
        return fail(why, "not for catalogd");
    }
}

/* SIGKILL to all before anybody is waited for: they shall die in the same moment, not one after the other. */
static void kill_together(struct servers *servers)
{
    for (size_t i = 0; i < servers->scenario->process_count; i++) {
        if (servers->catalogd[i].pid > 0)
            kill(servers->catalogd[i].pid, SIGKILL);
    }
}

static enum act_outcome act_on_processes(struct servers *servers, const struct scenario_action *action,
                                         char *why)
{
    enum act_outcome outcome = ACT_DONE;
    if (action->process != SCENARIO_ALL)
        return act_on_process(servers, action->process - 1, action->verb, why);
    if (action->verb == SCENARIO_KILL)
        kill_together(servers);
    for (size_t i = 0; outcome == ACT_DONE && i < servers->scenario->process_count; i++)
        outcome = act_on_process(servers, i, action->verb, why);
    return outcome;
}

static enum act_outcome act_on_leader(struct act *act, enum scenario_verb verb, char *why)
{
    if (verb == SCENARIO_START || verb == SCENARIO_RESUME) {
        if (!act->has_leader)
            return fail(why, "no leader was killed or paused before");
        return act_on_process(act->servers, act->leader, verb, why);
    }
    if (!servers_find_leader(act->servers, &act->leader))
        return ACT_AGAIN;
    act->has_leader = true;
    return act_on_process(act->servers, act->leader, verb, why);
}

/* ---- links ---- */

static enum act_outcome act_on_link(struct servers *servers, const struct scenario_action *action)
{
    size_t route = action->party == SCENARIO_LINK_REDIS ? servers->redis_route : servers->postgres_route;
    proxy_set(servers->proxy, route, action->fault, action->amount_ms);
    return ACT_DONE;
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
        return fail(why, "too many commands at a time");
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
        return act_on_redis(act->servers, action->verb, why);
    case SCENARIO_POSTGRES:
        return act_on_postgres(act->servers, action->verb, why);
    case SCENARIO_CATALOGD:
        return act_on_processes(act->servers, action, why);
    case SCENARIO_LEADER:
        return act_on_leader(act, action->verb, why);
    case SCENARIO_LINK_REDIS:
    case SCENARIO_LINK_POSTGRES:
        return act_on_link(act->servers, action);
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

/* True: it failed. */
static bool look_after(struct act_command *command, char *why)
{
    char line[160];
    int status = 0;
    bool ended = proc_wait(command->pid, 0, &status);
    if (!ended && clock_us() < command->end_by_us)
        return false;
    bool failed = !ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    last_line(command->output_path, line, sizeof line);
    if (!ended) {
        proc_kill_tree(&command->pid);
        fail(why, "it did not end within %d s and was killed: %s", COMMAND_LIMIT_MS / 1000, line);
    } else if (failed) {
        fail(why, "it ended with %s %d: %s", WIFEXITED(status) ? "status" : "signal",
             WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), line);
    }
    forget(command);
    return failed;
}

bool act_poll(struct act *act, size_t *tag, size_t *running, char why[static SCENARIO_WHY_BYTES])
{
    bool failed = false;
    *running = 0;
    if (act->errands != NULL)
        failed = errands_poll(act->errands, tag, running, why);
    for (size_t i = 0; i < ACT_COMMANDS_MAX; i++) {
        struct act_command *command = &act->commands[i];
        if (!failed && command->pid > 0) {
            failed = look_after(command, why);
            *tag = failed ? command->tag : *tag;
        }
        *running += command->pid > 0;
    }
    return failed;
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
