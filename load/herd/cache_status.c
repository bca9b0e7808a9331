/* SPDX-License-Identifier: MIT */
/* cache_status.c - see record.h; lists and their parameters are those of RFC 8941. */
#include "load/herd/record.h"

#include "load/base/http_parse.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *at;
    size_t count;
};

static struct span trimmed(struct span span)
{
    while (span.count > 0 && (*span.at == ' ' || *span.at == '\t')) {
        span.at++;
        span.count--;
    }
    while (span.count > 0 && (span.at[span.count - 1] == ' ' || span.at[span.count - 1] == '\t'))
        span.count--;
    return span;
}

/* How many bytes stand before the next `separator` outside of "..."; all of them if there is none. */
static size_t before(struct span text, char separator)
{
    bool is_quoted = false;
    for (size_t i = 0; i < text.count; i++) {
        if (is_quoted && text.at[i] == '\\')
            i++;
        else if (text.at[i] == '"')
            is_quoted = !is_quoted;
        else if (!is_quoted && text.at[i] == separator)
            return i;
    }
    return text.count;
}

/* What stands before the separator; *text is then what follows it, with at == NULL when it was the last. */
static struct span take(struct span *text, char separator)
{
    struct span taken = {text->at, before(*text, separator)};
    bool is_last = taken.count == text->count;
    *text = is_last ? (struct span){NULL, 0}
                    : (struct span){text->at + taken.count + 1, text->count - taken.count - 1};
    return trimmed(taken);
}

static struct span last_member(struct span list)
{
    struct span last = {"", 0};
    while (list.at != NULL) {
        struct span member = take(&list, ',');
        if (member.count > 0)
            last = member;
    }
    return last;
}

static bool is(struct span span, const char *text)
{
    return span.count == strlen(text) && memcmp(span.at, text, span.count) == 0;
}

static bool is_any(struct span span, const char *const *texts)
{
    for (; *texts != NULL; texts++) {
        if (is(span, *texts))
            return true;
    }
    return false;
}

/* What one cache says. */
struct said {
    bool hit, collapsed, is_expired;
    struct span forward; /* empty: not forwarded */
};

/* A parameter without a value is true, one with "?0" false. */
static void hear(struct said *said, struct span parameter)
{
    struct span value = {parameter.at, parameter.count};
    struct span name = take(&value, '=');
    bool is_true = value.at == NULL || is(trimmed(value), "?1");
    if (is(name, "hit"))
        said->hit = is_true;
    else if (is(name, "collapsed"))
        said->collapsed = is_true;
    else if (is(name, "fwd") && value.at != NULL)
        said->forward = trimmed(value);
    else if (is(name, "ttl") && value.at != NULL)
        said->is_expired = trimmed(value).count > 0 && *trimmed(value).at == '-';
}

static enum record_cache judge(const struct said *said)
{
    static const char *const misses[] = {"miss", "uri-miss", "vary-miss", NULL};
    static const char *const bypasses[] = {"bypass", "method", "request", NULL};
    if (said->collapsed)
        return RECORD_CACHE_COLLAPSED;
    if (is(said->forward, "stale") || (said->hit && said->is_expired))
        return RECORD_CACHE_STALE;
    if (said->hit)
        return RECORD_CACHE_HIT;
    if (is_any(said->forward, misses))
        return RECORD_CACHE_MISS;
    return is_any(said->forward, bypasses) ? RECORD_CACHE_BYPASS : RECORD_CACHE_OTHER;
}

enum record_cache cache_status_of(const char *value, size_t count)
{
    struct said said = {.forward = {"", 0}};
    struct span member = last_member((struct span){value, count});
    take(&member, ';'); /* the cache's name */
    while (member.at != NULL)
        hear(&said, take(&member, ';'));
    return judge(&said);
}

/* "HIT", "TCP_MEM_HIT from x", "Hit from cloudfront": a word says it, and may have others about it. */
static bool says(struct span word, const char *text)
{
    size_t bytes = strlen(text);
    for (size_t i = 0; i + bytes <= word.count; i++) {
        if (strncasecmp(word.at + i, text, bytes) == 0)
            return true;
    }
    return false;
}

/* What was revalidated is neither a hit nor a miss. */
static enum record_cache read_word(const char *value, size_t count)
{
    static const struct {
        const char *text;
        enum record_cache cache;
    } words[] = {
        {"STALE", RECORD_CACHE_STALE}, {"UPDATING", RECORD_CACHE_STALE}, {"EXPIRED", RECORD_CACHE_MISS},
        {"MISS", RECORD_CACHE_MISS},   {"BYPASS", RECORD_CACHE_BYPASS},  {"DYNAMIC", RECORD_CACHE_BYPASS},
        {"PASS", RECORD_CACHE_BYPASS}, {"REFRESH", RECORD_CACHE_OTHER},  {"REVALIDATED", RECORD_CACHE_OTHER},
        {"HIT", RECORD_CACHE_HIT},
    };
    struct span word = last_member((struct span){value, count});
    for (size_t i = 0; i < word.count; i++)
        word.count = word.at[i] == ' ' || word.at[i] == ';' ? i : word.count;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (says(word, words[i].text))
            return words[i].cache;
    }
    return RECORD_CACHE_OTHER;
}

/* The one closest to the client that answered or fetched; one that only handed it on decided nothing. */
static enum record_cache read_words(const char *head)
{
    static const char *const names[] = {"CF-Cache-Status", "X-Cache-Status", "X-Cache"};
    enum record_cache first = RECORD_CACHE_NONE;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t count;
        const char *value = http_parse_header(head, names[i], &count);
        enum record_cache cache = value != NULL ? read_word(value, count) : RECORD_CACHE_NONE;
        if (cache == RECORD_CACHE_HIT || cache == RECORD_CACHE_STALE || cache == RECORD_CACHE_MISS)
            return cache;
        first = first == RECORD_CACHE_NONE ? cache : first;
    }
    return first;
}

enum record_cache cache_status_read(const char *head)
{
    size_t count;
    enum record_cache last = RECORD_CACHE_NONE;
    const char *value = http_parse_header(head, "Cache-Status", &count);
    for (; value != NULL; value = http_parse_header(value, "Cache-Status", &count)) {
        if (count > 0 || last == RECORD_CACHE_NONE)
            last = cache_status_of(value, count);
    }
    return last != RECORD_CACHE_NONE ? last : read_words(head);
}
