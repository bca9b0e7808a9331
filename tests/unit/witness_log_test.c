/* SPDX-License-Identifier: MIT */
/* witness_log_test.c - lines of PostgreSQL's log of every kind, whole, torn and no lines at all. */
#include "load/witness/witness_log.h"
#include "tests/support/test.h"

/* 2025-11-20 12:34:56.789 UTC; it is read 5 ms later. */
#define STAMP_US UINT64_C(1763642096789000)
static const struct witness_clock later = {.wall_us = STAMP_US + 5000, .now_us = 70000000};
static const uint64_t stamp_now_us = 70000000 - 5000;

/* A record of csvlog or jsonlog, its texts as they stand in it. */
#define CSV(severity, message, detail, statement)                                                            \
    "2025-11-20 12:34:56.789 UTC,\"shop\",\"catalog\",4711,\"127.0.0.1:5\",691f09b0.1267,3,\"SELECT\","      \
    "2025-11-20 12:30:00 UTC,3/17,0," severity ",00000,\"" message "\",\"" detail "\",,,,,\"" statement      \
    "\",,,\"psql\",\"client backend\",,0\n"
#define JSON(severity, message, detail, statement)                                                           \
    "{\"timestamp\":\"2025-11-20 12:34:56.789 "                                                              \
    "UTC\",\"user\":\"shop\",\"pid\":4711,\"error_severity\":\"" severity "\",\"message\":\"" message        \
    "\",\"detail\":\"" detail "\",\"statement\":\"" statement                                                \
    "\",\"backend_type\":\"client backend\",\"query_id\":0}\n"

#define UTC "2025-11-20 12:34:56.789 UTC [4711] "

static struct witness_log heard; /* of the test; what it has begun before is cleared */

static bool clear(void)
{
    witness_log_clear(&heard);
    heard = (struct witness_log){0};
    return true;
}

static void begin(const char *text)
{
    clear();
    witness_log_init(&heard, text);
}

static void feed(const char *text)
{
    witness_log_feed(&heard, text, strlen(text), later);
}

/* ---- one line ---- */

static struct witness_line line_of(const char *text)
{
    struct witness_line line;
    witness_line_read(text, strlen(text), &line);
    return line;
}

static void assert_dated(const char *text, uint64_t wall_us)
{
    struct witness_line line = line_of(text);
    if (line.kind != WITNESS_LINE_LOG || line.process != 4711 ||
        witness_line_wall_us(&line, later.wall_us) != wall_us || strncmp(line.text, "execute", 7) != 0)
        fail_msg("%s: kind %d, process %lu, stamp %lu", text, (int)line.kind, (unsigned long)line.process,
                 (unsigned long)line.stamp_us);
}

TEST(prefixes_with_a_time_and_a_process_are_understood_in_any_order)
{
    static const char *const prefixes[] = {
        "2025-11-20 12:34:56.789 UTC [4711] ",
        "2025-11-20 12:34:56.789 GMT [4711] shop@catalog ",
        "4711 1763642096.789 ",
        "1763642096.789 4711 ",
        "[4711] 1763642096.789: ",
        "4711:2025-11-20 12:34:56.789 UTC:",
        "[4711-12] 2025-11-20 12:34:56.789 UTC ",
        "2025-11-20 12:34:56 UTC [4711]: [3-1] 1763642096.789 ",
        "time=2025-11-20 12:34:56.789 UTC pid=4711 ",
        "app7@shop2 10.0.0.7 2025-11-20 12:34:56.789 UTC 4711 ",
        "2025-11-20 12:34:56.789 UTC 127.0.0.1(54321) [4711] 691f09b0.1267 ",
        "2025-11-20 13:34:56.789 CET [4711] ",
        "2025-11-20 18:19:56.789 +0545 [4711] ",
        "2025-11-20 09:34:56.789 -03 [4711] ",
        "2025-11-21 02:34:56.789 +14 4711 ",
        "shop-7 15.200 2025-11-20 12:34:56.789 UTC 4711 ",
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char line[256];
        snprintf(line, sizeof line, "%sLOG:  execute p1: SELECT 1", prefixes[i]);
        assert_dated(line, STAMP_US);
        snprintf(line, sizeof line, "%sLOG:  00000: execute p1: SELECT 1", prefixes[i]); /* verbose */
        assert_dated(line, STAMP_US);
    }
}

/* Only where it is not written must the zone be found by when the line is read. */
TEST(times_in_utc_need_no_reading_soon)
{
    struct witness_line line = line_of(UTC "LOG:  x");
    assert_true(witness_line_wall_us(&line, STAMP_US + UINT64_C(3600000000)) == STAMP_US);
    line = line_of("2025-11-20 12:34:56.789 CET [4711] LOG:  x");
    assert_true(witness_line_wall_us(&line, STAMP_US - UINT64_C(3600000000)) ==
                STAMP_US - UINT64_C(3600000000));
}

