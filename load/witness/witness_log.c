/* SPDX-License-Identifier: MIT */
/*
 * witness_log.c - see witness_log.h.
 *
 *     bytes --> line --(tab)--> the message goes on
 *                    --(else)-> the message is over: judge it; a new one begins
 *     end of what there is ---> judge it, too: it may be complete, and nobody knows when the next one comes
 *
 * A message is judged again while it grows, until it is found to be a load; then only its key is read again. Lines of
 * one message are written at once, but another process's may stand between a message and its DETAIL: they are paired
 * by process.
 */
#include "load/witness/witness_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TEXT_MAX_BYTES = 1 << 20, RUBBISH_LEAST = 3 };

static const size_t no_load = SIZE_MAX;

struct span {
    const char *at;
    size_t bytes;
};

/* ---- texts ---- */

/* What is beyond TEXT_MAX_BYTES is dropped: nobody's marker stands there. */
static void add(struct text *text, const char *bytes, size_t count)
{
    size_t left = TEXT_MAX_BYTES - text->count;
    text_add(text, bytes, count < left ? count : left);
}

static bool contains(struct span span, const char *text)
{
    return span.bytes > 0 && memmem(span.at, span.bytes, text, strlen(text)) != NULL;
}

static bool begins(struct span span, const char *text)
{
    size_t bytes = strlen(text);
    return span.bytes >= bytes && memcmp(span.at, text, bytes) == 0;
}

static struct span skip(struct span span, size_t bytes)
{
    return (struct span){span.at + bytes, span.bytes - bytes};
}

/* Past what stands from here to behind `end`; all of it if that is not there. */
static struct span skip_past(struct span span, const char *end)
{
    const char *found = memmem(span.at, span.bytes, end, strlen(end));
    return skip(span, found != NULL ? (size_t)(found - span.at) + strlen(end) : span.bytes);
}

static uint64_t number_behind(struct span span, const char *text)
{
    char number[24] = "";
    struct span rest = skip_past(span, text);
    snprintf(number, sizeof number, "%.*s", (int)(rest.bytes < 23 ? rest.bytes : 23), rest.at);
    return strtoull(number, NULL, 10);
}

/* Of a form, which begins with it. */
static bool is_command(const char *form, const char *command)
{
    size_t bytes = strlen(command);
    return strncasecmp(form, command, bytes) == 0 && form[bytes] == ' ';
}

/* ---- what runs ---- */

static size_t find_running(const struct witness_running *running, uint64_t process)
{
    size_t at = 0;
    while (at < running->count && running->process[at] != process)
        at++;
    return at;
}

void witness_running_begin(struct witness_running *running, uint64_t process)
{
    if (find_running(running, process) < running->count)
        return;
    if (running->count == WITNESS_RUNNING_MAX) {
        running->is_overfull = true;
        return;
    }
    running->process[running->count++] = process;
    if (running->count > running->most)
        running->most = (uint32_t)running->count;
}

/* A line of this process that begins another message; is_end: "duration: ...". */
static void running_line(struct witness_running *running, uint64_t process, bool is_end)
{
    size_t at = find_running(running, process);
    if (at == running->count)
        return;
    running->process[at] = running->process[--running->count];
    running->ended += is_end;
}

/* ---- pending statements ---- */

static struct witness_pending *find_pending(struct witness_log *log, uint64_t process)
{
    for (size_t i = 0; i < WITNESS_LOG_PENDING; i++) {
        if (log->pending[i].process == process)
            return &log->pending[i];
    }
    return NULL;
}

static struct witness_pending *begin_pending(struct witness_log *log)
{
    struct witness_pending *pending = find_pending(log, log->head.process);
    if (pending == NULL) {
        pending = &log->pending[log->next_pending];
        log->next_pending = (log->next_pending + 1) % WITNESS_LOG_PENDING;
    }
    const uint64_t ago_us = log->clock.wall_us - witness_line_wall_us(&log->head, log->clock.wall_us);
    *pending = (struct witness_pending){
        .process = log->head.process, .load = no_load, .at_us = log->clock.now_us - ago_us};
    return pending;
}

