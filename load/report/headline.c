/* SPDX-License-Identifier: MIT */
/* headline.c - see result_sheet.h. */
#include "load/report/result_sheet.h"

#include "load/report/result_text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMED_MOST = 4 }; /* so many results are told one by one */

__attribute__((format(printf, 2, 3))) static void say(struct headline *headline, const char *format, ...)
{
    size_t used = strlen(headline->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(headline->text + used, sizeof headline->text - used, format, arguments);
    va_end(arguments);
}

/* ---- loads ---- */

/* "once", "3 times", "at least 3 times" */
static const char *times(char out[static 64], const struct result *result)
{
    char number[TEXT_NUMBER_BYTES];
    const char *least = result->misses_loads ? "at least " : "";
    if (result->loads == 0 && !result->misses_loads)
        return "not at all";
    if (result->loads == 1)
        snprintf(out, 64, "%sonce", least);
    else
        snprintf(out, 64, "%s%s times", least, text_count(number, result->loads));
    return out;
}

/* "10 expiries: up to 40 times for one (key 7), 29.40 on average, where 1 is enough" */
static void say_expiries(struct headline *headline, const struct result *result)
{
    char expiries[TEXT_NUMBER_BYTES], most[TEXT_NUMBER_BYTES], each[TEXT_NUMBER_BYTES];
    bool has_ttl = result->ttl_ms > 0 || result->ttl_seen_ms > 0, is_one = result->expiries == 1;
    const char *key = result->worst[0].key;
    say(headline, " for %s %s", text_count(expiries, result->expiries),
        has_ttl ? (is_one ? "expiry" : "expiries") : (is_one ? "cold key" : "cold keys"));
    if (result->loads <= result->expiries)
        say(headline, ", which is as few as can be");
    else if (is_one)
        say(headline, ", where 1 is enough");
    else
        say(headline, ": up to %s times for one%s%.40s%s, %s on average, where 1 is enough",
            text_count(most, result->most_per_expiry), key[0] != '\0' ? " (key " : "", key,
            key[0] != '\0' ? ")" : "", text_each(each, result->loads_per_expiry));
}

/* Nobody knows how many there had to be. */
static void say_keys(struct headline *headline, const struct result *result)
{
    char keys[TEXT_NUMBER_BYTES];
    say(headline, " for %s key%s", text_count(keys, result->loaded_keys),
        result->loaded_keys == 1 ? "" : "s");
}

static void say_loads(struct headline *headline, const struct report *report)
{
    char text[64];
    const struct result *first = report->results[0];
    if (report->result_count == 1) {
        say(headline, ": the database was asked %s", times(text, first));
        if (first->expiries > 0)
            say_expiries(headline, first);
        else if (first->ttl_doubt[0] != '\0')
            say_keys(headline, first);
        return;
    }
    for (size_t i = 0; i < report->result_count && i < NAMED_MOST; i++) {
        const struct result *result = report->results[i];
        say(headline, "%s %.60s %s%s", i == 0 ? ":" : ",", result->name, i == 0 ? "asked the database " : "",
            result->has_loads ? times(text, result) : "an unknown number of times");
        if (result->expiries > 1 && result->most_per_expiry > 1)
            say(headline, " (up to %s for one expiry)", text_count(text, result->most_per_expiry));
    }
    if (report->result_count > NAMED_MOST)
        say(headline, ", and %zu more", report->result_count - NAMED_MOST);
}

/* ---- requests ---- */

static bool all_ask_the_same(const struct report *report)
{
    for (size_t i = 1; i < report->result_count; i++) {
        if (strcmp(report->results[i]->what, report->results[0]->what) != 0)
            return false;
    }
    return true;
}

static void say_latency(struct headline *headline, const struct result *result)
{
    char p99[TEXT_NUMBER_BYTES], slowest[TEXT_NUMBER_BYTES];
    text_ms(p99, result->all.p99_us);
    text_ms(slowest, result->all.max_us);
    if (result->all.count == 0)
        return;
    if (result_supports(result->all.count, 9900))
        say(headline, " 99 %% of the answers took at most %s ms, the slowest %s ms.", p99, slowest);
    else
        say(headline, " The slowest answer took %s ms.", slowest);
}

static void say_recovery(struct headline *headline, const struct result *result)
{
    if (result->has_recovered && result->recovery_ms == 0)
        say(headline, " As soon as the fault was over p99 was what it had been.");
    else if (result->has_recovered)
        say(headline, " %.2f s after the fault p99 was what it had been.", result->recovery_ms / 1e3);
    else if (result->has_recovery)
        say(headline, " After the fault p99 never was what it had been.");
}

static void say_failed(struct headline *headline, const struct report *report)
{
    size_t said = 0;
    for (size_t i = 0; i < report->result_count && said < NAMED_MOST; i++) {
        const struct result *result = report->results[i];
        char failed[TEXT_NUMBER_BYTES], all[TEXT_NUMBER_BYTES];
        uint64_t count = result_failed(result);
        if (count == 0)
            continue;
        const char *in = report->result_count == 1 ? "" : said == 0 ? "In " : "in ";
        say(headline, "%s%s%.60s%s%s of %s requests failed", said++ == 0 ? " " : ", ", in,
            report->result_count > 1 ? result->name : "", report->result_count > 1 ? " " : "",
            text_count(failed, count), text_count(all, result->requests));
    }
    if (said > 0)
        say(headline, ".");
}

static bool has_any_loads(const struct report *report)
{
    for (size_t i = 0; i < report->result_count; i++) {
        if (report->results[i]->has_loads)
            return true;
    }
    return false;
}

static void say_all(struct headline *headline, const struct report *report)
{
    char number[TEXT_NUMBER_BYTES];
    const struct result *first = report->results[0];
    bool same = all_ask_the_same(report);
    if (same || report->result_count == 1)
        say(headline, "%s request%s", text_count(number, first->requests), first->requests == 1 ? "" : "s");
    else
        say(headline, "%zu runs", report->result_count);
    if (has_any_loads(report))
        say_loads(headline, report);
    say(headline, ".");
    if (report->result_count == 1) {
        say_latency(headline, first);
        say_recovery(headline, first);
    }
    say_failed(headline, report);
}

/* ---- what changes it ---- */

bool headline_doubts_loads(const struct result *result)
{
    return result->has_loads && result->caveat[0] != '\0' &&
           (result->misses_loads || result->loads == 0 ||
            (result->expiries == 0 && result->ttl_doubt[0] == '\0'));
}

bool headline_doubts_times(const struct result *result)
{
    return result->strain.is_bottleneck;
}

/* "status 404 = 100%" held: that is what was asked for. */
static bool wants_unserved(const struct result *result)
{
    static const char begin[] = "status ";
    for (size_t i = 0; i < result->check_count; i++) {
        const char *text = result->checks[i].text;
        if (result->checks[i].held && strncmp(text, begin, sizeof begin - 1) == 0 &&
            (text[sizeof begin - 1] == '3' || text[sizeof begin - 1] == '4'))
            return true;
    }
    return false;
}

/* expect_judge.c, too, does not know then what failed. */
static void say_unserved(const struct result *result, char *text, size_t bytes)
{
    uint64_t served = 0, redirects = 0, refused = 0;
    char one[TEXT_NUMBER_BYTES], other[TEXT_NUMBER_BYTES];
    for (unsigned status = 100; status < 500; status++)
        *(result_status_serves(status) ? &served
          : status < 400               ? &redirects
                                       : &refused) += result->statuses[status];
    if (served == 0 && redirects + refused > 0 && !wants_unserved(result))
        snprintf(text, bytes,
                 "nothing was served: %s answers are redirects, %s are 4xx, and none is a 2xx or 304",
                 text_count(one, redirects), text_count(other, refused));
}

/* The index-th of a result; "": it has no such one. */
static void caveat_of(const struct result *result, size_t index, char text[static RESULT_CAVEAT_BYTES + 64])
{
    const size_t bytes = RESULT_CAVEAT_BYTES + 64;
    const char *of_loads =
        result->misses_loads || result->loads == 0 ? "queries" : "loads per expiry: not known";
    text[0] = '\0';
    if (index == 0 && result->is_partial)
        snprintf(text, bytes, "interrupted: this is what there was until then");
    if (index == 1 && headline_doubts_loads(result))
        snprintf(text, bytes, "%s: %.*s", of_loads, RESULT_CAVEAT_BYTES - 1, result->caveat);
    if (index == 2 && result->ttl_doubt[0] != '\0')
        snprintf(text, bytes, "loads per expiry%s: %s", result->expiries == 0 ? ": not known" : "",
                 result->ttl_doubt);
    if (index == 3 && headline_doubts_times(result))
        snprintf(text, bytes, "the generator was the bottleneck, so the latencies are unreliable: %.*s",
                 (int)sizeof result->strain.verdict - 1, result->strain.verdict);
    if (index == 4)
        say_unserved(result, text, bytes);
    if (index == 5)
        snprintf(text, bytes, "%s", result->connecting);
}

enum { CAVEATS_EACH = 6 };

/* Each with "off, local: " before it, unless it is everybody's. */
static void add_caveats(struct headline *headline, const struct report *report, size_t index)
{
    char texts[REPORT_RESULTS_MAX][RESULT_CAVEAT_BYTES + 64], who[HEADLINE_CAVEAT_BYTES / 4];
    const char *all[REPORT_RESULTS_MAX];
    for (size_t i = 0; i < report->result_count; i++) {
        caveat_of(report->results[i], index, texts[i]);
        all[i] = texts[i];
    }
    for (size_t i = 0; i < report->result_count && headline->caveat_count < HEADLINE_CAVEATS_MAX; i++) {
        char *line = headline->caveats[headline->caveat_count];
        if (!report_shares(report, all, i, who, sizeof who))
            continue;
        snprintf(line, HEADLINE_CAVEAT_BYTES, "%s%s%s", who, who[0] != '\0' ? ": " : "", all[i]);
        if (who[0] == '\0')
            line[0] = (char)toupper((unsigned char)line[0]);
        text_clean(line, HEADLINE_CAVEAT_BYTES, line, HEADLINE_CAVEAT_BYTES, false);
        headline->caveat_count++;
    }
}

void headline_make(const struct report *report, struct headline *out)
{
    memset(out, 0, sizeof *out);
    if (report->result_count == 0)
        return;
    say_all(out, report);
    text_clean(out->text, sizeof out->text, out->text, sizeof out->text, false);
    for (size_t index = 0; index < CAVEATS_EACH; index++)
        add_caveats(out, report, index);
}
