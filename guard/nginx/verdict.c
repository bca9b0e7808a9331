/* SPDX-License-Identifier: MIT */
/*
 * verdict.c - Cache-Control, Vary, and the front of an entry, without nginx.
 */
#include "verdict.h"

#include <stdio.h>
#include <string.h>

/* Nothing is kept for longer than a day. */
enum { DAY_S = 86400, PASS_MS = 10000, PASS_COOKIE_MS = 1000 };
static const int64_t SECONDS_MAX = (int64_t)1 << 31; /* RFC 9111, 1.2.2 */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

bool text_is(struct text text, const char *name)
{
    size_t i = 0;
    while (i < text.bytes && name[i] != '\0' && lower(text.data[i]) == name[i])
        i++;
    return i == text.bytes && name[i] == '\0';
}

static struct text trimmed(struct text text)
{
    while (text.bytes > 0 && is_space(text.data[0]))
        text = (struct text){text.data + 1, text.bytes - 1};
    while (text.bytes > 0 && is_space(text.data[text.bytes - 1]))
        text.bytes--;
    return text;
}

/* What stands before the next comma outside quotes; is_broken: quotes that do not end hide what follows. */
static struct text cut(struct text *list, bool *is_broken)
{
    bool is_quoted = false;
    size_t i = 0;
    while (i < list->bytes && (is_quoted || list->data[i] != ','))
        is_quoted ^= list->data[i++] == '"';
    const struct text part = {list->data, i};
    *is_broken |= is_quoted;
    i += i < list->bytes;
    *list = (struct text){list->data + i, list->bytes - i};
    return trimmed(part);
}

/* A span that is none counts as 0: what cannot be read is not fresh (RFC 9111, 4.2.1). */
static int64_t seconds_of(struct text text)
{
    int64_t seconds = 0;
    if (text.bytes >= 2 && text.data[0] == '"' && text.data[text.bytes - 1] == '"')
        text = (struct text){text.data + 1, text.bytes - 2};
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return 0;
        seconds = seconds * 10 + (text.data[i] - '0');
        seconds = seconds < SECONDS_MAX ? seconds : SECONDS_MAX;
    }
    return seconds;
}

static void shorten(int64_t *span, struct text value)
{
    const int64_t seconds = seconds_of(value);
    *span = *span == -1 || seconds < *span ? seconds : *span;
}

void says_init(struct says *says, unsigned status)
{
    *says = (struct says){.status = status, .s_maxage = -1, .max_age = -1, .stale_s = -1, .expires_s = -1};
}

void says_age(struct says *says, struct text value)
{
    says->age_s = (uint32_t)seconds_of(trimmed(value));
}

static uint32_t up_to_a_day_ms(int64_t seconds)
{
    return (uint32_t)(seconds < 0 ? 0 : seconds < DAY_S ? seconds : DAY_S) * 1000;
}

static void directive(struct says *says, struct text name, struct text value)
{
    const int64_t stale_s = seconds_of(value);
    if (text_is(name, "no-store"))
        says->no_store = true;
    else if (text_is(name, "no-cache"))
        says->no_cache = true;
    else if (text_is(name, "private"))
        says->is_private = true;
    else if (text_is(name, "must-revalidate") || text_is(name, "proxy-revalidate"))
        says->must_revalidate = true;
    else if (text_is(name, "s-maxage"))
        shorten(&says->s_maxage, value);
    else if (text_is(name, "max-age"))
        shorten(&says->max_age, value);
    else if (text_is(name, "stale-while-revalidate") || text_is(name, "stale-if-error"))
        says->stale_s = stale_s > says->stale_s ? stale_s : says->stale_s;
}