/* It ended when its line was written, and had begun so long before. */
static struct witness_pending *begin_ended(struct witness_log *log, uint64_t took_us)
{
    struct witness_pending *pending = begin_pending(log);
    pending->end_us = pending->at_us;
    pending->at_us -= took_us < pending->at_us ? took_us : pending->at_us;
    return pending;
}

static void forget_pending(struct witness_log *log)
{
    struct witness_pending *pending = find_pending(log, log->head.process);
    if (pending != NULL)
        *pending = (struct witness_pending){.load = no_load};
}

static bool grow(struct witness_log *log)
{
    struct witness_load *loads = list_grow(log->loads, log->load_count, &log->load_room, sizeof *loads);
    log->is_out_of_memory = log->is_out_of_memory || loads == NULL;
    log->loads = loads != NULL ? loads : log->loads;
    return loads != NULL;
}

static void count_load(struct witness_log *log, struct witness_pending *pending)
{
    if (pending->load != no_load || (pending->end_us != 0 && pending->at_us < log->since_us) || !grow(log))
        return;
    pending->load = log->load_count;
    struct witness_load *load = &log->loads[log->load_count++];
    *load = (struct witness_load){.at_us = pending->at_us, .end_us = pending->end_us};
    memcpy(load->key, pending->key, sizeof load->key);
    log->timed_count += pending->end_us != 0;
    if (pending->end_us == 0)
        witness_running_begin(&log->running, pending->process);
}

/* ---- what a message is ---- */

static bool is_wanted(const struct witness_log *log, struct span statement)
{
    return log->statement == NULL || contains(statement, log->statement);
}

/* Its own values; or none until DETAIL brings them. */
static void keep_key(struct witness_log *log, struct witness_pending *pending, const struct witness_key *read)
{
    if (!read->has_parameters)
        memcpy(pending->key, read->text, sizeof pending->key);
    if (pending->load == no_load)
        return;
    memcpy(log->loads[pending->load].key, pending->key, sizeof pending->key);
    log->keyless_count += read->has_parameters && !pending->is_keyless;
    pending->is_keyless = pending->is_keyless || read->has_parameters;
}

/* What a message says of a statement. */
struct said {
    struct span statement;
    bool is_simple, has_ended;
    uint64_t took_us;
};

/* "statement: ..." and "execute NAME: ..." */
static bool is_statement(struct span text)
{
    return begins(text, "statement: ") || (begins(text, "execute ") && !begins(text, "execute fetch from "));
}

/* "duration: 12.003 ms" and, behind two spaces, what took so long: a statement, or "parse p1: ..." */
static struct span read_duration(struct witness_log *log, struct span text, struct said *out)
{
    static const uint64_t most_us = (uint64_t)1 << 50;
    struct span rest = skip_past(text, " ms  ");
    uint64_t ms = number_behind(text, "duration: "), us = number_behind(text, ".");
    out->has_ended = true;
    out->took_us = ms < most_us / 1000 && us < 1000 ? ms * 1000 + us : 0;
    if (rest.bytes > 0 && !contains(rest, WITNESS_OURS) &&
        (log->shortest_us == 0 || out->took_us < log->shortest_us))
        log->shortest_us = out->took_us;
    return rest;
}

/* True: it is about a statement that ran. */
static bool read_said(struct witness_log *log, struct span text, struct said *out)
{
    *out = (struct said){.statement = text, .is_simple = true};
    if (log->head.kind == WITNESS_LINE_STATEMENT) { /* of an error; where it was logged before it is known */
        out->has_ended = true;
        return log->is_timed && !log->is_begun;
    }
    if (begins(text, "duration: "))
        text = read_duration(log, text, out);
    out->statement = skip_past(text, ": ");
    out->is_simple = begins(text, "statement: ");
    return is_statement(text);
}

static void judge_statement(struct witness_log *log, const struct said *said)
{
    struct witness_key read;
    struct span statement = said->statement;
    struct witness_pending *pending = said->has_ended ? begin_ended(log, said->took_us) : begin_pending(log);
    witness_key_read(statement.at, statement.bytes, &read);
    if (contains(statement, WITNESS_OURS)) {
        pending->is_ours = true;
        if (log->awaited != 0 &&
            number_behind(statement, WITNESS_OURS) == log->awaited) /* "... witness 17 ..." */
            log->has_awaited = true;
    } else if (said->is_simple && is_command(read.form, "PREPARE")) {
        forget_pending(log);
    } else {
        log->is_timed = log->is_timed || said->has_ended;
        log->is_begun = log->is_begun || !said->has_ended;
        pending->is_execute = said->is_simple && is_command(read.form, "EXECUTE");
        if (is_wanted(log, statement))
            count_load(log, pending);
        keep_key(log, pending, &read);
    }
    log->is_judged = pending->is_ours || pending->load != no_load;
}

