/* SPDX-License-Identifier: MIT */
/* expect.c - an expectation out of its words; expect_judge.c measures. See expect.h. */
#include "load/play/expect.h"

#include "load/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum unit { COUNT, SHARE, DURATION }; /* SHARE: a number or a percentage */

/* What a figure is called and what can be asked of it. Longer names stand before those they begin with. */
static const struct trait {
    const char *name;
    enum expect_figure figure;
    enum unit unit;
    bool of_requests; /* has parts */
    bool has_window;
    bool needs_loads, needs_keys, needs_samples, needs_redis;
} traits[] = {
    {"requests", EXPECT_REQUESTS, COUNT, true, true, false, false, false, false},
    {"answered per second", EXPECT_RATE, COUNT, false, false, false, false, false, false},
    {"failed", EXPECT_FAILED, SHARE, true, true, false, false, false, false},
    {"errors", EXPECT_ERRORS, SHARE, true, true, false, false, false, false},
    {"status N", EXPECT_STATUS, SHARE, true, true, false, false, false, false},
    {"cache NAME", EXPECT_CACHE, SHARE, true, true, false, false, false, false},
    {"answered", EXPECT_OUTCOME, SHARE, true, true, false, false, false, false},
    {"p99", EXPECT_PERCENTILE, DURATION, true, true, false, false, false, false},
    {"max", EXPECT_PERCENTILE, DURATION, true, true, false, false, false, false},
    {"mean", EXPECT_MEAN, DURATION, true, true, false, false, false, false},
    {"loads", EXPECT_LOADS, COUNT, false, true, true, false, false, false},
    {"loads at once", EXPECT_LOADS_AT_ONCE, COUNT, false, false, true, true, false, false},
    {"loads per expiry", EXPECT_LOADS_PER_EXPIRY, COUNT, false, false, true, true, false, false},
    {"loads per key", EXPECT_LOADS_PER_KEY, COUNT, false, true, true, true, false, false},
    {"loaded keys", EXPECT_LOADED_KEYS, COUNT, false, true, true, true, false, false},
    {"expiries", EXPECT_EXPIRIES, COUNT, false, false, true, true, false, false},
    {"peak running", EXPECT_PEAK_RUNNING, COUNT, false, true, false, false, true, false},
    {"redis commands", EXPECT_REDIS_COMMANDS, COUNT, false, false, false, false, false, true},
    {"redis commands per request", EXPECT_REDIS_PER_REQUEST, COUNT, false, false, false, false, false, true},
    {"stale answers", EXPECT_STALE, SHARE, false, false, false, false, false, false},
};

static const char *const operators[] = {[EXPECT_LESS] = "<",   [EXPECT_AT_MOST] = "<=",  [EXPECT_EQUAL] = "=",
                                        [EXPECT_OTHER] = "!=", [EXPECT_AT_LEAST] = ">=", [EXPECT_MORE] = ">"};

/* ---- figures ---- */

static bool refuse_figure(const char *name, char *why)
{
    size_t used = (size_t)snprintf(why, EXPECT_WHY_BYTES, "unknown figure \"%.60s\"; there are:", name);
    for (size_t i = 0; i < sizeof traits / sizeof *traits && used < EXPECT_WHY_BYTES; i++)
        used +=
            (size_t)snprintf(why + used, EXPECT_WHY_BYTES - used, "%s %s", i > 0 ? "," : "", traits[i].name);
    for (unsigned i = 1; i < RECORD_OUTCOMES && used < EXPECT_WHY_BYTES; i++)
        used += (size_t)snprintf(why + used, EXPECT_WHY_BYTES - used, ", %s",
                                 record_outcome_name((enum record_outcome)i));
    return false;
}