void says_cache_control(struct says *says, struct text line)
{
    while (line.bytes > 0) {
        struct text part = cut(&line, &says->no_store), value = {"", 0};
        const char *equals = part.bytes > 0 ? memchr(part.data, '=', part.bytes) : NULL;
        if (equals != NULL) {
            value = trimmed((struct text){equals + 1, part.bytes - (size_t)(equals + 1 - part.data)});
            part = trimmed((struct text){part.data, (size_t)(equals - part.data)});
        }
        directive(says, part, value);
    }
}

static bool is_cached_by_status(unsigned status)
{
    return status == 200 || status == 203 || status == 204 || status == 300 || status == 301 ||
           status == 308 || status == 404 || status == 410;
}

/* Is the page of the kind that each client has its own? */
static bool is_for_one(const struct says *says, int64_t fresh_s)
{
    return says->no_store || says->is_private || says->no_cache || (says->is_handed_on && fresh_s == -1);
}

static bool must_pass(const struct says *says, int64_t fresh_s)
{
    if (is_for_one(says, fresh_s) || says->sets_cookie)
        return true;
    if (says->status == 206 || says->status == 304) /* no whole page */
        return true;
    if (says->status == 401 || says->status == 407) /* who logs in asks again */
        return true;
    return fresh_s == -1 && !is_cached_by_status(says->status) && !says->is_error_page;
}

struct verdict verdict_of(const struct says *says, const struct rules *rules)
{
    const bool is_absent = says->status == 404 || says->status == 410;
    const int64_t life_s = says->s_maxage != -1 ? says->s_maxage : says->max_age;
    const int64_t left_s = life_s > says->age_s ? life_s - says->age_s : 0;
    const int64_t fresh_s = life_s != -1 ? left_s : says->expires_s;
    /* Perhaps only a new client gets a cookie, or one client a 302 or 429: that must not part all others for long. */
    const uint32_t pass_ms = says->sets_cookie ? PASS_COOKIE_MS : is_for_one(says, fresh_s) ? PASS_MS : 0;
    struct verdict verdict = {VERDICT_STORE, is_absent ? rules->absent_ms : rules->fresh_ms, rules->stale_ms,
                              PASS_MS};
    if (says->status >= 500 || says->status < 200)
        return (struct verdict){.how = VERDICT_FAIL};
    if (must_pass(says, fresh_s))
        return (struct verdict){.how = VERDICT_PASS, .pass_ms = pass_ms};
    if (fresh_s != -1)
        verdict.fresh_ms = up_to_a_day_ms(fresh_s);
    if (says->stale_s != -1)
        verdict.stale_ms = up_to_a_day_ms(says->stale_s);
    /* s-maxage forbids it, too (RFC 9111, 5.2.2.10). */
    if (is_absent || says->must_revalidate || (says->s_maxage != -1 && says->stale_s == -1))
        verdict.stale_ms = 0;
    if (says->is_error_page)
        verdict.fresh_ms = 0;
    if (verdict.fresh_ms == 0)
        verdict.how = VERDICT_SHARE;
    return verdict;
}

/* ---- Vary ---- */

void vary_add(struct vary *vary, struct text line)
{
    while (line.bytes > 0) {
        const struct text name = cut(&line, &vary->is_all);
        if (name.bytes == 0)
            continue;
        vary->is_all |= text_is(name, "*") || vary->bytes + name.bytes + 1 > sizeof vary->names;
        if (vary->is_all)
            return;
        if (text_is_in(name, (struct text){vary->names, vary->bytes}))
            continue;
        for (size_t i = 0; i < name.bytes; i++)
            vary->names[vary->bytes++] = lower(name.data[i]);
        vary->names[vary->bytes++] = ',';
    }
}

bool vary_next(struct text names, size_t *at, struct text *name)
{
    const size_t start = *at;
    const char *comma = start < names.bytes ? memchr(names.data + start, ',', names.bytes - start) : NULL;
    if (comma == NULL)
        return false;
    *name = (struct text){names.data + start, (size_t)(comma - names.data) - start};
    *at = start + name->bytes + 1;
    return true;
}