static void take_parameters(struct witness_log *log, struct witness_pending *pending, struct span parameters)
{
    struct witness_key read;
    if (pending->load == no_load)
        return;
    witness_key_read(parameters.at, parameters.bytes, &read);
    memcpy(log->loads[pending->load].key, read.text, sizeof read.text);
    log->keyless_count -= pending->is_keyless;
    log->has_parameters = true;
    pending->is_keyless = false;
}

static void judge_detail(struct witness_log *log, struct span text)
{
    struct witness_pending *pending = find_pending(log, log->head.process);
    if (pending == NULL)
        return;
    if (witness_line_parameters(text.at, text.bytes) != NULL)
        take_parameters(log, pending, skip_past(text, ": "));
    else if (begins(text, "prepare: ") && pending->is_execute && is_wanted(log, text))
        count_load(log, pending);
}

/* The load that this message is. */
static struct witness_pending *load_of(struct witness_log *log)
{
    bool is_one =
        log->is_judged && (log->head.kind == WITNESS_LINE_LOG || log->head.kind == WITNESS_LINE_STATEMENT);
    struct witness_pending *pending = is_one ? find_pending(log, log->head.process) : NULL;
    return pending != NULL && pending->load != no_load ? pending : NULL;
}

static void judge(struct witness_log *log)
{
    struct witness_key read;
    struct said said;
    struct span text = {log->message.bytes, log->message.count};
    struct witness_pending *load = load_of(log);
    if ((log->is_judged && load == NULL) || text.bytes == 0)
        return;
    if (log->head.kind == WITNESS_LINE_DETAIL) {
        judge_detail(log, text);
    } else if (load != NULL) { /* it has grown */
        read_said(log, text, &said);
        witness_key_read(said.statement.at, said.statement.bytes, &read);
        keep_key(log, load, &read);
    } else if ((log->head.kind == WITNESS_LINE_LOG || log->head.kind == WITNESS_LINE_STATEMENT) &&
               read_said(log, text, &said)) {
        judge_statement(log, &said);
    }
}

/* ---- what was asked instead ---- */

static bool is_query(const char *form)
{
    return is_command(form, "SELECT") || is_command(form, "GET") || is_command(form, "WITH") ||
           is_command(form, "EXECUTE") || is_command(form, "DECLARE");
}

/* What comes often has a place at the end, whatever comes in between. */
static void count_other(struct witness_log *log, const char *form)
{
    struct witness_other *vacant = NULL;
    for (size_t i = 0; i < WITNESS_LOG_OTHERS; i++) {
        struct witness_other *other = &log->others[i];
        if (other->count > 0 && strcmp(other->form, form) == 0) {
            other->count++;
            return;
        }
        if (other->count == 0)
            vacant = other;
    }
    for (size_t i = 0; vacant == NULL && i < WITNESS_LOG_OTHERS; i++)
        log->others[i].count--;
    if (vacant == NULL)
        return;
    *vacant = (struct witness_other){.count = 1};
    memcpy(vacant->form, form, sizeof vacant->form);
}

/* A whole message that is no load, while nothing was one. */
static void note_other(struct witness_log *log)
{
    struct witness_key read;
    struct span text = {log->message.bytes, log->message.count};
    struct said said;
    if (log->load_count > 0 || log->is_judged || log->head.kind != WITNESS_LINE_LOG || text.bytes == 0 ||
        !read_said(log, text, &said))
        return;
    witness_key_read(said.statement.at, said.statement.bytes, &read);
    if (is_query(read.form))
        count_other(log, read.form);
}

/* ---- who is gone ---- */

/* A process that is killed writes no line. The postmaster does; and then it ends all others, without one of
 * theirs. */
