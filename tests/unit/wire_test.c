/* SPDX-License-Identifier: MIT */
/* wire_test.c - what clients and servers say becomes statements and requests: whole, torn, and rubbish. */
#include "load/witness/wire.h"
#include "tests/support/test.h"

static struct wire wire; /* of the test */
static char told[4096];  /* "text|parameters|begun-ended;" of each statement */

static void tell(void *context, const struct wire_statement *statement)
{
    size_t used = strlen(told);
    (void)context;
    snprintf(told + used, sizeof told - used, "%s|%s|%u-%u;", statement->text, statement->parameters,
             (unsigned)statement->begun_us, (unsigned)statement->ended_us);
}

/* One thing that is said, by the client or the server, at an instant. */
struct said {
    bool is_client;
    unsigned at_us;
    const char *bytes;
    size_t count;
};

#define C(at, bytes)                                                                                         \
    {                                                                                                        \
        true, at, bytes, sizeof(bytes) - 1                                                                   \
    }
#define S(at, bytes)                                                                                         \
    {                                                                                                        \
        false, at, bytes, sizeof(bytes) - 1                                                                  \
    }

/* In pieces of so many bytes. */
static void say(enum wire_protocol protocol, const struct said *said, size_t count, size_t piece)
{
    told[0] = '\0';
    wire_init(&wire, protocol, tell, NULL);
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at < said[i].count; at += piece) {
            size_t bytes = said[i].count - at < piece ? said[i].count - at : piece;
            (said[i].is_client ? wire_client : wire_server)(&wire, said[i].bytes + at, bytes, said[i].at_us);
        }
    }
}

static void expect(enum wire_protocol protocol, const struct said *said, size_t count, const char *wanted)
{
    static const size_t pieces[] = {1, 2, 3, 7, 4096};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        say(protocol, said, count, pieces[i]);
        assert_null(wire.opaque);
        assert_string_equal(told, wanted);
        wire_clear(&wire, 99);
        assert_string_equal(told, wanted);
    }
}

/* Said at once, it cannot be read from there on; what was told before stays. */
static void expect_opaque(enum wire_protocol protocol, const struct said *said, size_t count,
                          const char *reason)
{
    say(protocol, said, count, 4096);
    assert_non_null(wire.opaque);
    assert_non_null(strstr(wire.opaque, reason));
    wire_clear(&wire, 99);
}

#define EXPECT_OPAQUE(protocol, said, reason)                                                                \
    expect_opaque(protocol, said, sizeof(said) / sizeof *(said), reason)
#define EXPECT(protocol, said, wanted) expect(protocol, said, sizeof(said) / sizeof *(said), wanted)

/* ---- PostgreSQL ---- */

#define STARTUP "\0\0\0\x10\0\3\0\0user\0me\0"
#define READY "Z\0\0\0\5I"
#define DONE(step) step "\0\0\0\4"
#define COMPLETE "C\0\0\0\xdSELECT 1\0"

TEST(simple_queries_end_with_ready_for_query)
{
    static const struct said session[] = {C(1, "\0\0\0\x8\4\xd2\x16\x2f"),
                                          S(1, "N"),
                                          C(2, STARTUP),
                                          S(3, "R\0\0\0\x8\0\0\0\0" READY),
                                          C(10, "Q\0\0\0\xdSELECT 7\0"),
                                          S(11, "T\0\0\0\6\0\0D\0\0\0\6\0\0" COMPLETE),
                                          S(14, READY),
                                          C(20, "Q\0\0\0\xdSELECT 8\0"),
                                          S(25, "E\0\0\0\5\0" READY),
                                          C(30, "X\0\0\0\4")};
    EXPECT(WIRE_POSTGRES, session, "SELECT 7||10-14;SELECT 8||20-25;");
}

TEST(executions_have_the_text_of_parse_and_the_values_of_bind)
{
    static const struct said session[] = {C(1, STARTUP), S(2, READY),
                                          C(10, "P\0\0\0\x13p1\0SELECT $1\0\0\0"
                                                "S\0\0\0\4"),
                                          S(11, DONE("1") READY),
                                          /* text and NULL, binary int4 */
                                          C(20,
                                            "B\0\0\0\x1d\0p1\0\0\0\0\3\0\0\0\1a\xff\xff\xff\xff\0\0\0\2'b\0\0"
                                            "E\0\0\0\x9\0\0\0\0\0"
                                            "S\0\0\0\4"),
                                          S(22, DONE("2") COMPLETE READY),
                                          C(30, "B\0\0\0\x18\0p1\0\0\1\0\1\0\1\0\0\0\4\xff\xff\xff\xfe\0\0"
                                                "E\0\0\0\x9\0\0\0\0\0"
                                                "S\0\0\0\4"),
                                          S(33, DONE("2") COMPLETE READY)};
    EXPECT(WIRE_POSTGRES, session,
           "SELECT $1|$1 = 'a', $2 = NULL, $3 = '''b'|20-22;SELECT $1|$1 = '-2'|30-33;");
}