TEST(dates_are_what_the_calendar_says)
{
    static const struct {
        const char *stamp;
        uint64_t seconds;
    } known[] = {
        {"1970-01-01 00:00:00", 0},          {"2000-02-29 23:59:59", 951868799},
        {"2000-03-01 00:00:00", 951868800},  {"2024-12-31 00:00:00", 1735603200},
        {"2038-01-19 03:14:08", 2147483648},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[96];
        snprintf(text, sizeof text, "%s.250 UTC [1] LOG:  x", known[i].stamp);
        assert_true(line_of(text).stamp_us == known[i].seconds * 1000000 + 250000);
    }
}

TEST(a_prefix_without_milliseconds_or_process_is_refused_in_words)
{
    static const char *const prefixes[] = {"",
                                           "2025-11-20 12:34:56 UTC [4711] ",
                                           "2025-11-20 12:34:56.789 UTC ",
                                           "[4711] ",
                                           "1763642096 4711 ",
                                           "691f09b0.1267 1763642096.789 "};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char text[256], why[WITNESS_WHY_BYTES] = "";
        begin("load");
        assert_true(witness_log_is_readable(&heard, "/log", why));
        snprintf(text, sizeof text, "%sLOG:  statement: SELECT /* load */ 1\n", prefixes[i]);
        feed(text);
        assert_false(witness_log_is_readable(&heard, "/log", why));
        assert_non_null(strstr(why, "log_line_prefix = '%m [%p] '"));
        assert_non_null(strstr(why, prefixes[i]));
        assert_int_equal(heard.load_count, 0);
        feed(UTC "LOG:  statement: SELECT /* load */ 1\n"); /* it has been set */
        assert_true(witness_log_is_readable(&heard, "/log", why));
    }
}

TEST(logs_in_other_formats_and_languages_are_refused_in_words)
{
    static const char *const lines[] = {
        "2025-11-20 12:34:56.789 "
        "UTC,\"shop\",\"catalog\",4711,\"127.0.0.1:5\",691f.1,3,\"SELECT\",LOG,00000,\"x\"\n",
        CSV("PROTOKOLL", "Anweisung: SELECT /* load */ 1", "", ""),
        JSON("PROTOKOLL", "Anweisung: SELECT /* load */ 1", "", ""),
        "{\"timestamp\":\"2025-11-20 12:34:56.789 UTC\",\"pid\":4711,\"error_severity\":\"LOG\n",
        "<6>Nov 20 12:34:56 shop postgres[4711]: [1-1] statement: SELECT /* load */ 1\nx\nx\n",
        UTC "PROTOKOLL:  Anweisung: SELECT /* load */ 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char why[WITNESS_WHY_BYTES] = "";
        begin("load");
        feed(lines[i]);
        assert_false(witness_log_is_readable(&heard, "/log", why));
        assert_non_null(strstr(why, "is no line of an access log, nor of PostgreSQL's in English"));
        assert_non_null(strstr(why, "lc_messages"));
        feed(UTC "LOG:  statement: SELECT 1\n");
        feed(lines[i]); /* beside real ones they may be somebody else's */
        assert_true(witness_log_is_readable(&heard, "/log", why));
    }
}

/* PostgreSQL's settings would not help. */
TEST(a_log_of_requests_that_is_no_access_log_is_refused_as_one)
{
    static const char *const lines[] = {
        "127.0.0.1 - - [30/Nov/2026 00:29:09] \"GET /a HTTP/1.1\" 200 -\n", /* python3 -m http.server */
        "::1 - - [2026-11-30 00:29:09.123] \"POST http://a/b HTTP/1.1\" 200 7\n",
        "{\"when\": \"2026-11-30T00:29:09Z\", \"method\": \"GET\", \"path\": \"/a\"}\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char why[WITNESS_WHY_BYTES] = "";
        begin("load");
        for (int line = 0; line < 3; line++)
            feed(lines[i]);
        assert_false(witness_log_is_readable(&heard, "/log", why));
        assert_non_null(strstr(why, "is no line of an access log: combined needs a date like [30/Nov/2026:"));
        assert_non_null(strstr(why, "JSON a time, method and path"));
        assert_null(strstr(why, "PostgreSQL"));
    }
}

/* ---- keys ---- */

static struct witness_key key_of(const char *text)
{
    struct witness_key key;
    witness_key_read(text, strlen(text), &key);
    return key;
}

