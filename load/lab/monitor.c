/* SPDX-License-Identifier: MIT */
/* monitor.c - see monitor.h. */
#include "load/lab/monitor.h"

#include "app/common/redis_link.h"
#include "load/base/clock.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>

enum { WORDS_MAX = 12, WORD_BYTES = 128, CLOCK_SLACK_US = 1000, READ_LIMIT_MS = 5000 };
static const char finish_mark[] = "lab-monitor-finish";

/* One line: instant, source, words. */
struct line {
    uint64_t at_us;
    char source[MONITOR_ADDRESS_BYTES]; /* "127.0.0.1:5000" or "lua" */
    char words[WORDS_MAX][WORD_BYTES];  /* as escaped by Redis, cut */
    size_t word_count;
};

/* ---- reading a line ---- */

/* From behind the opening quote; returns what follows the closing one, NULL if there is none. */
static const char *read_word(const char *text, char word[WORD_BYTES])
{
    size_t count = 0;
    for (; *text != '"'; text++) {
        if (*text == '\0')
            return NULL;
        if (*text == '\\' && text[1] != '\0')
            text++;
        if (count + 1 < WORD_BYTES)
            word[count++] = *text;
    }
    word[count] = '\0';
    return text + 1;
}

/* 1732225000.123456 [0 127.0.0.1:5000] "SET" "lock:x" ... */
static bool read_line(const char *text, struct line *line)
{
    uint64_t seconds, micros;
    int used = 0;
    if (sscanf(text, "%" SCNu64 ".%6" SCNu64 " [%*d %47[^]]] %n", &seconds, &micros, line->source, &used) !=
        3)
        return false;
    line->at_us = seconds * 1000000 + micros - clock_wall_ahead_us();
    line->word_count = 0;
    for (const char *at = text + used; at != NULL && *at != '\0' && line->word_count < WORDS_MAX;) {
        if (*at++ == '"')
            at = read_word(at, line->words[line->word_count++]);
    }
    return line->word_count > 0;
}

/* ---- what it means ---- */

static bool is_command(const struct line *line, const char *name)
{
    return strcasecmp(line->words[0], name) == 0;
}

static bool has_word(const struct line *line, const char *word)
{
    for (size_t i = 1; i < line->word_count; i++) {
        if (strcasecmp(line->words[i], word) == 0)
            return true;
    }
    return false;
}

/* The number behind EX or PX of a SET in milliseconds; 0: neither. */
static uint32_t set_ttl_ms(const struct line *line)
{
    for (size_t i = 3; i + 1 < line->word_count; i++) {
        const unsigned long number = strtoul(line->words[i + 1], NULL, 10);
        if (strcasecmp(line->words[i], "PX") == 0)
            return (uint32_t)number;
        if (strcasecmp(line->words[i], "EX") == 0)
            return (uint32_t)number * 1000;
    }
    return 0;
}

static bool on_lock(const struct line *line, struct monitor_event *event)
{
    if (is_command(line, "SET")) {
        event->kind = has_word(line, "NX") ? MONITOR_ATTEMPT : MONITOR_TAKE;
        event->ttl_ms = set_ttl_ms(line);
    } else if (is_command(line, "SETNX") || is_command(line, "HINCRBY")) {
        event->kind = MONITOR_ATTEMPT;
        return !is_command(line, "HINCRBY") || line->words[3][0] != '-';
    } else if (is_command(line, "EXPIRE") || is_command(line, "PEXPIRE")) {
        event->kind = MONITOR_EXPIRE;
        event->ttl_ms = (uint32_t)strtoul(line->words[2], NULL, 10) * (is_command(line, "EXPIRE") ? 1000 : 1);
    } else if (is_command(line, "DEL") || is_command(line, "UNLINK")) {
        event->kind = MONITOR_DELETE;
    } else {
        return false;
    }
    return true;
}

static bool understand(const struct monitor *monitor, const struct line *line, struct monitor_event *event)
{
    if (line->word_count < 2)
        return false;
    if (has_word(line, monitor->lock_name))
        return on_lock(line, event);
    event->kind = MONITOR_FILL;
    return is_command(line, "SET") && strcmp(line->words[1], monitor->value_name) == 0;
}

static void keep(struct monitor *monitor, const struct monitor_event *event)
{
    if (monitor->event_count == MONITOR_EVENTS_MAX)
        monitor->is_full = true;
    else
        monitor->events[monitor->event_count++] = *event;
}

static void take_line(struct monitor *monitor, const char *text)
{
    struct line line = {.word_count = 0};
    if (!read_line(text, &line))
        return;
    const bool is_inside = strcmp(line.source, "lua") == 0;
    if (!is_inside) {
        snprintf(monitor->caller, sizeof monitor->caller, "%s", line.source);
        monitor->call_count += line.at_us >= monitor->count_from_us &&
                               line.at_us <= monitor->count_until_us &&
                               !is_command(&line, "INFO"); /* our own look at its counters */
    }
    struct monitor_event event = {.at_us = line.at_us};
    snprintf(event.address, sizeof event.address, "%s", is_inside ? monitor->caller : line.source);
    const bool is_script = strncasecmp(line.words[0], "EVAL", 4) == 0; /* its arguments name the lock, too */
    if (!is_script && understand(monitor, &line, &event))
        keep(monitor, &event);
}

/* ---- the stream ---- */