TEST(further_rows_of_a_portal_and_what_is_skipped_after_an_error_are_no_statements)
{
    static const struct said session[] = {C(1, STARTUP),
                                          S(2, READY),
                                          C(10, "P\0\0\0\x9\0a\0\0\0"
                                                "B\0\0\0\xc\0\0\0\0\0\0\0\0"
                                                "E\0\0\0\x9\0\0\0\0\1"
                                                "E\0\0\0\x9\0\0\0\0\1"
                                                "S\0\0\0\4"),
                                          S(12, DONE("1") DONE("2") DONE("s") COMPLETE READY),
                                          C(20, "P\0\0\0\x9\0b\0\0\0"
                                                "B\0\0\0\xc\0\0\0\0\0\0\0\0"
                                                "E\0\0\0\x9\0\0\0\0\0"
                                                "P\0\0\0\x9\0c\0\0\0"
                                                "B\0\0\0\xc\0\0\0\0\0\0\0\0"
                                                "E\0\0\0\x9\0\0\0\0\0"
                                                "S\0\0\0\4"),
                                          S(25, DONE("1") DONE("2") "E\0\0\0\5\0" READY),
                                          C(30, "P\0\0\0\x9\0d\0\0\0"
                                                "B\0\0\0\xc\0\0\0\0\0\0\0\0"
                                                "E\0\0\0\x9\0\0\0\0\0"
                                                "S\0\0\0\4"),
                                          S(35, "E\0\0\0\5\0" READY)};
    EXPECT(WIRE_POSTGRES, session, "a||10-12;b||20-25;");
}

TEST(statements_that_are_closed_make_room_and_one_that_was_never_parsed_is_not_left_out)
{
    static const struct said unseen[] = {C(1, STARTUP), S(2, READY),
                                         C(10, "B\0\0\0\xd\0x\0\0\0\0\0\0\0"
                                               "E\0\0\0\x9\0\0\0\0\0"
                                               "S\0\0\0\4"),
                                         S(12, DONE("2") COMPLETE READY)};
    struct said session[2 * WIRE_NAMED_MAX + 5] = {C(1, STARTUP), S(2, READY),
                                                   C(3, "P\0\0\0\xdkeep\0a\0\0\0")};
    static char others[WIRE_NAMED_MAX][32];
    size_t count = 3;
    for (size_t i = 0; i < WIRE_NAMED_MAX; i++) {
        memcpy(others[i], "P\0\0\0\xcn000\0\0\0\0C\0\0\0\xaSn000\0", 24);
        for (size_t at = 6, part = i; at < 9; at++, part /= 10)
            others[i][at] = others[i][at + 13] = (char)('0' + part % 10);
        session[count++] = (struct said){true, 4, others[i], 24};
        session[count++] = (struct said)S(5, DONE("1") DONE("3"));
    }
    session[count++] = (struct said)C(10, "B\0\0\0\x10\0keep\0\0\0\0\0\0\0"
                                          "E\0\0\0\x9\0\0\0\0\0"
                                          "S\0\0\0\4");
    session[count++] = (struct said)S(12, DONE("1") DONE("2") COMPLETE READY);
    EXPECT(WIRE_POSTGRES, session, "a||10-12;");
    EXPECT_OPAQUE(WIRE_POSTGRES, unseen, "text was not seen");
}

#define GREETING                                                                                             \
    "\5\0\0\0\xa"                                                                                            \
    "10\0x"

TEST(encrypted_connections_are_opaque_and_say_what_to_do)
{
    static const struct said postgres[] = {C(1, "\0\0\0\x8\4\xd2\x16\x2f"), S(2, "S"),
                                           C(3, "\x16\3\1 rubbish")};
    static const struct said mysql[] = {S(1, "\5\0\0\0\xa"
                                             "10\0x"),
                                        C(2, "\4\0\0\1\0\x8\0\0")};
    static const struct said zstd[] = {S(1, GREETING), C(2, "\4\0\0\1\1\0\0\4")};
    static const struct said hello[] = {C(1, "\x16\3\1\2\0\1\0\1")};
    EXPECT_OPAQUE(WIRE_POSTGRES, postgres, "sslmode=disable");
    EXPECT_OPAQUE(WIRE_POSTGRES, hello, "sslmode=disable");
    EXPECT_OPAQUE(WIRE_MYSQL, mysql, "switch TLS off");
    EXPECT_OPAQUE(WIRE_MYSQL, zstd, "switch compression off");
    EXPECT_OPAQUE(WIRE_HTTP, hello, "http://");
    assert_string_equal(told, "");
}