TEST(values_are_the_key, P101)
{
    static const char *const keys[][2] = {
        /* parameters */
        {"$1 = '7'", "7"},
        {"$1 = '7', $2 = '120'", "7, 120"},
        {"$1 = '7', $2 = NULL", "7, NULL"},
        {"$1 = 'it''s, $2 = ''x'''", "it's, $2 = 'x'"},
        {"$1 = ''", ""},
        {"$1 = '', $2 = ''", ", "},
        {"$1 = 'two\nlines'", "two lines"},
        {"$1 = 'C:\\'", "C:\\"},
        {"$1 = 'torn", "torn"},
        {"", ""},
        {"nonsense", ""},
        /* literals */
        {"SELECT name FROM items WHERE id = 7", "7"},
        {"SELECT * FROM items WHERE id=-7", "-7"},
        {"SELECT * FROM items WHERE id = '7'::bigint AND shop = CAST(3 AS int)", "7, 3"},
        {"SELECT a1, \"b 2\", \"it's \"\"3\" FROM t4$5 WHERE id = 7;", "7"},
        {"SELECT * FROM items WHERE id IN (7, 8) AND kind = ANY('{9,10}')", "7, 8, {9,10}"},
        {"SELECT * FROM items WHERE x > 1.5e-3 AND y < .5 AND z = 0x1F", "1.5e-3, .5, 0x1F"},
        {"SELECT * FROM items WHERE name = E'it\\'s, \\\\' AND id = 7", "it's, \\, 7"},
        {"SELECT * FROM items WHERE a = U&'\\0041' AND b = b'101' AND c = X'1f' AND d = N'n'",
         "\\0041, 101, 1f, n"},
        {"SELECT $$it's 7$$, $x1$a $$ b$x1$, '7'", "it's 7, a $$ b, 7"},
        {"SELECT * FROM items WHERE hidden = false AND gone IS NULL AND x IS NOT TRUE AND y = (NULL)",
         "false, NULL"},
        {"/* 1 /* 2 */ 3 */ SELECT -- 4\n * FROM items /* '5 */ WHERE id = 6--'7", "6"},
        {"SELECT * FROM items WHERE id = 7 LIMIT 1", "7, 1"},
        {"EXECUTE p1(7, 'x')", "7, x"},
        {"SELECT $", ""},
        {"SELECT $tag", ""},
        {"SELECT $$torn", "torn"},
        {"SELECT /* torn", ""},
        {"SELECT \"torn", ""},
        {"SELECT 1 -", "1"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_string_equal(key_of(keys[i][0]).text, keys[i][1]);
}

TEST(a_statement_without_its_values_is_its_form)
{
    struct witness_key key =
        key_of("\n/* 7 */  SELECT *\n\t FROM items -- x\n WHERE id=-7 AND n = E'\\'' ; -- end");
    assert_string_equal(key.form, "SELECT * FROM items WHERE id=? AND n = ? ;");
    assert_false(key.has_parameters);
    key = key_of("SELECT * FROM items WHERE id = $1 AND n = '$2'");
    assert_string_equal(key.form, "SELECT * FROM items WHERE id = $1 AND n = ?");
    assert_true(key.has_parameters);
    assert_false(key_of("SELECT '$1', $$ $2 $$, \"$3\", a$4 -- $5").has_parameters);
    key = key_of("SELECT aaaaaaaaaa, bbbbbbbbbb, cccccccccc, dddddddddd, eeeeeeeeee, ffffffffff, gggggggggg, "
                 "hhhhhhhhhh");
    assert_int_equal(strlen(key.form), WITNESS_FORM_BYTES - 1);
}

TEST(long_keys_are_cut_and_still_differ)
{
    char text[200];
    struct witness_key keys[2];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "$1 = '%0100d', $2 = '%d'", 0, i);
        keys[i] = key_of(text);
        assert_int_equal(strlen(keys[i].text), WITNESS_KEY_BYTES - 1);
        assert_int_equal(keys[i].text[WITNESS_KEY_BYTES - 10], '~');
    }
    assert_string_not_equal(keys[0].text, keys[1].text);
    snprintf(text, sizeof text, "$1 = '%063d'", 0); /* exactly as long as there is room */
    assert_null(strchr(key_of(text).text, '~'));
}

/* ---- requests to an origin ---- */

/* Another path is no load; a second that happens to be whole says nothing of the others. */
TEST(requests_in_an_access_log_are_loads)
{
    begin("/item/");
    feed("{\"msec\":\"1763642096.789\",\"request\":\"GET /item/7?a=b HTTP/1.1\"}\n"
         "{\"msec\":\"1763642096.789\",\"request\":\"GET /other/7 HTTP/1.1\"}\n");
    assert_int_equal(heard.load_count, 1);
    assert_string_equal(heard.loads[0].key, "/item/7?a=b");
    assert_true(heard.loads[0].at_us == stamp_now_us);
    assert_int_equal(heard.readable_count - heard.rubbish_count, 4); /* with the key of each */
    assert_false(witness_log_is_coarse(&heard));
    feed("{\"msec\":\"1763642097.000\",\"request\":\"GET /other/7 HTTP/1.1\"}\n");
    assert_false(witness_log_is_coarse(&heard));
}

