/* SPDX-License-Identifier: MIT */
/*
 * rows_test.c - a document is made of several rows: whichever of them changes, and whatever transaction is still open
 * beside it, no request gets the old document.
 */
#include "tests/support/writes.h"

#include "tests/support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PROCESSES = 2, PATH_BYTES = BURST_PATH_BYTES, HEADER_BYTES = 160 };

#define OWED "SELECT count(*) FROM invalidations"
#define NEW_NAME "Renamed meanwhile"

/* What is paid is seen at once, and only because it was paid: nothing runs out meanwhile. */
static const char *const LONG_FRESH[] = {"FRESH_MS=600000", "JITTER_PERCENT=0", NULL};
/* Entries run out and are refreshed, by comparing their validators, again and again. */
static const char *const SHORT_FRESH[] = {"FRESH_MS=1000", "STALE_MS=20000", NULL};

/* ---- asking ---- */

struct seen {
    unsigned status;
    char etag[HEADER_BYTES];
    bool has_text;
};

static struct seen ask(size_t process, struct http_request *request, const char *text)
{
    struct seen seen = {0};
    struct http_answer answer;
    request->host = "127.0.0.1";
    request->port = fleet.catalogd[process].port;
    request->deadline_ms = FLEET_LIMIT_MS;
    http_ask(request, &answer);
    seen.status = answer.status;
    http_header(&answer, "ETag", seen.etag, sizeof seen.etag);
    seen.has_text = strstr(answer.body, text) != NULL;
    http_answer_clear(&answer);
    return seen;
}

/* `headers`: further lines, or NULL. */
static struct seen see(size_t process, const char *path, const char *headers, const char *text)
{
    return ask(process, &(struct http_request){.path = path, .headers = headers}, text);
}

/* 304 for whoever has this ETag. */
static unsigned status_for(const char *path, const char *etag)
{
    char header[HEADER_BYTES + 32];
    snprintf(header, sizeof header, "If-None-Match: %s\r\n", etag);
    return see(0, path, header, "").status;
}

static void assert_everybody_sees(const char *path, const char *text)
{
    for (size_t process = 0; process < fleet.count; process++)
        assert_true(see(process, path, NULL, text).has_text);
}

/* ---- a transaction that stays open ---- */

#define RENAME "UPDATE categories SET name = '" NEW_NAME "' WHERE id = %ld"

enum rename { BEFORE, WITH_AN_OLDER_SNAPSHOT };

static struct pg_conn *session_begins(enum rename rename, long id)
{
    return rename == BEFORE ? fleet_session(RENAME, id)
                            : fleet_session("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; "
                                            "SELECT min(id) FROM products");
}

static void session_commits(struct pg_conn *session, enum rename rename, long id)
{
    assert_true(rename == BEFORE || fleet_session_does(session, RENAME, id));
    assert_true(fleet_commit(session) && writes_wait_number(0, OWED));
}

/* A middle category with a leaf, and a product that is elsewhere: under another root. */
struct place {
    long root, middle, leaf, product;
};

static struct place somewhere(void)
{
    struct place place;
    place.leaf = writes_number("SELECT max(category_id) FROM products");
    place.middle = writes_number("SELECT parent_id FROM categories WHERE id = %ld", place.leaf);
    place.root = writes_number("SELECT parent_id FROM categories WHERE id = %ld", place.middle);
    place.product = writes_number(
        "SELECT min(p.id) FROM products AS p JOIN categories AS leaf ON leaf.id = p.category_id "
        "JOIN categories AS middle ON middle.id = leaf.parent_id WHERE middle.parent_id <> %ld",
        place.root);
    return place;
}

/* A product in that leaf; returns its id. */
static long path_of_one_in(const struct place *place, char path[PATH_BYTES])
{
    const long id = writes_number("SELECT min(id) FROM products WHERE category_id = %ld", place->leaf);
    snprintf(path, PATH_BYTES, "/products/%ld", id);
    return id;
}

static void named_as_ever(const struct place *place)
{
    assert_true(fleet_sql(NULL, 0, "UPDATE categories SET name = 'As ever ' || id WHERE id IN (%ld, %ld)",
                          place->root, place->middle));
    assert_true(writes_wait_number(0, OWED));
}

/* ---- a name that changes above what came in meanwhile ---- */

static void moves_in(const struct place *place)
{
    char path[PATH_BYTES], body[160];
    snprintf(path, sizeof path, "/products/%ld", place->product);
    snprintf(body, sizeof body,
             "{\"name\":\"n\",\"description\":\"d\",\"price_cents\":1,\"stock\":1,\"category_id\":%ld}",
             place->leaf);
    struct write_asked put = {.method = "PUT", .path = path, .headers = "If-Match: *\r\n", .body = body};
    writes_ask(&put);
    assert_int_equal(put.status, 200);
    assert_true(put.visible);
}