bool text_is_in(struct text text, struct text names)
{
    struct text name;
    for (size_t at = 0; vary_next(names, &at, &name);) {
        size_t i = 0;
        while (i < text.bytes && i < name.bytes && lower(text.data[i]) == name.data[i])
            i++;
        if (i == text.bytes && i == name.bytes)
            return true;
    }
    return false;
}

bool header_is_left_out(struct text name, bool is_for_one)
{
    static const char connections_or_nginxs[] =
        "connection,keep-alive,proxy-connection,te,trailer,transfer-encoding,upgrade,content-length,age,date,"
        "server,accept-ranges,proxy-authenticate,cache-status,";
    return text_is_in(name, TEXT(connections_or_nginxs)) || (text_is(name, "set-cookie") && !is_for_one);
}

/* ---- an entry ---- */

static void put(struct entry_writer *writer, struct text text)
{
    writer->is_full |= text.bytes > (size_t)(writer->end - writer->at);
    if (writer->is_full || text.bytes == 0)
        return;
    memcpy(writer->at, text.data, text.bytes);
    writer->at += text.bytes;
}

void entry_begin(struct entry_writer *writer, char *room, size_t bytes, const struct entry *entry)
{
    char front[64];
    const int front_bytes =
        snprintf(front, sizeof front, "SG1 %u %u %u %u\n", (unsigned)entry->status, (unsigned)entry->age_s,
                 (unsigned)entry->fresh_s, (unsigned)entry->variant.bytes);
    *writer = (struct entry_writer){.at = room, .start = room, .end = room + bytes};
    put(writer, (struct text){front, (size_t)front_bytes});
    put(writer, entry->names);
    put(writer, TEXT("\n"));
    put(writer, entry->variant);
}

void entry_add(struct entry_writer *writer, struct text name, struct text value)
{
    writer->is_full |= value.bytes > 0 && memchr(value.data, '\n', value.bytes) != NULL;
    put(writer, name);
    put(writer, TEXT(":"));
    put(writer, value);
    put(writer, TEXT("\n"));
}

size_t entry_end(struct entry_writer *writer)
{
    put(writer, TEXT("\n"));
    return writer->is_full ? 0 : (size_t)(writer->at - writer->start);
}

/* What stands before `end`; false: it does not end. */
static bool take_part(struct text *rest, char end, struct text *part)
{
    const char *at = rest->bytes > 0 ? memchr(rest->data, end, rest->bytes) : NULL;
    if (at == NULL)
        return false;
    *part = (struct text){rest->data, (size_t)(at - rest->data)};
    *rest = (struct text){at + 1, rest->bytes - part->bytes - 1};
    return true;
}

static bool take_number(struct text *rest, char end, uint32_t *number)
{
    struct text part;
    if (!take_part(rest, end, &part))
        return false;
    *number = (uint32_t)seconds_of(part);
    return true;
}

bool entry_read(struct text stored, struct entry *out)
{
    struct text magic;
    uint32_t variant_bytes;
    if (stored.bytes < 2 || memcmp(stored.data + stored.bytes - 2, "\n\n", 2) != 0)
        return false;
    if (!take_part(&stored, ' ', &magic) || !text_is(magic, "sg1") ||
        !take_number(&stored, ' ', &out->status) || !take_number(&stored, ' ', &out->age_s) ||
        !take_number(&stored, ' ', &out->fresh_s) || !take_number(&stored, '\n', &variant_bytes) ||
        !take_part(&stored, '\n', &out->names) || variant_bytes > stored.bytes)
        return false;
    out->variant = (struct text){stored.data, variant_bytes};
    out->headers = (struct text){stored.data + variant_bytes, stored.bytes - variant_bytes};
    return true;
}

bool entry_header(struct text *headers, struct text *name, struct text *value)
{
    return take_part(headers, '\n', value) && take_part(value, ':', name);
}