TEST(a_log_whose_times_are_whole_seconds_says_so)
{
    begin("/item/");
    feed("127.0.0.1 - - [20/Nov/2025:12:34:56 +0000] \"GET /item/it's HTTP/1.1\" 200 5 \"-\" \"curl\"\n");
    assert_int_equal(heard.load_count, 1);
    assert_true(witness_log_is_coarse(&heard));
    assert_int_equal(heard.running.ended, 0); /* nobody knows how many ran at once */
}

/* ---- which messages are loads ---- */

struct expected {
    const char *text;
    size_t loads;
    const char *key; /* of the last one */
};

static const struct expected kinds[] = {
    {UTC "LOG:  statement: SELECT /* load */ 1\n", 1, "1"},
    {UTC "LOG:  statement: SELECT /* load */ x\n\t  FROM y\n\t WHERE z = 'a\n\tb'\n\t   AND id = 7\n", 1,
     "a b, 7"},
    {UTC "LOG:  execute <unnamed>: SELECT /* load */ x WHERE id = 7\n", 1, "7"},
    {UTC "LOG:  execute <unnamed>: SELECT /* load */ x WHERE id = $1 AND shop = 3\n" UTC
         "DETAIL:  Parameters: $1 = '7'\n",
     1, "7"},
    {UTC "LOG:  execute <unnamed>: SELECT /* load */ $1\n" UTC "DETAIL:  parameters: $1 = '7'\n", 1, "7"},
    {UTC "LOG:  execute p1: SELECT /* load */ $1\n" UTC "DETAIL:  parameters: $1 = '7', $2 = '120'\n", 1,
     "7, 120"},
    {UTC "LOG:  execute p1/c1: SELECT /* load */ $1\n", 1, ""},
    {UTC "LOG:  execute p1: SELECT x\n\t  FROM /* load */ y\n\t WHERE z = $1\n" UTC
         "DETAIL:  parameters: $1 = '7'\n",
     1, "7"},
    {UTC "LOG:  statement: SELECT /* load */ 1; SELECT /* load */ 2\n", 1, "1, 2"},
    {UTC "LOG:  execute p1: /* load */ SELECT '/* load */'\n", 1, "/* load */"},
    {UTC "LOG:  00000: statement: SELECT /* load */ 1\n" UTC
         "LOCATION:  exec_simple_query, postgres.c:1042\n",
     1, "1"},
    {CSV("LOG", "execute p1: SELECT /* load */ $1", "Parameters: $1 = '7'", ""), 1, "7"},
    {CSV("LOG", "statement: SELECT \"\"n\"\", ','\n  FROM /* load */ x\n\tWHERE id = 7", "", ""), 1, ",, 7"},
    {"FROM x\" /* load */\n" CSV("LOG", "statement: SELECT /* load */ 7", "", ""), 1, "7"}, /* torn */
    {JSON("LOG", "execute p1: SELECT /* load */ $1", "Parameters: $1 = '7'", ""), 1, "7"},
    {JSON("LOG", "statement: SELECT \\\"n\\\"\\n\\t/* load */ 7", "", ""), 1, "7"},
    /* EXECUTE of what was prepared with the text in it */
    {UTC "LOG:  statement: EXECUTE p1(7, 'x')\n" UTC
         "DETAIL:  prepare: PREPARE p1 AS SELECT /* load */ $1, $2\n",
     1, "7, x"},
    {UTC "LOG:  statement: /* load */ EXECUTE p1(7)\n" UTC
         "DETAIL:  prepare: PREPARE p1 AS SELECT /* load */ $1\n",
     1, "7"},
    {UTC "LOG:  statement: EXECUTE p1(7)\n" UTC "DETAIL:  prepare: PREPARE p1 AS SELECT 1\n", 0, NULL},
    /* no loads */
    {UTC "LOG:  statement: SELECT 1\n" UTC "DETAIL:  prepare: PREPARE p1 AS SELECT /* load */ $1\n", 0, NULL},
    {UTC "LOG:  statement: PREPARE p1 AS SELECT /* load */ $1\n", 0, NULL},
    {UTC "LOG:  statement: -- note\n\t/* load */ prepare p1 AS SELECT $1\n", 0, NULL},
    {UTC "LOG:  execute fetch from p1/c1: SELECT /* load */ $1\n", 0, NULL},
    {UTC "LOG:  duration: 0.5 ms  parse p1: SELECT /* load */ $1\n", 0, NULL},
    {UTC "LOG:  duration: 0.5 ms  bind p1: SELECT /* load */ $1\n", 0, NULL},
    {UTC "LOG:  duration: 9.5 ms  plan:\n\tQuery Text: SELECT /* load */ 1\n", 0, NULL},
    {UTC "ERROR:  division by zero\n" UTC "STATEMENT:  SELECT /* load */ 1 / 0\n", 0, NULL},
    {CSV("ERROR", "division by zero", "", "SELECT /* load */ 1 / 0"), 0, NULL},
    {JSON("ERROR", "division by zero", "", "SELECT /* load */ 1 / 0"), 0, NULL},
    {CSV("LOG", "duration: 0.500 ms  bind p1: SELECT /* load */ $1", "Parameters: $1 = '7'", ""), 0, NULL},
    {UTC "ERROR:  x\n" UTC "CONTEXT:  SQL statement \"SELECT /* load */ 1\"\n" UTC
         "QUERY:  SELECT /* load */ 1\n",
     0, NULL},
    {UTC "LOG:  AUDIT: SESSION,1,1,READ,SELECT,,,SELECT /* load */ 1\n", 0, NULL},
    {UTC "LOG:  statement: SELECT 1\n" UTC "DETAIL:  parameters: $1 = '/* load */'\n", 0, NULL},
    {UTC "LOG:  statement: /* stampede witness */ SELECT '/* load */'\n", 0, NULL},
    {UTC "LOG:  unexpected EOF on client connection with an open transaction /* load */\n", 0, NULL},
    {"sh: 1: /* load */: not found\n", 0, NULL},
    {"\tSELECT /* load */ 1\n", 0, NULL},
    {"\n\n \n:  \nLOG:  \n", 0, NULL},
    {UTC "LOG:  statement: \n" UTC "LOG:  execute \n" UTC "LOG:  execute: \n" UTC "LOG:  \n" UTC "LOG:\n", 0,
     NULL},
};