static void note_gone(struct witness_log *log, struct span text)
{
    static const char one[] = "server process (PID ";
    if (begins(text, one))
        running_line(&log->running, number_behind(text, one), false);
    else if (begins(text, "all server processes terminated; ") || begins(text, "starting PostgreSQL "))
        log->running.count = 0; /* no server process is left */
}

/* ---- lines ---- */

static void end_message(struct witness_log *log)
{
    judge(log);
    note_other(log);
    log->head = (struct witness_line){.kind = WITNESS_LINE_RUBBISH};
    log->message.count = 0;
    log->is_judged = false;
}

static void note_bad(struct witness_log *log, struct span line, const struct witness_line *read)
{
    size_t bytes = read->kind == WITNESS_LINE_UNDATED ? read->prefix_bytes : line.bytes, count = 0;
    for (; count < bytes && count + 1 < sizeof log->last_bad; count++)
        log->last_bad[count] = (char)(line.at[count] >= ' ' && line.at[count] <= '~' ? line.at[count] : '?');
    log->last_bad[count] = '\0';
    log->last_kind = read->kind;
}

static void begin_message(struct witness_log *log, struct span line, const struct witness_line *read)
{
    end_message(log);
    bool is_first = log->rubbish_count == 0 && log->last_kind == WITNESS_LINE_RUBBISH;
    log->rubbish_count += read->kind == WITNESS_LINE_RUBBISH && line.bytes > 0;
    if (read->kind == WITNESS_LINE_UNDATED || read->kind == WITNESS_LINE_WORDLESS ||
        (is_first && log->rubbish_count > 0))
        note_bad(log, line, read);
    if (read->kind < WITNESS_LINE_LOG || read->kind > WITNESS_LINE_OTHER)
        return;
    log->readable_count++;
    log->last_kind = read->kind;
    log->head = *read;
    if (read->kind != WITNESS_LINE_DETAIL)
        running_line(&log->running, read->process,
                     begins((struct span){read->text, read->text_bytes}, "duration: "));
    if (read->kind == WITNESS_LINE_LOG) {
        note_gone(log, (struct span){read->text, read->text_bytes});
        forget_pending(log);
    }
    add(&log->message, read->text, read->text_bytes);
}

static void add_part(struct witness_log *log, const struct text *text, enum witness_line_kind kind)
{
    struct witness_line part = log->record.line;
    part.kind = kind;
    part.text = text->bytes;
    part.text_bytes = text->count;
    if (text->count > 0)
        begin_message(log, (struct span){text->bytes, text->count}, &part);
}

/* Whole, so it is a message that does not go on. */
static void take_record(struct witness_log *log, enum witness_format format, struct span line)
{
    struct witness_record *record = &log->record;
    if (!witness_record_read(format, line.at, line.bytes, record))
        record->line = (struct witness_line){.kind = WITNESS_LINE_WORDLESS};
    if (record->line.kind == WITNESS_LINE_WORDLESS) {
        begin_message(log, line, &record->line);
        return;
    }
    add_part(log, &record->message, record->line.kind);
    add_part(log, &record->detail, WITNESS_LINE_DETAIL);
    add_part(log, &record->statement, WITNESS_LINE_STATEMENT);
    end_message(log);
    log->opaque_count += record->is_of_proxy && record->line.kind == WITNESS_LINE_OTHER;
    log->shortest_us = record->is_of_proxy ? 0 : log->shortest_us;
    log->coarse_count += record->is_coarse;
    log->fine_count += !record->is_coarse;
}

static bool has_odd_quotes(struct span line)
{
    bool is_odd = false;
    for (size_t i = 0; i < line.bytes; i++)
        is_odd ^= line.at[i] == '"';
    return is_odd;
}

/* False: it is a line of stderr's. A record of CSV goes on while its quotes are odd. */
static bool take_of_record(struct witness_log *log, struct span line)
{
    enum witness_format format = log->csv.count > 0 ? WITNESS_CSV : witness_format_of(line.at, line.bytes);
    if (format == WITNESS_STDERR)
        return false;
    if (format != WITNESS_CSV) {
        take_record(log, format, line);
        return true;
    }
    if (log->csv.count > 0)
        add(&log->csv, "\n", 1);
    add(&log->csv, line.at, line.bytes);
    log->is_quoted ^= has_odd_quotes(line);
    if (!log->is_quoted) {
        take_record(log, format, (struct span){log->csv.bytes, log->csv.count});
        log->csv.count = 0;
    }
    return true;
}

