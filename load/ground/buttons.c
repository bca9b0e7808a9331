/* SPDX-License-Identifier: MIT */
/* buttons.c - see buttons.h. */
#include "load/ground/buttons.h"

#include "load/ground/change.h"

#include <stdio.h>
#include <string.h>

enum { OK = 200, BAD = 400, BUSY = 409, PER_SECOND_MAX = 2000, DELAY_MS_MAX = 5000 };

static unsigned refuse(char *why, unsigned status, const char *text)
{
    snprintf(why, BUTTONS_WHY_BYTES, "%s", text);
    return status;
}

/* A whole number of the wish within limits; `otherwise` where it is not named. */
static bool read_number(const json_t *wish, const char *name, json_int_t least, json_int_t most,
                        json_int_t otherwise, uint32_t *out, char *why)
{
    const json_t *value = json_object_get(wish, name);
    json_int_t number = value != NULL ? json_integer_value(value) : otherwise;
    bool good = (value == NULL || json_is_integer(value)) && number >= least && number <= most;
    if (good)
        *out = (uint32_t)number;
    else
        snprintf(why, BUTTONS_WHY_BYTES, "\"%s\" must be a whole number from %d to %d.", name, (int)least,
                 (int)most);
    return good;
}

static bool read_mode(const json_t *wish, char mode[static SITE_MODE_BYTES], char *why)
{
    const json_t *value = json_object_get(wish, "mode");
    mode[0] = '\0';
    if (value == NULL)
        return true;
    for (size_t i = 0; json_is_string(value) && jobs_mode(i) != NULL; i++) {
        if (strcmp(jobs_mode(i), json_string_value(value)) == 0) {
            snprintf(mode, SITE_MODE_BYTES, "%s", jobs_mode(i));
            return true;
        }
    }
    snprintf(why, BUTTONS_WHY_BYTES, "\"mode\" must be off, local, fleet or shadow.");
    return false;
}

/* False also where none is named; `any`: whether one is. */
static bool read_hit(const json_t *wish, const char *name, struct site_order *hit, bool *any, char *why)
{
    const json_t *value = json_object_get(wish, name);
    const char *text = json_string_value(value);
    *any = value != NULL;
    hit->what = SITE_HIT;
    hit->verb = text != NULL && strcmp(text, "pause") == 0 ? SITE_PAUSE : SITE_KILL;
    if (value == NULL || (text != NULL && (strcmp(text, "kill") == 0 || strcmp(text, "pause") == 0)))
        return true;
    snprintf(why, BUTTONS_WHY_BYTES, "\"%s\" must be kill or pause.", name);
    return false;
}

static unsigned order(struct ground *ground, const struct site_order *wanted, char *why)
{
    uint64_t number;
    return site_order(&ground->site, wanted, &number, why) ? OK : BUSY;
}

static unsigned begin(struct ground *ground, const struct job *job, char *why)
{
    return jobs_begin(&ground->jobs, job)
               ? OK
               : refuse(why, BUSY, "A crowd is under way: wait until it is answered.");
}

/* ---- the buttons ---- */

static unsigned press_rush(struct ground *ground, const json_t *wish, char *why)
{
    struct job job = {.step = jobs_step(json_string_value(json_object_get(wish, "step"))),
                      .rush = {.is_many = json_is_true(json_object_get(wish, "many")),
                               .is_warm = json_is_true(json_object_get(wish, "warm"))}};
    if (!read_number(wish, "requests", 1, RUSH_REQUESTS_MAX, 1000, &job.rush.requests, why) ||
        !read_mode(wish, job.mode, why) || !read_hit(wish, "hit", &job.rush.hit, &job.rush.hits, why))
        return BAD;
    return begin(ground, &job, why);
}

static unsigned press_compare(struct ground *ground, const json_t *wish, char *why)
{
    struct job job = {.is_comparison = true};
    if (!read_number(wish, "requests", 1, RUSH_REQUESTS_MAX, 300, &job.rush.requests, why))
        return BAD;
    return begin(ground, &job, why);
}