static void move_in_below_a_rename(const char *const *settings, enum rename rename)
{
    char path[PATH_BYTES];
    assert_true(fleet_start(PROCESSES, writes_settings(settings)));
    const struct place place = somewhere();
    snprintf(path, sizeof path, "/products/%ld", place.product);
    named_as_ever(&place);
    assert_everybody_sees(path, "");

    struct pg_conn *session = session_begins(rename, place.middle);
    moves_in(&place);
    const struct seen before = see(0, path, NULL, "As ever");
    assert_true(before.has_text); /* and is cached */
    session_commits(session, rename, place.middle);

    assert_everybody_sees(path, NEW_NAME);
    assert_string_not_equal(see(0, path, NULL, "").etag, before.etag);
    assert_int_equal(status_for(path, before.etag), 200);
}

TEST(a_product_that_moves_in_below_an_open_rename_shows_the_new_name, P77)
{
    move_in_below_a_rename(LONG_FRESH, BEFORE);
    assert_true(fleet_end());
    move_in_below_a_rename(SHORT_FRESH, BEFORE);
}

TEST(a_rename_that_does_not_see_the_product_that_moved_in_reaches_it_all_the_same, P77)
{
    move_in_below_a_rename(LONG_FRESH, WITH_AN_OLDER_SNAPSHOT);
    assert_true(fleet_end());
    move_in_below_a_rename(SHORT_FRESH, WITH_AN_OLDER_SNAPSHOT);
}

/* Nobody pays: what is refreshed must find out by itself. */
TEST(a_rename_that_nobody_pays_is_seen_by_the_next_refresh, P78, P79)
{
    char path[PATH_BYTES];
    assert_true(fleet_start(PROCESSES, SHORT_FRESH));
    const struct place place = somewhere();
    const long levels[] = {place.leaf, place.middle, place.root};
    path_of_one_in(&place, path);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        char name[32];
        snprintf(name, sizeof name, "Level of %zu", i);
        const struct seen before = see(0, path, NULL, "");
        assert_true(fleet_sql(NULL, 0, "UPDATE categories SET name = '%s' WHERE id = %ld", name, levels[i]));
        WAIT_UNTIL(see(0, path, NULL, name).has_text);
        assert_int_equal(status_for(path, before.etag), 200);
    }
}

/* ---- a condition names the whole document ---- */

static struct seen put_if(const char *path, const char *etag)
{
    static const char body[] = "{\"name\":\"n\",\"description\":\"d\",\"price_cents\":1,\"stock\":1}";
    char headers[HEADER_BYTES + 64];
    snprintf(headers, sizeof headers, "Content-Type: application/json\r\nIf-Match: %s\r\n", etag);
    return ask(
        0,
        &(struct http_request){
            .method = "PUT", .path = path, .headers = headers, .body = body, .body_bytes = strlen(body)},
        "\"visible\":true");
}

TEST(an_edit_is_refused_if_its_category_was_renamed_meanwhile, P78)
{
    char path[PATH_BYTES];
    assert_true(fleet_start(PROCESSES, writes_settings(LONG_FRESH)));
    const struct place place = somewhere();
    const long levels[] = {place.leaf, place.middle, place.root};
    path_of_one_in(&place, path);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const struct seen before = see(0, path, NULL, "");
        assert_true(
            fleet_sql(NULL, 0, "UPDATE categories SET name = 'Other %zu' WHERE id = %ld", i, levels[i]));
        assert_true(writes_wait_number(0, OWED));
        assert_int_equal(put_if(path, before.etag).status, 412);
        const struct seen put = put_if(path, see(1, path, NULL, "").etag);
        assert_int_equal(put.status, 200);
        assert_true(put.has_text);
        for (size_t process = 0; process < PROCESSES; process++)
            assert_string_equal(see(process, path, NULL, "").etag, put.etag);
    }
}

struct waiting_put {
    const char *path;
    const char *etag;
    struct seen seen;
};

static void *put_in_background(void *context)
{
    struct waiting_put *put = context;
    put->seen = put_if(put->path, put->etag);
    return NULL;
}

/* Its statement began before the rename, and saw the old name; it compares when it has the row. */
TEST(an_edit_that_waited_for_its_row_while_a_category_was_renamed_is_refused, P78)
{
    char path[PATH_BYTES];
    pthread_t thread;
    assert_true(fleet_start(1, writes_settings(LONG_FRESH)));
    const struct place place = somewhere();
    const long id = path_of_one_in(&place, path);
    named_as_ever(&place);
    const struct seen before = see(0, path, NULL, "");

    struct pg_conn *session = fleet_session("SELECT FROM products WHERE id = %ld FOR UPDATE", id);
    struct waiting_put put = {.path = path, .etag = before.etag};
    assert_int_equal(pthread_create(&thread, NULL, put_in_background, &put), 0);
    assert_true(writes_wait_number(1, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                                      "AND query LIKE '%change product%'"));
    assert_true(fleet_sql(NULL, 0, RENAME, place.middle) && fleet_commit(session));
    pthread_join(thread, NULL);
    assert_int_equal(put.seen.status, 412);
}

TEST_GROUP(.up = writes_up, .down = fleet_down, .after = fleet_end);