static void assert_loads(const struct expected *expected)
{
    if (heard.load_count != expected->loads)
        fail_msg("%s: %zu loads", expected->text, heard.load_count);
    if (expected->loads == 0)
        return;
    assert_string_equal(heard.loads[0].key, expected->key);
    assert_true(heard.loads[0].at_us == stamp_now_us);
}

TEST(what_runs_is_a_load_and_nothing_else_is)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        begin("/* load */");
        feed(kinds[i].text);
        assert_loads(&kinds[i]);
    }
}

TEST(messages_torn_at_every_byte_are_the_same_messages)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t bytes = strlen(kinds[i].text);
        for (size_t cut = 0; cut <= bytes; cut++) {
            begin("/* load */");
            witness_log_feed(&heard, kinds[i].text, cut, later);
            witness_log_feed(&heard, kinds[i].text + cut, bytes - cut, later);
            assert_loads(&kinds[i]);
        }
    }
}

TEST(a_load_counts_as_soon_as_its_line_is_whole)
{
    begin("load");
    feed(UTC "LOG:  execute p1: SELECT /* load");
    assert_int_equal(heard.load_count, 0);
    feed(" */ $1\n");
    assert_int_equal(heard.load_count, 1);
    feed("\tFROM /* load */ x\n");
    feed(UTC "DETAIL:  parameters: $1 = '7'\n");
    assert_int_equal(heard.load_count, 1);
    assert_string_equal(heard.loads[0].key, "7");
}

TEST(parameters_that_do_not_come_are_noticed)
{
    begin("load");
    feed(UTC "LOG:  execute p1: SELECT /* load */ $1\n");
    assert_int_equal(heard.keyless_count, 1);
    feed(UTC "DETAIL:  parameters: $1 = '7'\n");
    assert_int_equal(heard.keyless_count, 0);
    feed(UTC "LOG:  execute p1: SELECT /* load */ $1\n" UTC "LOG:  statement: SELECT /* load */ 1\n" UTC
             "LOG:  statement: SELECT /* load */ x\n" UTC "LOG:  execute p1: SELECT $1\n");
    assert_int_equal(heard.load_count, 4);
    assert_int_equal(heard.keyless_count, 1);
}

TEST(what_is_asked_instead_of_a_load_is_counted_until_there_is_one)
{
    char line[200];
    begin("FROM itmes");
    for (unsigned i = 0; i < 200; i++) {
        snprintf(line, sizeof line,
                 UTC "LOG:  statement: BEGIN\n" UTC "LOG:  statement: SELECT t%u FROM other\n", i);
        feed(line);
        snprintf(line, sizeof line, UTC "LOG:  statement: SELECT n\n\tFROM items WHERE id = %u\n", i);
        feed(line);
    }
    feed(UTC "LOG:  statement: /* stampede witness 7 */ SELECT 1\n");
    const struct witness_other *most = heard.others;
    for (size_t i = 0; i < WITNESS_LOG_OTHERS; i++)
        most = heard.others[i].count > most->count ? &heard.others[i] : most;
    assert_string_equal(most->form, "SELECT n FROM items WHERE id = ?");
    assert_in_range(most->count, 150, 200);
    uint64_t before = most->count;
    feed(UTC "LOG:  statement: SELECT n FROM itmes WHERE id = 7\n" UTC
             "LOG:  statement: SELECT n FROM items WHERE id = 7\n" UTC "LOG:  statement: BEGIN\n");
    assert_int_equal(most->count, before);
}