/* ---- MySQL ---- */

#define LOGIN_OLD "\4\0\0\1\1\0\0\0"
#define LOGIN_NEW "\4\0\0\1\1\0\0\1"
#define OK(sequence) "\7\0\0" sequence "\0\0\0\2\0\0\0"
#define OK_MORE(sequence) "\7\0\0" sequence "\0\0\0\xa\0\0\0"
#define EOF_OLD(sequence) "\5\0\0" sequence "\xfe\0\0\2\0"
#define OK_END(sequence) "\7\0\0" sequence "\xfe\0\0\2\0\0\0"

TEST(results_of_mysql_end_with_their_last_packet)
{
    static const struct said old[] = {S(1, GREETING),
                                      C(2, LOGIN_OLD),
                                      S(3, OK("\2")),
                                      C(10, "\x9\0\0\0\3SELECT 7"),
                                      S(11, "\1\0\0\1\1"
                                            "\3\0\0\2def" EOF_OLD("\3") "\2\0\0\4\1"
                                                                        "7"),
                                      S(15, EOF_OLD("\5")),
                                      C(20, "\7\0\0\0\3UPDATE"),
                                      S(21, OK_MORE("\1")),
                                      S(23, OK("\2")),
                                      C(30, "\4\0\0\0\3BAD"),
                                      S(31, "\3\0\0\1\xff\1\4"),
                                      C(40, "\1\0\0\0\xe"),
                                      S(41, OK("\1")),
                                      C(50, "\1\0\0\0\1")};
    static const struct said new[] = {S(1, GREETING),
                                      C(2, LOGIN_NEW),
                                      S(3, OK("\2")),
                                      C(10, "\x9\0\0\0\3SELECT 7"),
                                      S(11, "\1\0\0\1\1"
                                            "\3\0\0\2def\2\0\0\3\1"
                                            "7"),
                                      S(15, OK_END("\4"))};
    EXPECT(WIRE_MYSQL, old, "SELECT 7||10-15;UPDATE||20-23;BAD||30-31;");
    EXPECT(WIRE_MYSQL, new, "SELECT 7||10-15;");
}

TEST(executions_of_mysql_have_the_text_that_was_prepared_and_their_values)
{
    static const struct said session[] = {
        S(1, GREETING), C(2, LOGIN_NEW), S(3, OK("\2")), C(10, "\x9\0\0\0\x16SELECT ?"),
        S(11, "\xc\0\0\1\0\5\0\0\0\1\0\1\0\0\0\0"
              "\3\0\0\2def\3\0\0\3def"),
        /* with types and, the second time, without */
        C(20, "\x12\0\0\0\x17\5\0\0\0\0\1\0\0\0\0\1\3\0\7\0\0\0"), S(22, OK("\1")),
        C(30, "\x10\0\0\0\x17\5\0\0\0\0\1\0\0\0\0\0\7\0\0\0"), S(33, OK("\1")),
        C(40, "\5\0\0\0\x19\5\0\0\0")};
    EXPECT(WIRE_MYSQL, session, "SELECT ?|$1 = '0007000000'|20-22;SELECT ?|$1 = '0007000000'|30-33;");
}

TEST(what_a_client_of_mariadb_knows_is_not_described_again)
{
    static const struct said session[] = {S(1, GREETING),
                                          C(2, LOGIN_NEW),
                                          S(3, OK("\2")),
                                          C(10, "\x9\0\0\0\x16SELECT 7"),
                                          S(11, "\xc\0\0\1\0\5\0\0\0\1\0\0\0\0\0\0"
                                                "\3\0\0\2def"),
                                          C(20, "\xa\0\0\0\x17\xff\xff\xff\xff\0\1\0\0\0"),
                                          S(21, "\2\0\0\1\1\0"
                                                "\3\0\0\2\0\0\7" OK_END("\3")),
                                          C(30, "\x9\0\0\0\3SELECT 8"),
                                          S(31, "\2\0\0\1\1\1"
                                                "\3\0\0\2def\2\0\0\3\1"
                                                "8" OK_END("\4"))};
    static const struct said no_rows[] = {S(1, GREETING),
                                          C(2, LOGIN_OLD),
                                          S(3, OK("\2")),
                                          C(10, "\x9\0\0\0\x16SELECT 7"),
                                          S(11, "\xc\0\0\1\0\5\0\0\0\1\0\0\0\0\0\0"
                                                "\3\0\0\2def" EOF_OLD("\3")),
                                          C(20, "\xa\0\0\0\x17\5\0\0\0\0\1\0\0\0"),
                                          S(21, "\2\0\0\1\1\0" EOF_OLD("\2") EOF_OLD("\3"))};
    EXPECT(WIRE_MYSQL, session, "SELECT 7||20-21;SELECT 8||30-31;");
    EXPECT(WIRE_MYSQL, no_rows, "SELECT 7||20-21;");
}

