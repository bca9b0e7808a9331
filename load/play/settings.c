/* SPDX-License-Identifier: MIT */
/* settings.c - see scenario.h. */
#include "load/play/scenario.h"

#include "load/report/result_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void settings_describe(const struct work *work, char text[static RESULT_TEXT_BYTES])
{
    const char *connections = work->keeps_alive ? "" : ", a connection each";
    const char *plural = work->target_count == 1 ? "" : "s";
    if (work_script(work) != NULL)
        snprintf(text, RESULT_TEXT_BYTES, "%" PRIu64 " requests as in a log, over %.4g s, %zu target%s%s",
                 work_request_count(work), work->duration_ms / 1e3, work->target_count, plural, connections);
    else if (work->shape == WORK_BURST && work->round_count > 1)
        snprintf(text, RESULT_TEXT_BYTES,
                 "%" PRIu32 " requests at one instant, %" PRIu32 " times, %zu target%s%s",
                 work->connection_count, work->round_count, work->target_count, plural, connections);
    else if (work->shape == WORK_BURST)
        snprintf(text, RESULT_TEXT_BYTES, "%" PRIu32 " requests at one instant, %zu target%s%s",
                 work->connection_count, work->target_count, plural, connections);
    else
        snprintf(text, RESULT_TEXT_BYTES, "%" PRIu32 " requests a second for %.4g s%s, %zu target%s%s",
                 work->per_second, work->duration_ms / 1e3, work->is_poisson ? " at random instants" : "",
                 work->target_count, plural, connections);
}

/* ---- the list ---- */

#define DIGEST_SEED 2166136261u

enum { SAID_BYTES = SCENARIO_EVENTS_MAX * 256 + WORK_URLS_MAX * WORK_PATH_BYTES };

struct list {
    struct result_setting *at;
    size_t count;
    char text[SAID_BYTES]; /* of the one that is being said */
};

__attribute__((format(printf, 2, 3))) static void say(struct list *list, const char *format, ...)
{
    size_t used = strlen(list->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(list->text + used, sizeof list->text - used, format, arguments);
    va_end(arguments);
}

/* Of a text, or of several in turn, each with its end. */
static uint32_t add_digest(uint32_t digest, const char *text)
{
    for (const char *at = text;; at++) {
        digest = (digest ^ (unsigned char)*at) * 16777619u;
        if (*at == '\0')
            return digest;
    }
}

/* What was said so far; a digest stands for the rest of a long text, so that another text is another setting. */
static void end(struct list *list, const char *name)
{
    struct result_setting *setting = &list->at[list->count++];
    snprintf(setting->name, sizeof setting->name, "%s", name);
    text_clean(setting->value, sizeof setting->value, list->text[0] != '\0' ? list->text : "none", SIZE_MAX,
               false);
    if (strlen(list->text) >= sizeof setting->value)
        snprintf(setting->value + sizeof setting->value - 10, 10, "~%08" PRIx32,
                 add_digest(DIGEST_SEED, list->text));
    list->text[0] = '\0';
}

static void list_stack(struct list *list, const struct scenario *scenario)
{
    size_t vary_bytes = strlen(scenario->vary);
    if (scenario->process_count > 0)
        say(list, "%" PRIu32 " processes, %" PRIu32 " products", scenario->process_count,
            scenario->product_count);
    for (size_t i = 0; i < scenario->setting_count; i++) {
        const char *setting = scenario->settings[i];
        if (vary_bytes == 0 || strncmp(setting, scenario->vary, vary_bytes) != 0 ||
            setting[vary_bytes] != '=')
            say(list, ", %s", setting);
    }
    end(list, "stack");
}

/* Headers may hold secrets, and files are long: a digest stands for either. */
static void list_asked(struct list *list, const struct scenario *scenario, const struct work *work)
{
    say(list, "%s", scenario->script != NULL ? scenario->replay_note : work->method);
    for (size_t i = 0; scenario->script == NULL && i < work->url_count; i++) {
        const struct work_url *url = &work->urls[i];
        say(list, "%s %s weight %" PRIu32, i > 0 ? "," : "", url->path, url->weight);
        uint32_t digest = DIGEST_SEED;
        for (size_t k = 0; url->words != NULL && k < url->words->count; k++)
            digest = add_digest(digest, url->words->at[k]);
        if (url->words != NULL)
            say(list, " keys ~%08" PRIx32, digest);
    }
    if (scenario->headers[0] != '\0')
        say(list, ", headers ~%08" PRIx32, add_digest(DIGEST_SEED, scenario->headers));
    for (size_t i = 0; i < scenario->warm.url_count; i++)
        say(list, ", warm %s", scenario->warm.urls[i].path);
    end(list, "asked for");
}

static void list_requests(struct list *list, const struct scenario *scenario, const struct work *work)
{
    char what[RESULT_TEXT_BYTES];
    settings_describe(work, what);
    say(list, "%s", what);
    if (work->every_ms > 0 || work->pause_ms > 0)
        say(list, ", every %" PRIu32 " ms, pause %" PRIu32 " ms", work->every_ms, work->pause_ms);
    if (work->shape == WORK_RATE)
        say(list, ", at most %" PRIu32 " connections", work->connection_count);
    if (work->leave_percent > 0)
        say(list, ", %" PRIu32 " %% leave after %" PRIu32 " ms", work->leave_percent, work->leave_ms);
    for (size_t i = 0; i < scenario->cold_count; i++)
        say(list, ", before each %s", scenario->colds[i]);
    if (scenario->expiry_key[0] != '\0')
        say(list, ", when %s expires", scenario->expiry_key);
    end(list, "requests");
}

static void list_events(struct list *list, const struct scenario *scenario)
{
    for (size_t i = 0; i < scenario->event_count; i++) {
        const struct scenario_event *event = &scenario->events[i];
        say(list, event->is_on_load ? "%son load %" PRIu32 " after " : "%sat ", i > 0 ? "; " : "",
            event->load);
        say(list, "%" PRIu32 " ms %s", event->at_ms, event->text);
    }
    end(list, "what happens");
    for (size_t i = 0; i < scenario->write_count; i++) {
        const struct scenario_write *write = &scenario->writes[i];
        say(list, "%severy %" PRIu32 " ms keys %" PRIu32 "-%" PRIu32 " %s %s", i > 0 ? "; " : "",
            write->every_ms, write->first_key, write->last_key, write->sql, write->then);
    }
    end(list, "writes");
}

static void list_counting(struct list *list, const struct scenario *scenario)
{
    static const char *const ways[] = {
        [WITNESS_NONE] = "", [WITNESS_LOG] = "the log: ", [WITNESS_STATEMENTS] = "pg_stat_statements: "};
    say(list, "%s%s", ways[scenario->way], scenario->statement);
    if (scenario->has_ttl)
        say(list, ", ttl %" PRIu32 " ms, jitter %" PRIu32 " %%", scenario->ttl_ms, scenario->jitter_percent);
    end(list, "loads");
}

size_t settings_list(const struct scenario *scenario, const struct work *work,
                     struct result_setting out[static RESULT_SETTINGS_MAX])
{
    static struct list list; /* large; there is one thread */
    list = (struct list){.at = out};
    list_stack(&list, scenario);
    list_requests(&list, scenario, work);
    list_asked(&list, scenario, work);
    list_events(&list, scenario);
    list_counting(&list, scenario);
    return list.count;
}