TEST(parameters_find_their_statement_by_process)
{
    begin("load");
    feed("11 1763642096.789 LOG:  execute p1: SELECT /* load */ $1\n"
         "22 1763642096.790 LOG:  execute p1: SELECT /* load */ $1\n"
         "33 1763642096.790 LOG:  execute p1: SELECT $1\n"
         "22 1763642096.790 DETAIL:  parameters: $1 = 'two'\n"
         "33 1763642096.790 DETAIL:  parameters: $1 = 'three'\n"
         "11 1763642096.789 DETAIL:  parameters: $1 = 'one'\n"
         "44 1763642096.789 DETAIL:  parameters: $1 = 'nobody'\n");
    assert_int_equal(heard.load_count, 2);
    assert_string_equal(heard.loads[0].key, "one");
    assert_string_equal(heard.loads[1].key, "two");
    feed("11 1763642096.795 LOG:  disconnection\n"
         "11 1763642096.795 DETAIL:  parameters: $1 = 'not of this one'\n");
    assert_string_equal(heard.loads[0].key, "one");
}

TEST(what_follows_a_break_does_not_continue_what_came_before)
{
    begin("load");
    feed(UTC "LOG:  statement: SELECT 1\n");
    witness_log_break(&heard);
    feed("\tFROM /* load */ x\n" UTC "LOG:  statement: SEL");
    witness_log_break(&heard);
    feed("ECT /* load */ 1\n");
    assert_int_equal(heard.load_count, 0);
    feed(UTC "LOG:  statement: SELECT /* load */ 1\n");
    assert_int_equal(heard.load_count, 1);
}

/* log_min_duration_statement = 0 */
TEST(statements_that_are_logged_at_their_end_began_so_long_before)
{
    static const char *const logs[] = {
        UTC "LOG:  duration: 0.500 ms  parse p1: SELECT /* load */ $1\n" UTC
            "LOG:  duration: 2.005 ms  execute p1: SELECT /* load */ $1\n" UTC
            "DETAIL:  parameters: $1 = '7'\n" UTC "LOG:  duration: 0.250 ms\n" UTC
            "LOG:  duration: 0.400 ms  statement: SELECT /* other */ 1\n" UTC
            "ERROR:  canceling statement due to statement timeout\n" UTC
            "STATEMENT:  SELECT x\n\tFROM /* load */ y\n\tWHERE id = 8\n",
        CSV("LOG", "duration: 0.500 ms  parse p1: SELECT /* load */ $1", "", "")
            CSV("LOG", "duration: 2.005 ms  execute p1: SELECT /* load */ $1", "parameters: $1 = '7'", "")
                CSV("LOG", "duration: 0.400 ms  statement: SELECT /* other */ 1", "", "")
                    CSV("ERROR", "canceling statement", "", "SELECT x\nFROM /* load */ y\n\tWHERE id = 8"),
        JSON("LOG", "duration: 0.500 ms  parse p1: SELECT /* load */ $1", "", "")
            JSON("LOG", "duration: 2.005 ms  execute p1: SELECT /* load */ $1", "parameters: $1 = '7'", "")
                JSON("LOG", "duration: 0.400 ms  statement: SELECT /* other */ 1", "", "")
                    JSON("ERROR", "canceling statement", "", "SELECT x\\nFROM /* load */ y\\nWHERE id = 8"),
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        begin("/* load */");
        feed(logs[i]);
        assert_int_equal(heard.load_count, 2);
        assert_string_equal(heard.loads[0].key, "7");
        assert_true(heard.loads[0].at_us == stamp_now_us - 2005 && heard.loads[0].end_us == stamp_now_us);
        assert_string_equal(heard.loads[1].key, "8");
        assert_true(heard.loads[1].at_us == stamp_now_us && heard.loads[1].end_us == stamp_now_us);
        assert_int_equal(heard.timed_count, 2);
        assert_int_equal(heard.shortest_us, 400);
        assert_int_equal(heard.keyless_count, 0);
    }
}