static unsigned press_deed(struct ground *ground, const json_t *wish, char *why)
{
    const struct site_order wanted = {.what = SITE_DEED,
                                      .deed = deed_find(json_string_value(json_object_get(wish, "name")))};
    return wanted.deed != NULL ? order(ground, &wanted, why)
                               : refuse(why, BAD, "\"name\" is no deed of the playground.");
}

static unsigned press_hit(struct ground *ground, const json_t *wish, char *why)
{
    struct site_order wanted = {.what = SITE_HIT};
    bool any;
    if (!read_hit(wish, "verb", &wanted, &any, why))
        return BAD;
    return order(ground, &wanted, why);
}

static unsigned press_set(struct ground *ground, const json_t *wish, char *why)
{
    struct site_look look;
    struct site_order wanted = {.what = SITE_SET};
    site_look_at(&ground->site, &look);
    if (!read_mode(wish, wanted.mode, why) ||
        !read_number(wish, "delay_ms", 0, DELAY_MS_MAX, look.delay_ms, &wanted.delay_ms, why))
        return BAD;
    if (wanted.mode[0] == '\0')
        memcpy(wanted.mode, look.mode, sizeof wanted.mode);
    if (jobs_busy(&ground->jobs))
        return refuse(why, BUSY, "A crowd is under way: wait until it is answered.");
    return order(ground, &wanted, why);
}

static unsigned press_rate(struct ground *ground, const json_t *wish, char *why)
{
    struct site_order wanted = {.what = SITE_RATE};
    if (!read_number(wish, "per_second", 0, PER_SECOND_MAX, 0, &wanted.per_second, why))
        return BAD;
    return order(ground, &wanted, why);
}

static unsigned press_mend(struct ground *ground, const json_t *wish, char *why)
{
    const struct site_order wanted = {.what = SITE_MEND};
    (void)wish;
    return order(ground, &wanted, why);
}

static unsigned write_by(struct ground *ground, void (*change)(struct site *), char *why)
{
    if (!ground->site.has_writes)
        return refuse(why, BUSY, "Writes are off: WRITE_DATABASE_URL names no login for your database.");
    change(&ground->site);
    return OK;
}

static unsigned press_change(struct ground *ground, const json_t *wish, char *why)
{
    (void)wish;
    return write_by(ground, change_price, why);
}

static unsigned press_buy(struct ground *ground, const json_t *wish, char *why)
{
    (void)wish;
    return write_by(ground, change_buy, why);
}

static unsigned press_expire(struct ground *ground, const json_t *wish, char *why)
{
    (void)wish;
    (void)why;
    change_expire(&ground->site);
    return OK;
}

static unsigned press_invalidate(struct ground *ground, const json_t *wish, char *why)
{
    (void)wish;
    (void)why;
    change_invalidate(&ground->site);
    return OK;
}

static const struct {
    const char *word;
    unsigned (*press)(struct ground *ground, const json_t *wish, char *why);
} buttons[] = {
    {"rush", press_rush},
    {"compare", press_compare},
    {"deed", press_deed},
    {"hit", press_hit},
    {"set", press_set},
    {"rate", press_rate},
    {"mend", press_mend},
    {"change", press_change},
    {"buy", press_buy},
    {"expire", press_expire},
    {"invalidate", press_invalidate},
};

unsigned buttons_press(struct ground *ground, const char *body, size_t body_bytes,
                       char why[static BUTTONS_WHY_BYTES])
{
    json_t *wish = json_loadb(body, body_bytes, JSON_REJECT_DUPLICATES, NULL);
    const char *word = json_string_value(json_object_get(wish, "do"));
    unsigned status = BAD;
    snprintf(why, BUTTONS_WHY_BYTES,
             "Send a JSON object with \"do\" and a button's word; load/ground/buttons.h has them.");
    for (size_t i = 0; word != NULL && i < sizeof buttons / sizeof *buttons; i++) {
        if (strcmp(buttons[i].word, word) == 0)
            status = buttons[i].press(ground, wish, why);
    }
    json_decref(wish);
    return status;
}
