/* SPDX-License-Identifier: MIT */
/*
 * outbox_sql_test.c - which keys and tags a change owes, and what the roles of the schema may do.
 *
 * Every test runs in a transaction that is rolled back.
 */
#include "load/stack/stack.h"
#include "tests/support/test.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCALE = 2000, KEYS_BYTES = 8192 };

static struct stack_postgres postgres;
static PGconn *shop;

/* The SQLSTATE, "" if it worked; in a buffer that the next call uses again. */
static const char *run(const char *text)
{
    static char sqlstate[8];
    PGresult *result = PQexec(shop, text);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(sqlstate, sizeof sqlstate, "%s", state != NULL ? state : "");
    PQclear(result);
    return sqlstate;
}

static void must(const char *text)
{
    if (*run(text) != '\0')
        fail_msg("%s: %s", text, PQerrorMessage(shop));
}

static const char *value_of(const char *text)
{
    static char value[KEYS_BYTES];
    PGresult *result = PQexec(shop, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", text, PQerrorMessage(shop));
    snprintf(value, sizeof value, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return value;
}

/* The targets that a statement owes, in order, with a space behind each. */
static const char *owed(const char *statement)
{
    must("DELETE FROM invalidations");
    must(statement);
    return value_of("SELECT string_agg(target || ' ', '' ORDER BY target COLLATE \"C\") FROM invalidations");
}

/* A small shop of its own: 9901 above 9902 above 9903 and 9904; products 9001 and 9002 in 9903. */
static bool begin(void)
{
    must("BEGIN");
    must("INSERT INTO categories (id, level, parent_id, name) VALUES "
         "(9901, 1, NULL, 'root'), (9902, 2, 9901, 'middle'), (9903, 3, 9902, 'leaf'), (9904, 3, 9902, "
         "'other')");
    must("INSERT INTO products (id, category_id, sku, name, description, price_cents, stock) VALUES "
         "(9001, 9903, 'A', 'a', '', 1, 1), (9002, 9903, 'B', 'b', '', 1, 1)");
    return true;
}

static bool rollback(void)
{
    must("ROLLBACK");
    return true;
}

/* ---- what a change owes ---- */

TEST(a_product_owes_what_shows_it)
{
    assert_string_equal(owed("UPDATE products SET stock = 2 WHERE id = 9001"),
                        "product:9001 tag:listing:9903 ");
    assert_string_equal(owed("UPDATE products SET description = 'new' WHERE id = 9001"), "product:9001 ");
    assert_string_equal(owed("UPDATE products SET category_id = 9904 WHERE id = 9001"),
                        "catalog product:9001 tag:listing:9903 tag:listing:9904 ");
    assert_string_equal(owed("UPDATE products SET id = 9003 WHERE id = 9002"),
                        "catalog product:9002 product:9003 tag:listing:9903 ");
}

TEST(products_that_come_and_go_owe_the_tree_its_counts)
{
    assert_string_equal(
        owed("INSERT INTO products (id, category_id, sku, name, description, price_cents, stock) "
             "VALUES (9003, 9904, 'C', 'c', '', 1, 1)"),
        "catalog product:9003 tag:listing:9904 ");
    assert_string_equal(owed("DELETE FROM products WHERE id = 9001"),
                        "catalog product:9001 tag:listing:9903 ");
}

TEST(a_statement_owes_each_key_once_and_one_that_changes_nothing_owes_nothing)
{
    assert_string_equal(owed("UPDATE products SET stock = 9 WHERE id IN (9001, 9002)"),
                        "product:9001 product:9002 tag:listing:9903 ");
    assert_string_equal(owed("UPDATE products SET stock = 9 WHERE id = -1"), "");
    assert_string_equal(owed("DELETE FROM categories WHERE id = -1"), "");
}

TEST(an_offer_owes_the_document_of_its_product)
{
    must("INSERT INTO clients (id, name, token_sha256) VALUES (9, 'c', repeat('0', 64))");
    assert_string_equal(
        owed("INSERT INTO offers (id, product_id, client_id, price_cents, valid_until) VALUES "
             "(1, 9001, 9, 1, now() + interval '1 h'), (2, 9001, NULL, 1, now() + interval '1 h')"),
        "offers:9001 ");
    assert_string_equal(owed("UPDATE offers SET product_id = 9002 WHERE id = 1"), "offers:9001 offers:9002 ");
    assert_string_equal(owed("DELETE FROM clients"), "offers:9002 ");
    assert_string_equal(owed("DELETE FROM offers"), "offers:9001 ");
    assert_string_equal(owed("DELETE FROM offers"), "");
    assert_string_equal(run("TRUNCATE offers"), "P0001");
}

/* Whatever is below a category has its tag: nothing is looked for. */
TEST(a_category_owes_its_tag_its_parents_listing_and_the_tree, P77)
{
    assert_string_equal(owed("UPDATE categories SET name = 'new' WHERE id = 9903"),
                        "catalog tag:category:9903 tag:listing:9902 ");
    assert_string_equal(owed("UPDATE categories SET name = 'new' WHERE id = 9901"),
                        "catalog tag:category:9901 ");
    must("INSERT INTO categories (id, level, parent_id, name) VALUES (9906, 2, 9901, 'second')");
    assert_string_equal(owed("UPDATE categories SET parent_id = 9906 WHERE id = 9904"),
                        "catalog tag:category:9904 tag:listing:9902 tag:listing:9906 ");
    assert_string_equal(
        owed("INSERT INTO categories (id, level, parent_id, name) VALUES (9905, 3, 9902, 'x')"),
        "catalog tag:category:9905 tag:listing:9902 ");
    assert_string_equal(owed("DELETE FROM categories WHERE id = 9905"),
                        "catalog tag:category:9905 tag:listing:9902 ");
}

/* Every document but the tree has the tag of its root. */
TEST(everything_thrown_away_owes_the_tree_and_every_root, P77)
{
    must("CREATE TEMPORARY TABLE all_targets ON COMMIT DROP AS "
         "SELECT 'tag:category:' || id AS target FROM categories WHERE level = 1 UNION SELECT 'catalog'");
    static const char *const truncates[] = {"TRUNCATE products", "TRUNCATE products, categories"};
    for (size_t i = 0; i < 2; i++) {
        must("DELETE FROM invalidations");
        must(truncates[i]);
        assert_string_equal(value_of("SELECT count(*) FROM (SELECT target FROM all_targets EXCEPT "
                                     "SELECT target FROM invalidations) AS forgotten"),
                            "0");
    }
}

TEST(everything_is_not_thrown_away_by_who_may_not_see_it_all, P77)
{
    static const char *const levels[] = {"REPEATABLE READ", "SERIALIZABLE"};
    for (size_t i = 0; i < 2; i++) {
        char begin[64];
        snprintf(begin, sizeof begin, "ROLLBACK; BEGIN ISOLATION LEVEL %s", levels[i]);
        must(begin);
        assert_string_equal(run("TRUNCATE products"), "25000");
        assert_non_null(strstr(PQerrorMessage(shop), "HINT:  TRUNCATE under READ COMMITTED"));
    }
}

/* ---- what nobody pays ---- */

#define EXPIRED "SELECT count(*) FROM invalidations WHERE target = 'product:1'"
#define OLD_DEBTS                                                                                            \
    "INSERT INTO invalidations (target, made_at, due_at) "                                                   \
    "SELECT 'product:1', now() - interval '25 hours 1 minute', now() FROM generate_series(1, 30)"

TEST(a_debt_older_than_anything_cached_goes_with_the_next_ones, P79)
{
    must("DELETE FROM invalidations");
    must(OLD_DEBTS);
    must("INSERT INTO invalidations (target, made_at, due_at) "
         "VALUES ('product:2', now() - interval '24 hours 59 minutes', now())");
    must("UPDATE products SET description = 'new' WHERE id = 9001"); /* owes one, and takes ten */
    assert_string_equal(value_of(EXPIRED), "20");
    for (int i = 0; i < 3; i++)
        must("UPDATE products SET description = 'newer' WHERE id = 9001");
    assert_string_equal(value_of(EXPIRED), "0");
    assert_string_equal(value_of("SELECT count(*) FROM invalidations"), "5");
}

/* Those that another transaction holds are passed over; one that cannot see what went since is not made to fail. */
TEST(forgetting_waits_for_nobody_and_fails_nobody, P79)
{
    PGconn *other = PQconnectdb(postgres.url);
    must("ROLLBACK; DELETE FROM invalidations; " OLD_DEBTS);
    PQclear(PQexec(other, "BEGIN; SELECT FROM invalidations FOR UPDATE"));
    must("SET lock_timeout = '1s'");
    must("UPDATE products SET description = 'new' WHERE id = 2");
    assert_string_equal(value_of(EXPIRED), "30");
    must("BEGIN ISOLATION LEVEL REPEATABLE READ");
    must("SELECT FROM products");
    PQclear(PQexec(other, "DELETE FROM invalidations; COMMIT"));
    must("UPDATE products SET description = 'newer' WHERE id = 2");
    must("COMMIT; RESET lock_timeout");
    PQfinish(other);
}

/* ---- who is given time ---- */

TEST(who_pays_for_himself_is_given_time_and_everybody_else_is_not)
{
    static const char due[] = "SELECT count(*) FROM invalidations WHERE due_at <= clock_timestamp()";
    owed("UPDATE products SET stock = 3 WHERE id = 9001");
    assert_string_equal(value_of(due), "2");
    must("SET LOCAL catalogd.pays_ms = 5000");
    owed("UPDATE products SET stock = 4 WHERE id = 9001");
    assert_string_equal(value_of(due), "0");
    must("SET LOCAL catalogd.pays_ms = 2000000000");
    owed("UPDATE products SET stock = 5 WHERE id = 9001");
    assert_string_equal(
        value_of("SELECT max(due_at) <= clock_timestamp() + interval '10 s' FROM invalidations"), "t");
}

/* ---- what the roles may do ---- */

/* The SQLSTATE of the statement with that role's rights. */
static const char *as(const char *role, const char *statement)
{
    char set_role[64];
    snprintf(set_role, sizeof set_role, "SET LOCAL ROLE %s", role);
    must("SAVEPOINT before");
    must(set_role);
    static char sqlstate[8];
    snprintf(sqlstate, sizeof sqlstate, "%s", run(statement));
    must("ROLLBACK TO before");
    return sqlstate;
}

TEST(a_reader_only_reads)
{
    assert_string_equal(as("catalog_reader", "SELECT FROM products, categories LIMIT 1"), "");
    static const char *const refused[] = {
        "UPDATE products SET stock = 1",
        "DELETE FROM products",
        "INSERT INTO categories (level, name) VALUES (1, 'x')",
        "SELECT FROM products FOR UPDATE",
        "SELECT FROM invalidations",
        "SELECT FROM purchases",
        "SELECT FROM caches",
        "UPDATE offers SET price_cents = 1",
        "DELETE FROM clients",
        "SELECT owe_invalidations('{catalog}')",
        "CREATE TABLE mine ()",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_string_equal(as("catalog_reader", refused[i]), "42501");
}

TEST(a_writer_edits_products_and_empties_the_outbox_and_no_more)
{
    static const char *const allowed[] = {
        "UPDATE products SET name = 'n', description = 'd', price_cents = 1, stock = 1, category_id = 9904",
        "SELECT FROM products WHERE id = 9001 FOR UPDATE",
        "INSERT INTO purchases (key, product_id, quantity, stock, version) VALUES ('k', 1, 1, 1, 1)",
        "DELETE FROM purchases",
        "UPDATE invalidations SET due_at = now()",
        "UPDATE invalidations SET confirmed = '{}'",
        "DELETE FROM invalidations",
        "INSERT INTO caches (id, label, beat_ms, silence_ms) VALUES (gen_random_uuid(), 'x', 1, 1)",
        "UPDATE caches SET doubted_at = NULL",
        "DELETE FROM caches",
        "SELECT id, target FROM invalidations FOR UPDATE SKIP LOCKED",
        "LISTEN invalidations",
    };
    static const char *const refused[] = {
        "UPDATE products SET edition = 1",
        "UPDATE products SET sku = 'X'",
        "UPDATE products SET id = 1",
        "INSERT INTO products (id) VALUES (1)",
        "DELETE FROM products",
        "TRUNCATE products",
        "UPDATE categories SET name = 'x'",
        "INSERT INTO invalidations (target, due_at) VALUES ('catalog', now())",
        "UPDATE invalidations SET target = 'catalog'",
        "UPDATE purchases SET stock = 1",
        "INSERT INTO offers (product_id, price_cents, valid_until) VALUES (1, 1, now() + interval '1 h')",
        "UPDATE clients SET name = 'x'",
        "SELECT owe_invalidations('{catalog}')",
        "CREATE TABLE mine ()",
        "ALTER TABLE products DISABLE TRIGGER USER",
    };
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        if (*as("catalog_writer", allowed[i]) != '\0')
            fail_msg("%s", allowed[i]);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (strcmp(as("catalog_writer", refused[i]), "42501") != 0)
            fail_msg("%s", refused[i]);
    }
}

/* The trigger has its owner's rights: a table of the caller's must not stand in for the outbox. */
TEST(a_temporary_table_does_not_catch_what_is_owed)
{
    must("DELETE FROM invalidations");
    must("SET LOCAL ROLE catalog_writer");
    must("CREATE TEMPORARY TABLE invalidations (target text, due_at timestamptz)");
    must("UPDATE products SET stock = 3 WHERE id = 9001");
    must("RESET ROLE");
    assert_string_equal(value_of("SELECT count(*) FROM public.invalidations"), "2");
    assert_string_equal(value_of("SELECT count(*) FROM pg_temp.invalidations"), "0");
}

static bool up(void)
{
    if (!stack_postgres_start_seeded(&postgres, 20, SCALE))
        return false;
    shop = PQconnectdb(postgres.url);
    return PQstatus(shop) == CONNECTION_OK;
}

static bool down(void)
{
    PQfinish(shop);
    stack_postgres_stop(&postgres);
    return true;
}

TEST_GROUP(.up = up, .down = down, .before = begin, .after = rollback);