TEST(a_load_that_began_before_the_log_was_followed_is_not_counted)
{
    begin("load");
    heard.since_us = stamp_now_us - 1000;
    feed(UTC "LOG:  duration: 2.000 ms  statement: SELECT /* load */ 1\n" UTC
             "LOG:  duration: 1.000 ms  statement: SELECT /* load */ 2\n");
    assert_int_equal(heard.load_count, 1);
    assert_string_equal(heard.loads[0].key, "2");
}

/* With log_statement = all it was counted when it began. */
TEST(a_statement_is_not_counted_once_more_when_it_fails)
{
    begin("load");
    feed(UTC "LOG:  duration: 2.000 ms  statement: SELECT /* load */ 1\n" UTC
             "LOG:  statement: SELECT /* load */ 2\n" UTC "ERROR:  no\n" UTC
             "STATEMENT:  SELECT /* load */ 2\n");
    assert_int_equal(heard.load_count, 2);
    assert_int_equal(heard.timed_count, 1);
}

TEST(loads_that_certainly_ran_at_once_are_found_by_their_ends)
{
    static const struct witness_load loads[] = {
        {.at_us = 1000, .end_us = 9000}, {.at_us = 2000, .end_us = 5000}, {.at_us = 3000, .end_us = 3500},
        {.at_us = 4500, .end_us = 8000}, {.at_us = 5000, .end_us = 8000}, {.at_us = 9000},
    };
    uint32_t most;
    assert_true(witness_most_at_once(loads, 6, 0, &most));
    assert_int_equal(most, 3);
    assert_true(witness_most_at_once(loads, 6, 999, &most)); /* 3 may have begun when 4 had ended */
    assert_int_equal(most, 3);
    assert_true(witness_most_at_once(loads, 2, 3000, &most));
    assert_int_equal(most, 1);
    assert_true(witness_most_at_once(loads, 0, 0, &most));
    assert_int_equal(most, 0);
}

TEST(the_awaited_statement_of_ours_is_found_and_is_no_load)
{
    begin(NULL);
    heard.awaited = 81;
    feed(UTC "LOG:  execute <unnamed>: /* stampede witness 80 */ SELECT $1\n");
    assert_false(heard.has_awaited);
    feed(UTC "LOG:  execute <unnamed>: /* stampede witness 81 */ SELECT $1\n" UTC
             "DETAIL:  parameters: $1 = 'x'\n" UTC "LOG:  statement: /* stampede witness */ SELECT 1\n");
    assert_true(heard.has_awaited);
    assert_int_equal(heard.load_count, 0);
}

/* ---- how many run ---- */

#define AT(process) "2025-11-20 12:34:56.789 UTC [" process "] "
#define BEGINS(process) AT(process) "LOG:  execute p1: SELECT /* load */ $1\n"
#define ENDS(process) AT(process) "LOG:  duration: 20.5 ms\n"

TEST(the_most_loads_at_once_is_counted_between_begins_and_ends)
{
    begin("/* load */");
    feed(BEGINS("11") AT("11") "DETAIL:  parameters: $1 = '7'\n" BEGINS("22") ENDS("33"));
    assert_int_equal(heard.running.count, 2);
    feed(ENDS("11") BEGINS("33"));
    assert_int_equal(heard.running.count, 2);
    feed(AT("22") "FATAL:  terminating connection due to administrator command\n" ENDS("33"));
    assert_int_equal(heard.running.count, 0);
    assert_int_equal(heard.running.most, 2);
    assert_int_equal(heard.running.ended, 2); /* the third wrote how it ended, not after how long */
    assert_int_equal(heard.load_count, 3);
}

#define KILLED(process) AT("1") "LOG:  server process (PID " process ") was terminated by signal 9: Killed\n"

TEST(the_load_of_a_killed_process_ends_with_the_postmasters_line)
{
    begin("/* load */");
    feed(BEGINS("11") BEGINS("22") KILLED("22") AT("1") "DETAIL:  Failed process was running: SELECT 1\n");
    assert_int_equal(heard.running.count, 1);
    assert_int_equal(heard.running.process[0], 11);
    feed(KILLED("33") BEGINS("44"));
    assert_int_equal(heard.running.count, 2);
    assert_int_equal(heard.running.most, 2);
    assert_int_equal(heard.running.ended, 0);
}

/* The postmaster ends all others without a line of theirs; killed itself it leaves none when it is started again. */
TEST(no_load_outlasts_the_server)
{
    static const char *const lines[] = {
        AT("1") "LOG:  all server processes terminated; reinitializing\n",
        AT("2") "LOG:  starting PostgreSQL 15.18 on x86_64-pc-linux-gnu, 64-bit\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        begin("/* load */");
        feed(BEGINS("11") BEGINS("22"));
        feed(lines[i]);
        assert_int_equal(heard.running.count, 0);
        feed(BEGINS("33"));
        assert_int_equal(heard.running.most, 2);
    }
}

