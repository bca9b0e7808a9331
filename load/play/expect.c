/* SPDX-License-Identifier: MIT */
/* expect.c - an expectation out of its words; expect_judge.c measures. See expect.h. */
#include "load/play/expect.h"

#include "load/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(RESULT_TEXT_BYTES == 160, "as in the text");

enum unit { COUNT, SHARE, DURATION }; /* SHARE: a number or a percentage */

enum { WINDOW = 1 << 8, PARTS = 1 << 9 }; /* beside enum expect_needs */
enum { OF_REQUESTS = PARTS | WINDOW, OF_KEYS = EXPECT_NEEDS_LOADS | EXPECT_NEEDS_KEYS };

#define FIGURE(name, help) .shown = {name, NULL, help}

/* What a figure is called, what it means and what can be asked of it. */
static const struct trait {
    struct words_help shown;
    enum expect_figure figure;
    enum unit unit;
    unsigned traits;
} traits[] = {
    {FIGURE("requests", "all of them"), .figure = EXPECT_REQUESTS, .unit = COUNT, .traits = OF_REQUESTS},
    {FIGURE("answered per second", "over the whole run; only with a rate"), .figure = EXPECT_RATE,
     .unit = COUNT, .traits = 0},
    {FIGURE("failed", "no answer although the client stayed, or a 5xx. Not known where no answer was a 2xx "
                      "or 304 but some a redirect or a 4xx, unless that is expected too"),
     .figure = EXPECT_FAILED, .unit = SHARE, .traits = OF_REQUESTS},
    {FIGURE("status N", "answers with this status; 5xx: with any of that class"), .figure = EXPECT_STATUS,
     .unit = SHARE, .traits = OF_REQUESTS},
    {FIGURE("cache NAME",
            "answers whose Cache-Status says none, hit, stale, miss, collapsed, bypass or other"),
     .figure = EXPECT_CACHE, .unit = SHARE, .traits = OF_REQUESTS},
    {FIGURE("answered",
            "a complete response, whatever its status. The other outcomes: refused, unconnected, reset, "
            "timeout, rubbish, left, unsent, cut"),
     .figure = EXPECT_OUTCOME, .unit = SHARE, .traits = OF_REQUESTS},
    {FIGURE("p99",
            "latency of the answered, from the instant they were due: any percentile, such as p50 or p99.99, "
            "by nearest rank. Not known if there are so few answers that it is the slowest: p99 takes 100"),
     .figure = EXPECT_PERCENTILE, .unit = DURATION, .traits = OF_REQUESTS},
    {FIGURE("max", "the slowest answer; min: the quickest"), .figure = EXPECT_PERCENTILE, .unit = DURATION,
     .traits = OF_REQUESTS},
    {FIGURE("recovery",
            "from the end of the last fault until p99 is what it was before the first, under the same rate; "
            "load/README.md says how it is judged"),
     .figure = EXPECT_RECOVERY, .unit = DURATION, .traits = 0},
    {FIGURE("loads", "statements that began"), .figure = EXPECT_LOADS, .unit = COUNT,
     .traits = WINDOW | EXPECT_NEEDS_LOADS},
    {FIGURE("loads at once", "the most that ran at the same time, of those that began in the run; needs "
                             "log_duration = on, which a stack then has"),
     .figure = EXPECT_LOADS_AT_ONCE, .unit = COUNT, .traits = OF_KEYS},
    {FIGURE("loads per expiry", "what a guard keeps at 1; load/README.md says what an expiry is"),
     .figure = EXPECT_LOADS_PER_EXPIRY, .unit = COUNT, .traits = OF_KEYS},
    {FIGURE("most loads per expiry", "of any expiry: the mean hides one stampede among many quiet keys"),
     .figure = EXPECT_MOST_PER_EXPIRY, .unit = COUNT, .traits = OF_KEYS},
    {FIGURE("loads per key", "the most that any key had"), .figure = EXPECT_LOADS_PER_KEY, .unit = COUNT,
     .traits = OF_KEYS | WINDOW},
    {FIGURE("loaded keys", "how many different ones"), .figure = EXPECT_LOADED_KEYS, .unit = COUNT,
     .traits = OF_KEYS | WINDOW},
    {FIGURE("expiries", "of all keys"), .figure = EXPECT_EXPIRIES, .unit = COUNT, .traits = OF_KEYS},
    {FIGURE("redis commands", "including those run by scripts"), .figure = EXPECT_REDIS_COMMANDS,
     .unit = COUNT, .traits = EXPECT_NEEDS_REDIS},
    {FIGURE("stale answers", "older than a write that was over before the request was sent"),
     .figure = EXPECT_STALE, .unit = SHARE, .traits = 0},
};