bool monitor_again(struct monitor *monitor, const struct stack_redis *redis)
{
    struct redisReply *reply = NULL;
    monitor_close(monitor);
    monitor->context = redis_link_to_path(redis->socket_path, READ_LIMIT_MS);
    if (monitor->context != NULL)
        reply = redisCommand(monitor->context, "MONITOR");
    const bool good = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (!good)
        fprintf(stderr, "lab: Redis refuses MONITOR\n");
    freeReplyObject(reply);
    return good;
}

bool monitor_start(struct monitor *monitor, const struct stack_redis *redis, const struct scheme *scheme,
                   const char *key)
{
    monitor->event_count = 0;
    monitor->is_full = false;
    monitor->count_from_us = monitor->count_until_us = 0;
    monitor->call_count = 0;
    lab_names(scheme, key, monitor->value_name, monitor->lock_name);
    return monitor_again(monitor, redis);
}

void monitor_close(struct monitor *monitor)
{
    redisFree(monitor->context);
    monitor->context = NULL;
}

/* Reads until a line has the mark; NULL: until the connection ends. True: it came to that. */
static bool read_until(struct monitor *monitor, const char *mark)
{
    void *reply = NULL;
    while (monitor->context != NULL && redisGetReply(monitor->context, &reply) == REDIS_OK) {
        const struct redisReply *line = reply;
        const bool is_text = line->type == REDIS_REPLY_STATUS;
        const bool is_end = is_text && mark != NULL && strstr(line->str, mark) != NULL;
        if (is_text)
            take_line(monitor, line->str);
        freeReplyObject(reply);
        if (is_end)
            return true;
    }
    return mark == NULL;
}

void monitor_lost(struct monitor *monitor)
{
    read_until(monitor, NULL);
    monitor_close(monitor);
    keep(monitor, &(struct monitor_event){.kind = MONITOR_LOST, .at_us = clock_us()});
}

bool monitor_finish(struct monitor *monitor, struct stack_redis *redis)
{
    struct redisReply *echo = stack_redis_command(redis, "ECHO %s", finish_mark);
    const bool good = echo != NULL && read_until(monitor, finish_mark) && !monitor->is_full;
    freeReplyObject(echo);
    if (!good)
        fprintf(stderr, "lab: MONITOR is incomplete\n");
    monitor_close(monitor);
    return good;
}

/* ---- what follows from it ---- */

uint64_t monitor_filled_us(const struct monitor *monitor)
{
    for (size_t i = 0; i < monitor->event_count; i++) {
        if (monitor->events[i].kind == MONITOR_FILL)
            return monitor->events[i].at_us;
    }
    return 0;
}

/* When the same client tried again; the end of time if it did not. */
static uint64_t next_attempt_us(const struct monitor *monitor, size_t index)
{
    for (size_t i = index + 1; i < monitor->event_count; i++) {
        if (monitor->events[i].kind == MONITOR_ATTEMPT &&
            strcmp(monitor->events[i].address, monitor->events[index].address) == 0)
            return monitor->events[i].at_us;
    }
    return UINT64_MAX;
}

static bool took_lock(const struct monitor *monitor, size_t index, const struct fleet *fleet)
{
    const struct monitor_event *event = &monitor->events[index];
    const char *port = strrchr(event->address, ':');
    if (event->kind == MONITOR_TAKE)
        return true;
    const uint32_t worker =
        port != NULL ? fleet_worker_at(fleet, (uint16_t)strtoul(port + 1, NULL, 10)) : FLEET_ANYBODY;
    if (worker == FLEET_ANYBODY)
        return false;
    const struct fleet_note *held = fleet_first(
        fleet, NOTE_HELD, worker, event->at_us < CLOCK_SLACK_US ? 0 : event->at_us - CLOCK_SLACK_US);
    return held != NULL && held->note.at_us < next_attempt_us(monitor, index);
}

/* The lock as Redis has it. */
struct owned {
    const char *owner; /* NULL: free */
    uint64_t end_us;   /* 0: for ever */
};

static void lock_set(struct owned *lock, const struct monitor_event *event)
{
    lock->owner = event->address;
    lock->end_us = event->ttl_ms > 0 ? event->at_us + (uint64_t)event->ttl_ms * 1000 : 0;
}

static bool is_another_s(const struct owned *lock, const struct monitor_event *event)
{
    return lock->owner != NULL && (lock->end_us == 0 || event->at_us < lock->end_us) &&
           strcmp(lock->owner, event->address) != 0;
}

uint32_t monitor_wrong_deletions(const struct monitor *monitor, const struct fleet *fleet,
                                 uint64_t void_from_us, uint64_t void_until_us)
{
    struct owned lock = {.owner = NULL};
    uint32_t count = 0;
    for (size_t i = 0; i < monitor->event_count; i++) {
        const struct monitor_event *event = &monitor->events[i];
        const bool is_voided = event->at_us >= void_from_us && event->at_us <= void_until_us;
        switch (event->kind) {
        case MONITOR_ATTEMPT:
        case MONITOR_TAKE:
            if (took_lock(monitor, i, fleet))
                lock_set(&lock, event);
            break;
        case MONITOR_EXPIRE:
            lock.end_us = event->at_us + (uint64_t)event->ttl_ms * 1000;
            break;
        case MONITOR_DELETE:
            count += !is_voided && is_another_s(&lock, event);
            lock.owner = NULL;
            break;
        case MONITOR_LOST:
            lock.owner = NULL;
            break;
        case MONITOR_FILL:
            break;
        }
    }
    return count;
}