TEST(of_many_values_the_first_are_shown)
{
    static char types[64 * 7], values[4 + 19 + 64 * 10] = "\x93\2\0\0\x17\5\0\0\0\0\1";
    const struct said session[] = {S(1, GREETING),
                                   C(2, LOGIN_NEW),
                                   S(3, OK("\2")),
                                   C(10, "\x9\0\0\0\x16SELECT ?"),
                                   S(11, "\xc\0\0\1\0\5\0\0\0\0\0\x40\0\0\0\0"),
                                   {false, 12, types, sizeof types},
                                   {true, 20, values, sizeof values},
                                   S(22, OK("\1"))};
    for (size_t i = 0; i < 64; i++)
        memcpy(types + 7 * i, "\3\0\0\2def", 7);
    values[4 + 18] = 1;
    memset(values + 4 + 19 + 128, 7, 512);
    say(WIRE_MYSQL, session, sizeof session / sizeof *session, 4096);
    assert_null(wire.opaque);
    wire_clear(&wire, 99);
    assert_int_equal(strncmp(told, "SELECT ?|$1 = '00000000000000000707", 35), 0);
    assert_in_range(strlen(told), 100, 600);
    assert_non_null(strstr(told, "07'|20-22;"));
}

#define LOGIN_ATTRIBUTES "\4\0\0\1\1\0\0\x9"

TEST(attributes_of_queries_are_read_over_or_said)
{
    static const struct said none[] = {S(1, GREETING),
                                       C(2, LOGIN_ATTRIBUTES),
                                       S(3, OK("\2")),
                                       C(10, "\xb\0\0\0\3\0\1SELECT 7"),
                                       S(11, OK("\1")),
                                       C(12, "\x9\0\0\0\x16SELECT ?"),
                                       S(13, "\xc\0\0\1\0\5\0\0\0\0\0\1\0\0\0\0"
                                             "\3\0\0\2def"),
                                       C(20, "\x15\0\0\0\x17\5\0\0\0\x8\1\0\0\0\1\0\1\3\0\1n\7\0\0\0"),
                                       S(22, OK("\1"))};
    static const struct said of_query[] = {S(1, GREETING), C(2, LOGIN_ATTRIBUTES), S(3, OK("\2")),
                                           C(10, "\xb\0\0\0\3\1\1\0\1\3\0\1n\7x")};
    static const struct said of_values[] = {S(1, GREETING),
                                            C(2, LOGIN_ATTRIBUTES),
                                            S(3, OK("\2")),
                                            C(12, "\x9\0\0\0\x16SELECT ?"),
                                            S(13, "\xc\0\0\1\0\5\0\0\0\0\0\1\0\0\0\0"
                                                  "\3\0\0\2def"),
                                            C(20, "\x15\0\0\0\x17\5\0\0\0\x8\1\0\0\0\2\0\1\3\0\1n\7\0\0\0")};
    static const struct said old_server[] = {S(1, "\x18\0\0\0\xa"
                                                  "10\0"
                                                  "123412345678\0\xff\xff\0\0\0\xff\1"),
                                             C(2, LOGIN_ATTRIBUTES), S(3, OK("\2")),
                                             C(10, "\x9\0\0\0\3SELECT 7"), S(11, OK("\1"))};
    EXPECT(WIRE_MYSQL, none, "SELECT 7||10-11;SELECT ?|$1 = '0007000000'|20-22;");
    EXPECT(WIRE_MYSQL, old_server, "SELECT 7||10-11;");
    EXPECT_OPAQUE(WIRE_MYSQL, of_query, "attributes");
    EXPECT_OPAQUE(WIRE_MYSQL, of_values, "attributes");
}