enum { TRAITS = sizeof traits / sizeof *traits };

const struct words_help *expect_word(size_t index)
{
    return index < TRAITS ? &traits[index].shown : NULL;
}

static const char *const operators[] = {[EXPECT_LESS] = "<",
                                        [EXPECT_AT_MOST] = "<=",
                                        [EXPECT_EQUAL] = "=",
                                        [EXPECT_AT_LEAST] = ">=",
                                        [EXPECT_MORE] = ">"};

/* ---- figures ---- */

static bool refuse_figure(const char *name, char *why)
{
    words_refuse_unknown(why, "figure", name, expect_word);
    for (unsigned i = 1; i < RECORD_OUTCOMES; i++) {
        size_t used = strlen(why);
        snprintf(why + used, EXPECT_WHY_BYTES - used, ", %s", record_outcome_name((enum record_outcome)i));
    }
    return false;
}

static const struct trait *trait_of(enum expect_figure figure)
{
    for (size_t i = 0; i < TRAITS; i++) {
        if (traits[i].figure == figure)
            return &traits[i];
    }
    return NULL;
}

/* "200" or "5xx". */
static bool read_status(const char *word, unsigned *number)
{
    uint32_t status;
    if (word == NULL)
        return false;
    if (strlen(word) == 3 && strcmp(word + 1, "xx") == 0 && word[0] >= '1' && word[0] <= '5') {
        *number = (unsigned)(word[0] - '0');
        return true;
    }
    if (!number_read(word, 100, 599, &status))
        return false;
    *number = status;
    return true;
}

static bool read_cache(const char *word, unsigned *number)
{
    for (unsigned i = 0; word != NULL && i < RECORD_CACHES; i++) {
        if (strcmp(word, record_cache_name((enum record_cache)i)) == 0) {
            *number = i;
            return true;
        }
    }
    return false;
}

static bool read_percentile(const char *name, double *percentile)
{
    if (strcmp(name, "max") == 0 || strcmp(name, "min") == 0) {
        *percentile = name[1] == 'a' ? 100 : 0;
        return true;
    }
    return name[0] == 'p' && number_read_decimal(name + 1, percentile) && *percentile > 0 &&
           *percentile <= 100;
}

static bool read_outcome(const char *name, unsigned *number)
{
    for (unsigned i = 0; i < RECORD_OUTCOMES; i++) {
        if (strcmp(name, record_outcome_name((enum record_outcome)i)) == 0) {
            *number = i;
            return true;
        }
    }
    return false;
}

static bool is_operator(const char *word)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (strcmp(word, operators[i]) == 0)
            return true;
    }
    return strcmp(word, "==") == 0;
}

/* "loads per expiry": everything before an operator or "of". */
static void read_name(struct words *words, char *name, size_t name_bytes)
{
    size_t used = 0;
    name[0] = '\0';
    while (words_peek(words) != NULL && !is_operator(words_peek(words)) &&
           strcmp(words_peek(words), "of") != 0 && used < name_bytes)
        used +=
            (size_t)snprintf(name + used, name_bytes - used, "%s%s", used > 0 ? " " : "", words_next(words));
}

static bool find_figure(const char *name, struct expect *out)
{
    for (size_t i = 0; i < TRAITS; i++) {
        if (strcmp(name, traits[i].shown.name) == 0 && traits[i].figure != EXPECT_PERCENTILE) {
            out->figure = traits[i].figure;
            return true;
        }
    }
    return false;
}

static bool read_figure(struct words *words, struct expect *out, char *why)
{
    char name[80];
    if (words_skip(words, "status")) {
        out->figure = EXPECT_STATUS;
        const char *word = words_next(words);
        return read_status(word, &out->number) ||
               words_refuse(why, "a status is 100 to 599, or 5xx for a class, not", word != NULL ? word : "");
    }
    if (words_skip(words, "cache")) {
        out->figure = EXPECT_CACHE;
        const char *word = words_next(words);
        return read_cache(word, &out->number) ||
               words_refuse(why, "a cache status is none, hit, stale, miss, collapsed, bypass or other, not",
                            word != NULL ? word : "");
    }
    read_name(words, name, sizeof name);
    if (find_figure(name, out))
        return true; /* "answered" is outcome 0, which is what number is */
    out->figure = EXPECT_PERCENTILE;
    if (read_percentile(name, &out->percentile))
        return true;
    out->figure = EXPECT_OUTCOME;
    return read_outcome(name, &out->number) || refuse_figure(name, why);
}

