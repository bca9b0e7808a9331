/* SPDX-License-Identifier: MIT */
/* pg_error_test.c - what SQLSTATEs mean, and how one is found in a login's error text. */
#include "app/pg/pg_error.h"
#include "tests/support/test.h"

TEST(an_sqlstate_says_whether_the_fault_may_pass, P61)
{
    static const struct {
        const char *sqlstate;
        enum pg_outcome outcome;
    } cases[] = {
        {"08006", PG_UNAVAILABLE}, {"53300", PG_UNAVAILABLE}, {"53200", PG_UNAVAILABLE},
        {"57P01", PG_UNAVAILABLE}, {"57P02", PG_UNAVAILABLE}, {"57P03", PG_UNAVAILABLE},
        {"57P05", PG_UNAVAILABLE}, {"58030", PG_UNAVAILABLE}, {"40001", PG_UNAVAILABLE},
        {"40P01", PG_UNAVAILABLE}, {"57014", PG_TIMEOUT},     {"55P03", PG_TIMEOUT},
        {"28P01", PG_REJECTED},    {"28000", PG_REJECTED},    {"3D000", PG_REJECTED},
        {"42P01", PG_REJECTED},    {"42501", PG_REJECTED},    {"22012", PG_REJECTED},
        {"25006", PG_UNAVAILABLE}, {"25P04", PG_TIMEOUT},     {"26000", PG_REJECTED},
        {"0A000", PG_REJECTED},    {"57P04", PG_REJECTED},    {"XX000", PG_REJECTED},
        {"ZZZZZ", PG_REJECTED},    {"", PG_REJECTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(pg_error_classify(cases[i].sqlstate), cases[i].outcome);
    }
}

TEST(the_sqlstate_of_a_refused_login_is_found_in_its_text)
{
    char found[PG_STATE_SIZE];
    assert_true(
        pg_error_find_state("connection to server at \"127.0.0.1\", port 5 failed: FATAL:  28P01: password "
                            "authentication failed for user \"u\"\nLOCATION:  auth_failed, auth.c:331\n",
                            found));
    assert_string_equal(found, "28P01");
    assert_true(pg_error_find_state("failed: FATAL:  57P03\nfailed: FATAL:  53300: sorry\n", found));
    assert_string_equal(found, "53300");
}

TEST(a_name_in_the_text_cannot_pose_as_an_sqlstate)
{
    char found[PG_STATE_SIZE];
    assert_true(
        pg_error_find_state("failed: FATAL:  3D000: database \"x:  57P03: \" does not exist\n", found));
    assert_string_equal(found, "3D000");
    assert_false(pg_error_find_state("connection refused\n\tIs the server running on that host?", found));
    assert_false(pg_error_find_state("FATAL:  28P0", found));
    assert_false(pg_error_find_state("FATAL:  28P011: no", found));
    assert_false(pg_error_find_state("", found));
}