static void take_line(struct witness_log *log, struct span line)
{
    struct witness_line read;
    if (line.bytes > 0 && line.at[line.bytes - 1] == '\r')
        line.bytes--;
    if (take_of_record(log, line))
        return;
    witness_line_read(line.at, line.bytes, &read);
    if (read.kind != WITNESS_LINE_GOES_ON) {
        begin_message(log, line, &read);
    } else if (log->head.kind != WITNESS_LINE_RUBBISH && (!log->is_judged || load_of(log) != NULL)) {
        add(&log->message, "\n", 1);
        add(&log->message, read.text, read.text_bytes);
    }
}

void witness_log_init(struct witness_log *log, const char *statement)
{
    *log = (struct witness_log){.statement = statement};
    for (size_t i = 0; i < WITNESS_LOG_PENDING; i++)
        log->pending[i].load = no_load;
}

void witness_log_feed(struct witness_log *log, const char *bytes, size_t count, struct witness_clock clock)
{
    struct span rest = {bytes, count};
    log->clock = clock;
    while (rest.bytes > 0) {
        const char *end = memchr(rest.at, '\n', rest.bytes);
        size_t piece = end != NULL ? (size_t)(end - rest.at) : rest.bytes;
        add(&log->line, rest.at, piece);
        rest = skip(rest, end != NULL ? piece + 1 : piece);
        if (end != NULL) {
            take_line(log, (struct span){log->line.bytes, log->line.count});
            log->line.count = 0;
        }
    }
    if (log->line.count == 0)
        judge(log);
}

void witness_log_break(struct witness_log *log)
{
    log->line.count = log->csv.count = 0;
    log->is_quoted = false;
    end_message(log);
}

/* An access log's, as far as nothing of PostgreSQL's looks so: `... "GET /a HTTP/1.1" 200 -`, or another object. */
static bool is_of_requests(const char *line)
{
    const char *quote = strstr(line, "] \"");
    char slash[2];
    return (line[0] == '{' && strncmp(line, "{\"timestamp\":", 13) != 0) ||
           (quote != NULL && sscanf(quote, "] \"%*[A-Z] %1[/h]", slash) == 1);
}

static void explain_bad(const struct witness_log *log, const char *path, char why[static WITNESS_WHY_BYTES])
{
    if (is_of_requests(log->last_bad))
        snprintf(why, WITNESS_WHY_BYTES,
                 "%.60s: \"%.60s\" is no line of an access log: combined needs a date like "
                 "[30/Nov/2026:00:29:09 +0000], JSON a time, method and path",
                 path, log->last_bad);
    else
        snprintf(why, WITNESS_WHY_BYTES,
                 "%.60s: \"%.60s\" is no line of an access log, nor of PostgreSQL's in English: set "
                 "log_destination = 'stderr' and lc_messages = 'C' there and reload",
                 path, log->last_bad);
}

/* Lines that look like nothing may be another program's, beside those of PostgreSQL. */
bool witness_log_is_readable(const struct witness_log *log, const char *path,
                             char why[static WITNESS_WHY_BYTES])
{
    if (log->last_kind == WITNESS_LINE_UNDATED) {
        snprintf(why, WITNESS_WHY_BYTES,
                 "%.60s: its lines begin with \"%.60s\": set log_line_prefix = '%%m [%%p] ' and reload; it "
                 "needs %%m or %%n, and %%p",
                 path, log->last_bad);
        return false;
    }
    bool is_rubbish = log->last_kind == WITNESS_LINE_RUBBISH && log->rubbish_count >= RUBBISH_LEAST;
    if ((log->last_kind == WITNESS_LINE_WORDLESS || is_rubbish) && log->readable_count == 0) {
        explain_bad(log, path, why);
        return false;
    }
    return true;
}

void witness_log_clear(struct witness_log *log)
{
    free(log->loads);
    text_clear(&log->line);
    text_clear(&log->message);
    text_clear(&log->csv);
    witness_record_clear(&log->record);
    *log = (struct witness_log){.statement = NULL};
}
