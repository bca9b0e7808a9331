/* SPDX-License-Identifier: MIT */
/* deeds_test.c - what the playground breaks, it can mend. */
#include "load/ground/site.h"
#include "tests/support/test.h"

static const char *const names[] = {
    "a-kill",      "a-pause",       "b-kill",        "b-pause",        "redis-kill",     "redis-hang",
    "redis-flush", "postgres-kill", "postgres-lock", "postgres-break", "postgres-pause",
};

/* A lock ends with its own statement. */
static bool ends_by_itself(const struct deed *deed)
{
    return deed->after == DEED_UP || deed->after == DEED_LOCKED;
}

TEST(every_fault_is_mended_by_itself_after_a_while)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct deed *deed = deed_find(names[i]), *back;
        assert_non_null(deed);
        if (ends_by_itself(deed))
            continue;
        back = deed_find(deed->back);
        assert_non_null(back);
        assert_true(deed->back_ms > 0);
        assert_int_equal(back->party, deed->party);
        assert_int_equal(back->after, DEED_UP);
        assert_true((back->when & (1U << deed->after)) != 0);
        assert_ptr_equal(deed_cure(deed->party, deed->after), back);
    }
}

TEST(what_is_well_needs_no_cure)
{
    for (int party = 0; party < DEED_PARTIES; party++)
        assert_null(deed_cure((enum deed_party)party, DEED_UP));
}

TEST(an_unknown_deed_is_none)
{
    assert_null(deed_find("redis-explode"));
    assert_null(deed_find(NULL));
}
