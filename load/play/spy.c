/* SPDX-License-Identifier: MIT */
/* spy.c - see spy.h. */
#include "load/play/spy.h"

#include "load/base/clock.h"
#include "load/base/interrupt.h"
#include "load/base/text.h"
#include "load/herd/work.h"
#include "load/stack/proxy.h"
#include "load/witness/wire.h"
#include "load/witness/witness_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAD_USAGE = 2, NOT_RUN = 3, TICK_MS = 20, WARN_EVERY_MS = 100 };

static const char *const names[WIRE_PROTOCOLS] = {"postgres", "mysql", "http"};

/* The proxy's thread's, once it runs. */
struct spy {
    enum wire_protocol protocol;
    int log; /* owned */
    uint64_t connections;
    const char *told; /* the last reason that stands on stderr */
};

struct spied {
    struct spy *spy;
    uint64_t number;
    uint64_t warn_us; /* when the log is to hear next that nothing is seen */
    struct wire wire;
};

/* ---- the log ---- */

/* A byte above ASCII is shown as if it were Latin-1: the log must be UTF-8, a statement need not. NULL: no text. */
static json_t *shown(const char *head, const char *text)
{
    struct text utf8 = {.bytes = NULL};
    if (text[0] == '\0' && head == NULL)
        return NULL;
    text_add_line(&utf8, head != NULL ? head : "Parameters: ");
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        const char two[] = {(char)(0xc0 | byte >> 6), (char)(0x80 | (byte & 0x3f))};
        text_add(&utf8, byte < 0x80 ? text : two, byte < 0x80 ? 1 : 2);
    }
    json_t *made = json_stringn(utf8.bytes, utf8.count);
    text_clear(&utf8);
    return made;
}