static const struct trait *trait_of(enum expect_figure figure)
{
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
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
    if (strcmp(name, "max") == 0) {
        *percentile = 100;
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
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
        if (strcmp(name, traits[i].name) == 0 && traits[i].figure != EXPECT_PERCENTILE) {
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
               words_refuse(why, "a cache's word is none, hit, stale, miss, collapsed, bypass or other, not",
                            word != NULL ? word : "");
    }
    read_name(words, name, sizeof name);
    if (find_figure(name, out))
        return true; /* "answered" is outcome 0, which is what number is */
    if (read_percentile(name, &out->percentile)) {
        out->figure = EXPECT_PERCENTILE;
        return true;
    }
    out->figure = EXPECT_OUTCOME;
    return read_outcome(name, &out->number) || refuse_figure(name, why);
}

/* ---- the rest ---- */

static bool read_part(struct words *words, struct expect *out, char *why)
{
    if (!words_skip(words, "of"))
        return true;
    if (!trait_of(out->figure)->of_requests)
        return words_refuse(why, "\"of\" is for figures of requests and latency", NULL);
    const char *kind = words_next(words);
    const char *word = kind != NULL && strcmp(kind, "errors") != 0 ? words_next(words) : NULL;
    uint32_t index = 0;
    if (kind != NULL && strcmp(kind, "errors") == 0) {
        out->part = EXPECT_PART_ERRORS;
        return true;
    }
    if (kind != NULL && strcmp(kind, "status") == 0 && read_status(word, &out->part_number)) {
        out->part = EXPECT_PART_STATUS;
        return true;
    }
    if (kind != NULL && strcmp(kind, "cache") == 0 && read_cache(word, &out->part_number)) {
        out->part = EXPECT_PART_CACHE;
        return true;
    }
    if (kind == NULL || word == NULL || !number_read(word, 1, WORK_URLS_MAX, &index) ||
        (strcmp(kind, "url") != 0 && strcmp(kind, "target") != 0))
        return words_refuse(why, "after \"of\": errors, status N, cache NAME, url N or target N", NULL);
    out->part = strcmp(kind, "url") == 0 ? EXPECT_PART_URL : EXPECT_PART_TARGET;
    out->part_number = index - 1;
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
    return words_refuse(why, "a comparison is one of < <= = != >= >, not", word);
}

static bool read_value(struct words *words, struct expect *out, char *why)
{
    const char *word = words_next(words);
    if (word == NULL)
        return words_refuse(why, "nothing stands after the comparison", NULL);
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
    if (!trait_of(out->figure)->has_window)
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
        return words_refuse(why, "after \"in\" stands a value of the vary line", NULL);
    snprintf(out->variant, sizeof out->variant, "%s", name);
    return true;
}

bool expect_parse(struct words *words, struct expect *out, char why[static EXPECT_WHY_BYTES])
{
    struct words whole = *words; /* with a cursor of its own */
    memset(out, 0, sizeof *out);
    if (!words_rest(&whole, out->text, sizeof out->text))
        return words_refuse(why, "the expectation is too long", NULL);
    if (words_peek(words) == NULL)
        return words_refuse(why, "nothing is expected", NULL);
    if (!read_figure(words, out, why) || !read_part(words, out, why) || !read_operator(words, out, why) ||
        !read_value(words, out, why) || !read_window(words, out, why) || !read_variant(words, out, why))
        return false;
    return words_peek(words) == NULL || words_refuse(why, "this is too much:", words_peek(words));
}

bool expect_needs_loads(const struct expect *expect)
{
    return trait_of(expect->figure)->needs_loads;
}

bool expect_needs_keys(const struct expect *expect)
{
    return trait_of(expect->figure)->needs_keys || (expect_needs_loads(expect) && expect->has_window);
}

bool expect_needs_ends(const struct expect *expect)
{
    return expect->figure == EXPECT_LOADS_AT_ONCE;
}

bool expect_needs_samples(const struct expect *expect)
{
    return trait_of(expect->figure)->needs_samples;
}

bool expect_needs_redis(const struct expect *expect)
{
    return trait_of(expect->figure)->needs_redis;
}