/* ---- the rest ---- */

static bool read_part(struct words *words, struct expect *out, char *why)
{
    if (!words_skip(words, "of"))
        return true;
    if ((trait_of(out->figure)->traits & PARTS) == 0)
        return words_refuse(why, "\"of\" is for figures of requests and latency", NULL);
    uint32_t index;
    if (words_skip(words, "status") && read_status(words_peek(words), &out->part_number)) {
        out->part = EXPECT_PART_STATUS;
    } else if (words_skip(words, "url") && words_peek(words) != NULL &&
               number_read(words_peek(words), 1, WORK_URLS_MAX, &index)) {
        out->part = EXPECT_PART_URL;
        out->part_number = index - 1;
    } else {
        return words_refuse(why, "after \"of\": status N or url N", NULL);
    }
    words_next(words);
    return true;
}

static bool read_operator(struct words *words, struct expect *out, char *why)
{
    const char *word = words_next(words);
    if (word == NULL)
        return words_refuse(why, "a comparison is missing, for instance: <= 1", NULL);
    for (unsigned i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (strcmp(word, operators[i]) == 0 || (i == EXPECT_EQUAL && strcmp(word, "==") == 0)) {
            out->operator=(enum expect_operator) i;
            return true;
        }
    }
    return words_refuse(why, "a comparison is one of < <= = >= >, not", word);
}

static bool read_value(struct words *words, struct expect *out, char *why)
{
    const char *word = words_next(words);
    if (word == NULL)
        return words_refuse(why, "a value is missing after the comparison", NULL);
    switch (trait_of(out->figure)->unit) {
    case DURATION:
        return number_read_us(word, &out->wanted) ||
               words_refuse(why, "a time is like 300ms or 1.5s, not", word);
    case SHARE:
        out->is_share = number_read_percent(word, &out->wanted);
        return out->is_share || number_read_decimal(word, &out->wanted) ||
               words_refuse(why, "a number or a share like 99.5% is needed, not", word);
    case COUNT:
        break;
    }
    return number_read_decimal(word, &out->wanted) || words_refuse(why, "a number is needed, not", word);
}

static bool read_window(struct words *words, struct expect *out, char *why)
{
    if (!words_skip(words, "from"))
        return true;
    const char *from = words_next(words);
    bool has_to = words_skip(words, "to");
    const char *to = has_to ? words_next(words) : NULL;
    if (from == NULL || to == NULL || !number_read_ms(from, &out->from_ms) ||
        !number_read_ms(to, &out->to_ms) || out->from_ms >= out->to_ms)
        return words_refuse(why, "a window is written: from 4s to 6s", NULL);
    if ((trait_of(out->figure)->traits & WINDOW) == 0)
        return words_refuse(why, "this figure is about the whole run: leave out", "from ... to ...");
    out->has_window = true;
    return true;
}

static bool read_variant(struct words *words, struct expect *out, char *why)
{
    if (!words_skip(words, "in"))
        return true;
    const char *name = words_next(words);
    if (name == NULL || strlen(name) >= sizeof out->variant)
        return words_refuse(why, "a value of the vary line is missing after \"in\"", NULL);
    snprintf(out->variant, sizeof out->variant, "%s", name);
    return true;
}

bool expect_parse(struct words *words, struct expect *out, char why[static EXPECT_WHY_BYTES])
{
    struct words whole = *words; /* with a cursor of its own */
    memset(out, 0, sizeof *out);
    if (!words_rest(&whole, out->text, sizeof out->text))
        return words_refuse(why, "the expectation is too long: at most 159 bytes", NULL);
    if (words_peek(words) == NULL)
        return words_refuse(why, "an expectation is missing", NULL);
    if (!read_figure(words, out, why) || !read_part(words, out, why) || !read_operator(words, out, why) ||
        !read_value(words, out, why) || !read_window(words, out, why) || !read_variant(words, out, why))
        return false;
    return words_peek(words) == NULL || words_refuse(why, "unexpected:", words_peek(words));
}

unsigned expect_needs(const struct expect *expect)
{
    unsigned needs = trait_of(expect->figure)->traits;
    if ((needs & EXPECT_NEEDS_LOADS) != 0 && expect->has_window)
        needs |= EXPECT_NEEDS_KEYS;
    return needs & EXPECT_NEEDS_ALL;
}