static void write_line(const struct spied *spied, const char *severity, const char *head, const char *message,
                       const char *detail)
{
    char stamp[48];
    uint64_t wall_us = clock_us() + clock_wall_ahead_us();
    time_t second = (time_t)(wall_us / 1000000);
    struct tm parts;
    gmtime_r(&second, &parts);
    size_t used = strftime(stamp, sizeof stamp, "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(stamp + used, sizeof stamp - used, ".%03u UTC", (unsigned)(wall_us / 1000 % 1000));
    json_t *record =
        json_pack("{s:s,s:I,s:s,s:o,s:o*,s:s}", "timestamp", stamp, "pid", (json_int_t)spied->number,
                  "error_severity", severity, "message", shown(head, message), "detail", shown(NULL, detail),
                  "backend_type", WITNESS_PROXY);
    char *line = json_dumps(record, JSON_COMPACT);
    if (line == NULL || dprintf(spied->spy->log, "%s\n", line) < 0)
        perror("stampede proxy: the log is incomplete");
    free(line);
    json_decref(record);
}

static void tell(void *context, const struct wire_statement *statement)
{
    char head[64];
    uint64_t took_us = statement->ended_us - statement->begun_us;
    snprintf(head, sizeof head, "duration: %" PRIu64 ".%03u ms  %s: ", took_us / 1000,
             (unsigned)(took_us % 1000), statement->parameters[0] != '\0' ? "execute proxy" : "statement");
    write_line(context, "LOG", head, statement->text, statement->parameters);
}

/* ---- connections ---- */

static void *open_one(void *context)
{
    struct spy *spy = context;
    struct spied *spied = calloc(1, sizeof *spied);
    if (spied == NULL)
        abort();
    spied->spy = spy;
    spied->number = ++spy->connections;
    wire_init(&spied->wire, spy->protocol, tell, spied);
    return spied;
}

/* Again and again, as long as something passes: whoever reads the log has to know. */
static void warn(struct spied *spied, uint64_t now_us)
{
    const char *reason = spied->wire.opaque;
    if (reason == NULL || reason[0] == '\0' || now_us < spied->warn_us)
        return;
    spied->warn_us = now_us + WARN_EVERY_MS * 1000;
    write_line(spied, "WARNING", "a connection cannot be read: ", reason, "");
    if (reason != spied->spy->told)
        fprintf(stderr, "stampede proxy: connection %" PRIu64 " cannot be read: %s\n", spied->number, reason);
    spied->spy->told = reason;
}

static void hear(void *connection, bool is_client, const char *bytes, size_t count, uint64_t now_us)
{
    struct spied *spied = connection;
    (is_client ? wire_client : wire_server)(&spied->wire, bytes, count, now_us);
    warn(spied, now_us);
}

static void close_one(void *connection, uint64_t now_us)
{
    struct spied *spied = connection;
    wire_clear(&spied->wire, now_us);
    free(spied);
}

/* ---- the whole ---- */

/* Why a side cannot be; NULL: it can. */
static const char *refuse(enum wire_protocol protocol, const char *text, const struct work_target *target)
{
    if (target->is_tls)
        return "the proxy speaks no TLS to an origin: name a plain HOST:PORT";
    bool is_plain = protocol == WIRE_HTTP || strcmp(text, target->name) == 0;
    return is_plain ? NULL : "its port is not said: name a plain HOST:PORT";
}

static bool read_route(enum wire_protocol protocol, const char *text, struct work_target *listen,
                       struct work_target *origin)
{
    char why[WORK_WHY_BYTES] = "write LISTEN=ORIGIN, such as 127.0.0.1:6432=127.0.0.1:5432", first[128];
    const char *equals = strchr(text, '=');
    bool is_cut = equals != NULL && (size_t)(equals - text) < sizeof first;
    if (is_cut)
        snprintf(first, sizeof first, "%.*s", (int)(equals - text), text);
    bool is_read =
        is_cut && work_target_parse(first, listen, why) && work_target_parse(equals + 1, origin, why);
    const char *refused = is_read ? refuse(protocol, first, listen) : why;
    if (refused == NULL)
        refused = refuse(protocol, equals + 1, origin);
    if (refused != NULL)
        fprintf(stderr, "stampede: proxy %s: %s\n", text, refused);
    return refused == NULL;
}

static int watch(struct spy *spy, const struct work_target *listen, const struct work_target *origin,
                 const char *log_path)
{
    struct proxy *proxy = NULL;
    const struct proxy_ear ear = {open_one, hear, close_one, spy};
    if (!proxy_open(1, &proxy) || !proxy_add_at(proxy, &listen->address, &origin->address, &ear)) {
        fprintf(stderr, "stampede: proxy: cannot listen on %s\n", listen->name);
        proxy_close(&proxy);
        return NOT_RUN;
    }
    printf("%s on %s goes to %s; statements to %s; Ctrl-C ends it\n", names[spy->protocol], listen->name,
           origin->name, log_path);
    fflush(stdout);
    while (!interrupt_seen())
        clock_pause_ms(TICK_MS);
    proxy_close(&proxy);
    return 0;
}

int spy_run(const char *protocol, const char *route, const char *log_path)
{
    struct spy spy = {.protocol = WIRE_POSTGRES};
    static struct work_target listen, origin;
    while (spy.protocol < WIRE_PROTOCOLS && strcmp(names[spy.protocol], protocol) != 0)
        spy.protocol++;
    if (spy.protocol == WIRE_PROTOCOLS || log_path == NULL) {
        fprintf(stderr, "stampede: proxy: %s\n",
                log_path == NULL ? "where do statements go? Add --log FILE"
                                 : "it reads postgres, mysql and http; name one of them");
        return BAD_USAGE;
    }
    if (!read_route(spy.protocol, route, &listen, &origin))
        return BAD_USAGE;
    spy.log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (spy.log == -1) {
        fprintf(stderr, "stampede: --log %s cannot be written: %s\n", log_path, strerror(errno));
        return NOT_RUN;
    }
    int status = watch(&spy, &listen, &origin, log_path);
    close(spy.log);
    return status;
}