TEST(what_a_client_of_mysql_sends_unseen_or_ahead_is_said)
{
    static const struct said unseen[] = {S(1, GREETING), C(2, LOGIN_NEW), S(3, OK("\2")),
                                         C(20, "\xa\0\0\0\x17\5\0\0\0\0\1\0\0\0"), S(21, OK("\1"))};
    static const struct said closed[] = {S(1, GREETING),
                                         C(2, LOGIN_NEW),
                                         S(3, OK("\2")),
                                         C(10, "\x9\0\0\0\x16SELECT 7"),
                                         S(11, "\xc\0\0\1\0\5\0\0\0\0\0\0\0\0\0\0"),
                                         C(12, "\5\0\0\0\x19\5\0\0\0"),
                                         C(20, "\xa\0\0\0\x17\5\0\0\0\0\1\0\0\0"),
                                         S(21, OK("\1"))};
    static const struct said ahead[] = {S(1, GREETING), C(2, LOGIN_NEW), S(3, OK("\2")),
                                        C(10, "\2\0\0\0\3a\2\0\0\0\3b")};
    EXPECT_OPAQUE(WIRE_MYSQL, unseen, "text was not seen");
    EXPECT_OPAQUE(WIRE_MYSQL, closed, "text was not seen");
    EXPECT_OPAQUE(WIRE_MYSQL, ahead, "before they are answered");
}

TEST(a_row_of_mysql_that_is_longer_than_a_packet_is_no_end)
{
    static char row[4 + 0xffffff] = "\xff\xff\xff\3\xfe";
    const struct said session[] = {S(1, GREETING),
                                   C(2, LOGIN_NEW),
                                   S(3, OK("\2")),
                                   C(10, "\x9\0\0\0\3SELECT 7"),
                                   S(11, "\1\0\0\1\1"
                                         "\3\0\0\2def"),
                                   {false, 12, row, sizeof row},
                                   S(13, "\7\0\0\4\xfe\0\0\2\0\0\0"),
                                   S(15, OK_END("\5"))};
    say(WIRE_MYSQL, session, sizeof session / sizeof *session, 65536);
    wire_clear(&wire, 99);
    assert_string_equal(told, "SELECT 7||10-15;");
}

/* ---- HTTP ---- */

TEST(requests_end_with_their_responses)
{
    static const struct said session[] = {
        C(10, "GET /item/7?a='b HTTP/1.1\r\nHost: x\r\n\r\n"),
        S(12, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"),
        S(15, "c"),
        C(20, "POST /x HTTP/1.1\r\nContent-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n"
              "HEAD /y HTTP/1.1\r\n\r\n"),
        S(22, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: "
              "chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
        S(24, "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n"),
        C(30, "PUT /z HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        S(31, "HTTP/1.1 204 No\r\n\r\n")};
    EXPECT(WIRE_HTTP, session,
           "GET '/item/7?a=''b'||10-15;POST '/x'||20-22;HEAD '/y'||20-24;PUT '/z'||30-31;");
}

TEST(what_runs_when_the_connection_closes_ends_then)
{
    static const struct said session[] = {C(10, "GET / HTTP/1.0\r\n\r\n"), S(12, "HTTP/1.0 200 OK\r\n\r\nx")};
    say(WIRE_HTTP, session, 2, 4096);
    assert_string_equal(told, "");
    wire_clear(&wire, 19);
    assert_string_equal(told, "GET '/'||10-19;");
    static const struct said skipped[] = {C(1, STARTUP), S(2, READY),
                                          C(10, "P\0\0\0\x9\0a\0\0\0"
                                                "B\0\0\0\xc\0\0\0\0\0\0\0\0"
                                                "E\0\0\0\x9\0\0\0\0\0"
                                                "B\0\0\0\xc\0\0\0\0\0\0\0\0"
                                                "E\0\0\0\x9\0\0\0\0\0"),
                                          S(11, DONE("1") DONE("2") "E\0\0\0\5\0")};
    say(WIRE_POSTGRES, skipped, 4, 4096);
    wire_clear(&wire, 19);
    assert_string_equal(told, "a||10-11;");
}

/* ---- rubbish ---- */

TEST(what_is_no_protocol_is_opaque_or_nothing)
{
    uint32_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        char bytes[200];
        wire_init(&wire, (enum wire_protocol)(round % WIRE_PROTOCOLS), tell, NULL);
        for (int i = 0; i < 8; i++) {
            for (size_t at = 0; at < sizeof bytes; at++) {
                seed = seed * 1664525u + 1013904223u;
                bytes[at] = (seed >> 30) == 0 ? (char)(seed >> 8) : (char)((seed >> 16) % 4);
            }
            told[0] = '\0';
            (i % 2 == 0 ? wire_client : wire_server)(&wire, bytes, sizeof bytes, 1);
        }
        told[0] = '\0';
        wire_clear(&wire, 2);
    }
}

TEST_GROUP(.up = NULL);
