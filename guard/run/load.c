/* SPDX-License-Identifier: MIT */
/* load.c - see load.h. */
#include "load.h"
#include "../base/check.h"
#include "../base/clock.h"
#include <stdlib.h>
#include <string.h>

const char *guard_load_key(const struct guard_load *load)
{
    return load->key;
}

uint32_t guard_load_left_ms(const struct guard_load *load)
{
    uint64_t now_us = clock_now_us();
    if (now_us >= load->deadline_us)
        return 0;
    return (uint32_t)((load->deadline_us - now_us + 999) / 1000);
}

bool guard_load_cancelled(const struct guard_load *load)
{
    return atomic_load(&load->cancelled);
}

int guard_load_cancel_fd(const struct guard_load *load)
{
    return load->cancel_fd;
}

/* Only the first is told: the others may follow from it. */
static void breach(struct guard_load *load, const char *text)
{
    if (load->result.breach == NULL)
        load->result.breach = text;
}

static void finish(struct guard_load *load, enum core_load_outcome outcome, struct value *value,
                   enum guard_failure failure)
{
    if (load->finished) {
        breach(load, "finished the load a second time; its first verdict stands");
        value_unref(&value);
        return;
    }
    load->finished = true;
    load->result.loaded = (struct core_loaded){outcome, value, failure, clock_now_us() - load->start_us,
                                               load->kept ? &load->keep : NULL};
}

/* For good: whatever it says now or has said. */
static void fail_for_good(struct guard_load *load)
{
    value_unref(&load->result.loaded.value);
    load->finished = false;
    finish(load, LOAD_FAILED, NULL, GUARD_FAILURE_INTERNAL);
}

static const char *wrong_tag(struct guard_load *load, const char *tag)
{
    if (load->tags == NULL)
        return "named a tag, but guard_policy.tagged is false; the load fails";
    if (load->finished)
        return "named a tag after it had finished the load, which fails";
    if (check_tag(tag) != NULL)
        return "named a tag that is not of 1 to 64 bytes; the load fails";
    if (!tags_add(load->tags, &load->tags_bytes, tag))
        return "named more than 8 tags; the load fails";
    return NULL;
}
_Static_assert(GUARD_TAGS_MAX == 8 && GUARD_TAG_BYTES_MAX == 64 && ENVELOPE_VALIDATOR_MAX == 127,
               "as in the texts");

enum guard_status guard_load_tag(struct guard_load *load, const char *tag)
{
    const char *wrong = wrong_tag(load, tag);
    if (wrong == NULL)
        return GUARD_OK;
    breach(load, wrong);
    fail_for_good(load);
    return GUARD_INVALID;
}

uint64_t guard_load_id(const struct guard_load *load)
{
    return load->result.load;
}

static const char *wrong_keep(const struct guard_load *load, const struct guard_keep *keep)
{
    if (load->finished)
        return "said how to keep its answer after it had finished the load, which fails";
    if (keep == NULL)
        return "passed no struct guard_keep; the load fails";
    if ((unsigned)keep->how > GUARD_PASS)
        return "said how to keep its answer with a number that is no enum guard_how; the load fails";
    return NULL;
}

enum guard_status guard_load_keep(struct guard_load *load, const struct guard_keep *keep)
{
    const char *wrong = wrong_keep(load, keep);
    if (wrong != NULL) {
        breach(load, wrong);
        fail_for_good(load);
        return GUARD_INVALID;
    }
    load->keep = *keep;
    load->kept = true;
    return GUARD_OK;
}

static bool validator_valid(const char *validator, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (validator[i] < 0x20 || validator[i] > 0x7e)
            return false;
    return bytes <= ENVELOPE_VALIDATOR_MAX;
}

void guard_load_done(struct guard_load *load, const void *body, size_t body_bytes, const char *validator)
{
    size_t validator_bytes = validator != NULL ? strnlen(validator, ENVELOPE_VALIDATOR_MAX + 1) : 0;
    struct value *value = NULL;
    if (!validator_valid(validator, validator_bytes))
        breach(load,
               "passed a validator that is not of at most 127 bytes of printable ASCII; the load fails");
    else
        value = value_new(body, body_bytes, validator, validator_bytes, load->tags, load->tags_bytes);
    finish(load, value != NULL ? LOAD_OK : LOAD_FAILED, value,
           value != NULL ? GUARD_FAILURE_NONE : GUARD_FAILURE_INTERNAL);
}

void guard_load_absent(struct guard_load *load)
{
    struct value *tags = NULL;
    if (load->tags_bytes > 0)
        tags = value_new("", 0, "", 0, load->tags, load->tags_bytes);
    bool kept = load->tags_bytes == 0 || tags != NULL;
    finish(load, kept ? LOAD_ABSENT : LOAD_FAILED, tags, kept ? GUARD_FAILURE_NONE : GUARD_FAILURE_INTERNAL);
}

void guard_load_fail(struct guard_load *load, enum guard_failure failure)
{
    bool known = failure > GUARD_FAILURE_NONE && failure <= GUARD_FAILURE_CYCLE;
    if (!known)
        breach(load, "failed the load with a number that is no enum guard_failure");
    finish(load, LOAD_FAILED, NULL, known ? failure : GUARD_FAILURE_INTERNAL);
}

void load_unfinished(struct guard_load *load, bool thread_ends)
{
    if (load->finished)
        return;
    breach(load, thread_ends ? "ended its thread without finishing the load, which fails"
                             : "returned without finishing the load, which fails");
    finish(load, LOAD_FAILED, NULL, GUARD_FAILURE_INTERNAL);
}

const char *guard_load_previous_validator(const struct guard_load *load)
{
    return load->has_previous ? load->previous_validator : NULL;
}

void guard_load_unchanged(struct guard_load *load)
{
    if (!load->has_previous)
        breach(load, "found unchanged what had no previous validator; the load fails");
    if (load->has_previous)
        finish(load, LOAD_UNCHANGED, NULL, GUARD_FAILURE_NONE);
    else
        finish(load, LOAD_FAILED, NULL, GUARD_FAILURE_INTERNAL);
}

void finished_load_free(struct finished_load *finished)
{
    value_unref(&finished->loaded.value);
    free(finished);
}