/* Otherwise the log would seem to have the ends. */
TEST(a_duration_of_another_statement_is_no_end_of_a_load)
{
    begin("/* load */");
    feed(ENDS("11") AT("11") "LOG:  statement: SELECT 1\n" ENDS("11"));
    assert_int_equal(heard.running.ended, 0);
    feed(BEGINS("11") BEGINS("11") ENDS("22")); /* one process runs one at a time */
    assert_int_equal(heard.running.most, 1);
    assert_int_equal(heard.running.ended, 0);
}

TEST(more_loads_than_there_is_room_for_are_noticed)
{
    static struct witness_running running;
    for (uint64_t process = 1; process <= WITNESS_RUNNING_MAX; process++)
        witness_running_begin(&running, process);
    witness_running_begin(&running, 1); /* runs already */
    assert_false(running.is_overfull);
    witness_running_begin(&running, WITNESS_RUNNING_MAX + 1);
    assert_true(running.is_overfull);
    assert_int_equal(running.most, WITNESS_RUNNING_MAX);
}

/* ---- rubbish ---- */

static uint32_t chance(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Real lines with bytes changed, in pieces of any size. */
TEST(rubbish_crashes_nothing)
{
    uint32_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        char text[600], why[WITNESS_WHY_BYTES];
        size_t count = 0;
        for (int i = 0; i < 2; i++)
            count += (size_t)snprintf(text + count, sizeof text - count, "%s",
                                      kinds[chance(&seed) % (sizeof kinds / sizeof *kinds)].text);
        assert_true(count < sizeof text);
        for (uint32_t changes = chance(&seed) % 6; changes > 0; changes--) {
            char byte = chance(&seed) % 3 == 0 ? "\n\t'(: "[chance(&seed) % 6] : (char)chance(&seed);
            text[chance(&seed) % count] = byte;
        }
        begin(round % 2 == 0 ? "/* load */" : NULL);
        for (size_t at = 0, piece; at < count; at += piece) {
            piece = 1 + chance(&seed) % 200;
            piece = piece < count - at ? piece : count - at;
            witness_log_feed(&heard, text + at, piece, later);
            if (chance(&seed) % 16 == 0)
                witness_log_break(&heard);
        }
        assert_true(heard.load_count <= 10);
        witness_log_is_readable(&heard, "/log", why);
    }
}

TEST(a_line_without_end_takes_bounded_memory)
{
    static char much[65536];
    memset(much, 'x', sizeof much);
    begin("load");
    feed(UTC "LOG:  statement: SELECT /* load */ '");
    for (int i = 0; i < 100; i++)
        witness_log_feed(&heard, much, sizeof much, later);
    assert_true(heard.line.capacity < 4 << 20);
    feed("'\n" UTC "LOG:  statement: SELECT /* load */ 1\n");
    assert_int_equal(heard.load_count, 2);
}

TEST(literals_that_never_change_are_no_part_of_a_key)
{
    static const struct {
        const char *keys[3], *trimmed[3];
    } cases[] = {
        {{"0.2, 1, x", "0.2, 2, x", "0.2, 1, x"}, {"1", "2", "1"}},
        {{"0.2, 1, x", "0.2, 2, y", "0.2, 1, y"}, {"1, x", "2, y", "1, y"}},
        {{"0.2, 1", "0.2, 1", "0.2, 1"}, {"0.2, 1", "0.2, 1", "0.2, 1"}}, /* any of them may be it */
        {{"0.2, 1", "0.2, 1, 5", "0.2, 2"}, {"1", "1, 5", "2"}},
        {{"a, b", "a, b, b", "a, b"}, {"a, b", "a, b, b", "a, b"}},
        {{"17", "18", "117"}, {"17", "18", "117"}},
        {{"", "", ""}, {"", "", ""}},
        {{"7", "8", "7"}, {"7", "8", "7"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct witness_load loads[3];
        for (size_t j = 0; j < 3; j++)
            snprintf(loads[j].key, sizeof loads[j].key, "%s", cases[i].keys[j]);
        witness_key_trim(loads, 3);
        for (size_t j = 0; j < 3; j++)
            assert_string_equal(loads[j].key, cases[i].trimmed[j]);
    }
    witness_key_trim(NULL, 0);
}

TEST(an_access_log_that_begins_with_a_timestamp_is_no_jsonlog)
{
    static const char request[] =
        "{\"timestamp\":\"2025-11-20T12:34:56.789Z\",\"method\":\"GET\",\"uri\":\"/a\"}";
    static const char record[] = JSON("LOG", "hello", "", "");
    assert_int_equal(witness_format_of(request, sizeof request - 1), WITNESS_ACCESS);
    assert_int_equal(witness_format_of(record, sizeof record - 1), WITNESS_JSON);
}

TEST_GROUP(.after = clear);
