/* SPDX-License-Identifier: MIT */
/*
 * sql_test.c - schema, seed data and the statements of the loads, in a private PostgreSQL.
 *
 * The statements are read from sql/ as they are; the working directory is the project's.
 */
#include "load/base/clock.h"
#include "load/stack/stack.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 4096, TEXT_BYTES = 16384, SCALE = 50000, LIMIT_MS = 20000 };

static struct stack_postgres postgres;
static PGconn *shop; /* a connection to the database all tests share: schema and seed data at SCALE */

/* ---- asking ---- */

static PGconn *connected(const char *database)
{
    char url[128];
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u/%s", (unsigned)postgres.port, database);
    PGconn *conn = PQconnectdb(url);
    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    return conn;
}

static PGresult *run(PGconn *conn, const char *text)
{
    PGresult *result = PQexec(conn, text);
    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", text, PQerrorMessage(conn));
    }
    return result;
}

static void execute(PGconn *conn, const char *text)
{
    PQclear(run(conn, text));
}

/* The first cell, in a buffer that the next call uses again. */
static const char *value_of(PGconn *conn, const char *text)
{
    static char value[VALUE_BYTES];
    PGresult *result = run(conn, text);
    snprintf(value, sizeof value, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return value;
}

static long number_of(PGconn *conn, const char *text)
{
    return strtol(value_of(conn, text), NULL, 10);
}

/* The constraint that refuses the statement, or its SQLSTATE. */
static const char *refusal_of(PGconn *conn, const char *text)
{
    static char refusal[64];
    PGresult *result = PQexec(conn, text);
    const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(refusal, sizeof refusal, "%s",
             constraint != NULL ? constraint
             : sqlstate != NULL ? sqlstate
                                : "none");
    PQclear(result);
    return refusal;
}

/* A text file of the project, in a buffer that the next call uses again. */
static const char *text_of(const char *path)
{
    static char text[TEXT_BYTES];
    assert_true(file_look(path, text, sizeof text));
    assert_in_range(strlen(text), 1, sizeof text - 2);
    return text;
}

static void prepare(PGconn *conn, const char *name)
{
    char path[64], text[TEXT_BYTES];
    snprintf(path, sizeof path, "sql/%s.sql", name);
    int bytes = snprintf(text, sizeof text, "PREPARE %s AS %s", name, text_of(path));
    assert_in_range(bytes, 1, sizeof text - 1);
    execute(conn, text);
}

static const char *url_of(const char *database)
{
    static char url[128];
    snprintf(url, sizeof url, "postgresql://postgres@127.0.0.1:%u/%s", (unsigned)postgres.port, database);
    return url;
}

static void create_database(const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'", name);
    assert_true(stack_postgres_query(postgres.url, text, NULL, 0));
}

/* What a command says, in a buffer that the next call uses again; `status` of its end. */
static const char *said_by(const char *command, int *status)
{
    static char said[VALUE_BYTES];
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    said[fread(said, 1, sizeof said - 1, pipe)] = '\0';
    *status = pclose(pipe);
    return said;
}

/* What psql says when it runs a file, "" if all went well. */
static const char *psql(const char *database, const char *arguments)
{
    char command[512];
    int status;
    snprintf(command, sizeof command, "psql -X -q %s '%s' 2>&1", arguments, url_of(database));
    const char *said = said_by(command, &status);
    assert_int_equal(status == 0, said[0] == '\0');
    return said;
}

static const char *make_db(const char *database)
{
    char command[512];
    int status;
    snprintf(command, sizeof command, "MAKEFLAGS= make -s db SCALE=100 DATABASE_URL='%s' 2>&1",
             url_of(database));
    const char *said = said_by(command, &status);
    assert_int_equal(status, 0);
    return said;
}

/* ---- schema and seed data ---- */

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

TEST(a_second_schema_changes_nothing_and_a_second_seed_is_refused)
{
    create_database("second");
    assert_contains(psql("second", "-v scale=100 -f sql/seed.sql"), "has no catalog schema");
    assert_string_equal(psql("second", "-f sql/schema.sql"), "");
    assert_contains(psql("second", "-v scale=many -f sql/seed.sql"), "ERROR");
    assert_contains(psql("second", "-v scale=0 -f sql/seed.sql"), "is not a number of products");
    assert_string_equal(psql("second", "-v scale=100 -f sql/seed.sql"), "");
    assert_contains(psql("second", "-v scale=100 -f sql/seed.sql"), "already holds a catalog");
    assert_string_equal(psql("second", "-f sql/schema.sql"), "");
    PGconn *conn = connected("second");
    assert_int_equal(number_of(conn, "SELECT count(*) FROM products"), 100);
    assert_int_equal(number_of(conn, "SELECT count(*) FROM categories"), 20);
    assert_int_equal(number_of(conn, "SELECT count(*) FROM invalidations"), 0);
    PQfinish(conn);
}

TEST(make_db_seeds_what_is_empty_and_nothing_else, P80)
{
    create_database("made");
    PGconn *conn = connected("made");
    assert_string_equal(make_db("made"), "");
    assert_int_equal(number_of(conn, "SELECT count(*) FROM products"), 100);
    execute(conn, "DELETE FROM products WHERE id > 50");
    assert_contains(make_db("made"), "not seeded");
    assert_int_equal(number_of(conn, "SELECT count(*) FROM products"), 50);
    PQfinish(conn);
}

TEST(tables_of_somebody_else_are_left_alone, P80)
{
    create_database("foreigner");
    PGconn *conn = connected("foreigner");
    execute(conn, "CREATE TABLE products (id integer, version text)");
    assert_contains(psql("foreigner", "-f sql/schema.sql"), "already has a table");
    execute(conn, "INSERT INTO products VALUES (1, 'one')");
    assert_int_equal(number_of(conn, "SELECT count(*) FROM pg_class WHERE relname = 'categories'"), 0);
    PQfinish(conn);
}

/* Back to what the schema was before rows had stamps, as far as a catalogd of that time could tell, or this one. */
#define OLDER                                                                                                \
    "SET client_min_messages = warning; "                                                                    \
    "DROP FUNCTION products_touch, categories_touch, owe_invalidations, forget_expired_invalidations, "      \
    "owe_everything, products_owe_invalidations, categories_owe_invalidations, product_validator, "          \
    "product_validator_now CASCADE; "                                                                        \
    "ALTER TABLE products DROP COLUMN stamp; ALTER TABLE categories DROP COLUMN stamp; "                     \
    "ALTER TABLE products RENAME edition TO version; "                                                       \
    "ALTER TABLE products RENAME CONSTRAINT products_edition_positive TO products_version_positive; "        \
    "ALTER TABLE invalidations RENAME target TO key; "                                                       \
    "UPDATE products SET version = 5 WHERE id = 7; "                                                         \
    "CREATE FUNCTION products_touch() RETURNS trigger LANGUAGE plpgsql AS "                                  \
    "$$BEGIN NEW.version := OLD.version + 1; RETURN NEW; END$$; "                                            \
    "CREATE TRIGGER products_touch BEFORE UPDATE ON products FOR EACH ROW EXECUTE FUNCTION "                 \
    "products_touch(); "                                                                                     \
    "CREATE FUNCTION categories_touch_products() RETURNS trigger LANGUAGE plpgsql AS "                       \
    "$$BEGIN UPDATE products SET version = version; RETURN NULL; END$$; "                                    \
    "CREATE TRIGGER categories_touch_products AFTER UPDATE ON categories "                                   \
    "FOR EACH ROW EXECUTE FUNCTION categories_touch_products(); "

static const char *check_text(void)
{
    static char check[TEXT_BYTES + 64];
    snprintf(check, sizeof check, "SELECT string_agg(missing, ', ') FROM (%s) AS c",
             text_of("sql/check_schema.sql"));
    return check;
}

static void assert_brought_up_to_date(PGconn *conn, const char *database)
{
    assert_string_equal(psql(database, "-f sql/schema.sql"), "");
    assert_string_equal(value_of(conn, check_text()), "");
    assert_int_equal(number_of(conn, "SELECT count(DISTINCT stamp) FROM products"), 100);
    assert_int_equal(number_of(conn, "SELECT edition FROM products WHERE id = 7"), 5);
    execute(conn, "UPDATE categories SET name = name || ' renamed' WHERE id = 1");
    assert_int_equal(number_of(conn, "SELECT count(*) FROM products WHERE edition > 1"), 1);
    execute(conn, "UPDATE products SET stock = 1 WHERE id = 8");
    assert_int_equal(number_of(conn, "SELECT edition FROM products WHERE id = 8"), 2);
}

/* What was cached before has the tag of its own category and no other, so that each of them is owed. */
TEST(an_older_schema_is_brought_up_to_date_and_keeps_its_rows, P80)
{
    create_database("older");
    assert_true(stack_postgres_load(url_of("older"), 100));
    PGconn *conn = connected("older");
    execute(conn, OLDER "INSERT INTO invalidations (key, due_at) VALUES ('category:3', now()), "
                        "('product:7', now()), ('catalog', now())");
    assert_contains(value_of(conn, check_text()), "column categories.stamp");
    assert_contains(value_of(conn, check_text()), "column invalidations.target");
    assert_string_equal(psql("older", "-f sql/schema.sql"), "");
    assert_string_equal(value_of(conn, "SELECT string_agg(target, ' ' ORDER BY id) FROM invalidations "
                                       "WHERE target NOT LIKE 'tag:category:%'"),
                        "tag:listing:3 product:7 catalog");
    assert_int_equal(
        number_of(conn,
                  "SELECT count(DISTINCT target) FROM invalidations WHERE target LIKE 'tag:category:%'"),
        20);
    execute(conn, "DELETE FROM invalidations");
    assert_string_equal(psql("older", "-f sql/schema.sql"), ""); /* nothing is left to do */
    assert_int_equal(number_of(conn, "SELECT count(*) FROM invalidations"), 0);
    assert_brought_up_to_date(conn, "older");
    PQfinish(conn);
}

TEST(the_schema_refuses_what_makes_no_sense)
{
    static const struct {
        const char *text, *refusal;
    } cases[] = {
        {"UPDATE products SET stock = -1 WHERE id = 1", "products_stock_not_negative"},
        {"UPDATE products SET price_cents = -1 WHERE id = 1", "products_price_range"},
        {"UPDATE products SET name = '' WHERE id = 1", "products_name_length"},
        {"UPDATE products SET sku = 'no spaces' WHERE id = 1", "products_sku_form"},
        {"UPDATE products SET sku = (SELECT sku FROM products WHERE id = 2) WHERE id = 1",
         "products_sku_key"},
        {"UPDATE products SET description = repeat('x', 20001) WHERE id = 1", "products_description_length"},
        {"UPDATE products SET category_id = 1 WHERE id = 1", "products_category_fkey"},
        {"UPDATE products SET category_id = 999999999 WHERE id = 1", "products_category_fkey"},
        {"UPDATE products SET id = 1000000000000000000 WHERE id = 1", "products_id_range"},
        {"UPDATE products SET name = NULL WHERE id = 1", "23502"},
        {"INSERT INTO categories (level, parent_id, name) VALUES (1, 1, 'x')",
         "categories_root_has_no_parent"},
        {"INSERT INTO categories (level, parent_id, name) VALUES (2, NULL, 'x')",
         "categories_root_has_no_parent"},
        {"INSERT INTO categories (level, parent_id, name) VALUES (3, 1, 'x')", "categories_parent_fkey"},
        {"INSERT INTO categories (level, parent_id, name) VALUES (4, 1, 'x')", "categories_level_range"},
        {"INSERT INTO categories (level, name) SELECT 1, name FROM categories WHERE id = 1",
         "categories_root_name_key"},
        {"INSERT INTO categories (level, parent_id, name) SELECT 2, parent_id, name FROM categories WHERE "
         "level = 2",
         "categories_parent_id_name_key"},
        {"DELETE FROM categories WHERE id = (SELECT category_id FROM products WHERE id = 1)",
         "products_category_fkey"},
        {"UPDATE categories SET parent_id = id WHERE level = 2", "categories_parent_fkey"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(refusal_of(shop, cases[i].text), cases[i].refusal) != 0) {
            fail_msg("%s: refused by %s", cases[i].text, refusal_of(shop, cases[i].text));
        }
    }
}

/* The validator of a product's document as it is now. */
static void validator_of(int product, char out[128])
{
    char text[160];
    snprintf(text, sizeof text,
             "SELECT product_validator_now(edition, stamp, category_id) FROM products WHERE id = %d",
             product);
    snprintf(out, 128, "%s", value_of(shop, text));
}

TEST(every_row_of_a_document_moves_its_validator, P78)
{
    static const char *const changes[] = {
        "UPDATE products SET stock = stock WHERE id = 5",
        "UPDATE products SET edition = 1, stamp = '00000000-0000-4000-8000-000000000000' WHERE id = 5",
        "UPDATE categories SET name = 'leaf' WHERE id = (SELECT id FROM path WHERE level = 3)",
        "UPDATE categories SET name = 'middle' WHERE id IN (SELECT id FROM middle)",
        "UPDATE categories SET name = 'root' WHERE id IN (SELECT id FROM top)",
        "UPDATE categories SET parent_id = (SELECT id FROM elsewhere) WHERE id IN (SELECT id FROM middle)",
        /* back, and yet no document of before */
        "UPDATE categories SET parent_id = (SELECT id FROM top) WHERE id IN (SELECT id FROM middle)",
    };
    enum { CHANGES = sizeof changes / sizeof *changes };
    char seen[CHANGES + 1][128], other[128], then[128];
    execute(shop, "BEGIN");
    execute(shop,
            "CREATE TEMPORARY TABLE path ON COMMIT DROP AS "
            "SELECT c.id, c.level FROM products AS p JOIN categories AS leaf ON leaf.id = p.category_id "
            "JOIN categories AS middle ON middle.id = leaf.parent_id "
            "JOIN categories AS c ON c.id IN (leaf.id, middle.id, middle.parent_id) WHERE p.id = 5");
    execute(shop, "CREATE TEMPORARY VIEW middle AS SELECT id FROM path WHERE level = 2");
    execute(shop, "CREATE TEMPORARY VIEW top AS SELECT id FROM path WHERE level = 1");
    execute(shop, "CREATE TEMPORARY VIEW elsewhere AS SELECT min(id) AS id FROM categories WHERE level = 1 "
                  "AND id NOT IN (SELECT id FROM path)");
    execute(shop, "CREATE TEMPORARY TABLE beside ON COMMIT DROP AS "
                  "SELECT p.id FROM products AS p JOIN categories AS leaf ON leaf.id = p.category_id "
                  "JOIN categories AS middle ON middle.id = leaf.parent_id "
                  "WHERE middle.parent_id NOT IN (SELECT id FROM path) ORDER BY p.id LIMIT 1");
    const int beside = (int)number_of(shop, "SELECT id FROM beside");
    validator_of(5, seen[0]);
    validator_of(beside, other);
    for (size_t i = 0; i < CHANGES; i++) {
        execute(shop, changes[i]);
        validator_of(5, seen[i + 1]);
        for (size_t before = 0; before <= i; before++)
            assert_string_not_equal(seen[i + 1], seen[before]);
    }
    validator_of(beside, then);
    assert_string_equal(other, then);
    assert_int_equal(number_of(shop, "SELECT count(*) FROM products WHERE edition > 1"), 1);
    assert_int_equal(number_of(shop, "SELECT edition FROM products WHERE id = 5"), 3);
    assert_int_equal(number_of(shop, "SELECT count(*) FROM products WHERE updated_at = now()"), 1);
    execute(shop, "ROLLBACK");
}

/* Whoever writes, whatever he writes there, and though he has set the seed of random(). */
TEST(a_stamp_never_comes_again, P78)
{
    execute(shop, "BEGIN");
    execute(shop, "CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM products WHERE id = 5");
    for (int times = 0; times < 3; times++) {
        execute(shop, "SELECT setseed(0.5)");
        execute(shop, "DELETE FROM products WHERE id = 5");
        execute(shop,
                "INSERT INTO products (id, category_id, sku, name, description, price_cents, stock, edition, "
                "stamp) SELECT id, category_id, sku, name, description, 4711, stock, edition, stamp FROM "
                "kept WHERE edition = 1");
        assert_int_equal(number_of(shop, "SELECT edition FROM products WHERE id = 5"), 1);
        assert_int_equal(
            number_of(shop, "SELECT count(*) FROM products AS p JOIN kept ON kept.stamp = p.stamp"), 0);
        execute(shop, "INSERT INTO kept SELECT * FROM products WHERE id = 5");
        execute(shop, "UPDATE kept SET edition = 2 WHERE price_cents = 4711");
    }
    execute(shop, "ROLLBACK");
}

/* ---- the statements of the loads ---- */

static const char *const loads[] = {"load_catalog", "load_category", "load_product", "load_products"};

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
        count++;
    }
    return count;
}

TEST(every_load_has_its_marker_once_and_is_logged_once)
{
    static const struct {
        const char *marker;
        int param_count;
        const char *params[3];
    } expected[] = {{"/* load catalog */", 1, {"1"}},
                    {"/* load category */", 3, {"1", "0", "0"}},
                    {"/* load product */", 3, {"1", "0", "0"}},
                    {"/* load products */", 2, {"{1,2}", "0"}}};
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "sql/%s.sql", loads[i]);
        const char *text = text_of(path);
        assert_int_equal(count_of(text, expected[i].marker), 1);
        assert_int_equal(count_of(text, "/*"), 1);

        uint64_t mark = stack_postgres_mark(&postgres);
        PQclear(PQexecParams(shop, text, expected[i].param_count, NULL, expected[i].params, NULL, NULL, 0));
        assert_true(stack_postgres_wait(&postgres, mark, expected[i].marker, 1, LIMIT_MS));
        assert_int_equal(stack_postgres_count(&postgres, mark, expected[i].marker), 1);
    }
}

static uint32_t took_ms(PGconn *conn, const char *text)
{
    uint64_t begin_us = clock_us();
    execute(conn, text);
    return (uint32_t)((clock_us() - begin_us) / 1000);
}

/* Less than so much, or else the least of some: what a machine does beside only adds to it. */
static uint32_t least_ms(PGconn *conn, const char *text, uint32_t less_than)
{
    enum { TRIES = 20 };
    uint32_t least = took_ms(conn, text);
    for (int try = 1; try < TRIES && least >= less_than; try++) {
        uint32_t again = took_ms(conn, text);
        least = again < least ? again : least;
    }
    return least;
}

static const char *const plan_modes[] = {"force_custom_plan", "force_generic_plan"};

static void set_plan_mode(const char *mode)
{
    char text[64];
    snprintf(text, sizeof text, "SET plan_cache_mode = %s", mode);
    execute(shop, text);
}

TEST(the_delay_happens_exactly_once_present_or_absent_whatever_the_plan)
{
    static const char *const calls[] = {
        "load_catalog(",       "load_category(50, 0,", "load_category(999999, 0,",
        "load_category(1, 0,", "load_product(7, '',",  "load_product(999999999, '',",
    };
    enum { DELAY_MS = 400 };
    for (size_t m = 0; m < 2; m++) {
        set_plan_mode(plan_modes[m]);
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            char without[256], with[256];
            snprintf(without, sizeof without, "EXECUTE %s 0)", calls[i]);
            snprintf(with, sizeof with, "EXECUTE %s %u)", calls[i], (unsigned)DELAY_MS);
            assert_in_range(least_ms(shop, without, DELAY_MS - 50), 0, DELAY_MS - 51);
            assert_in_range(least_ms(shop, with, 2 * DELAY_MS), DELAY_MS, 2 * DELAY_MS - 1);
        }
    }
}

static bool plan_mentions(const char *call, const char *part)
{
    char text[512];
    bool found = false;
    snprintf(text, sizeof text, "EXPLAIN %s", call);
    PGresult *result = run(shop, text);
    for (int row = 0; row < PQntuples(result); row++) {
        found = found || strstr(PQgetvalue(result, row, 0), part) != NULL;
    }
    PQclear(result);
    return found;
}

TEST(a_page_is_a_range_of_the_index_however_large_the_category)
{
    char large[96], small[96];
    snprintf(large, sizeof large, "EXECUTE load_category(%s, 0, 0)",
             value_of(shop, "SELECT category_id FROM products GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"));
    snprintf(small, sizeof small, "EXECUTE load_category(%s, 0, 0)",
             value_of(shop, "SELECT category_id FROM products GROUP BY 1 ORDER BY count(*), 1 LIMIT 1"));
    for (size_t m = 0; m < 2; m++) {
        set_plan_mode(plan_modes[m]);
        const char *const calls[] = {large, small};
        for (size_t i = 0; i < 2; i++) {
            assert_true(plan_mentions(calls[i], "products_category_id_id_idx"));
            assert_false(plan_mentions(calls[i], "Seq Scan on products"));
            assert_false(plan_mentions(calls[i], "Bitmap Heap Scan on products"));
            assert_false(plan_mentions(calls[i], "Sort Key: p.id"));
        }
        assert_true(plan_mentions("EXECUTE load_product(7, '', 0)", "products_pkey"));
        assert_false(plan_mentions("EXECUTE load_product(7, '', 0)", "Seq Scan on products"));
    }
}

TEST(the_tree_has_every_category_parents_first)
{
    PGresult *tree = run(shop, "EXECUTE load_catalog(0)");
    assert_int_equal(PQntuples(tree), SCALE / 50);
    long products = 0, level = 0;
    for (int row = 0; row < PQntuples(tree); row++) {
        long next = strtol(PQgetvalue(tree, row, 1), NULL, 10);
        assert_in_range(next, 1, level + 1);
        level = next;
        products += strtol(PQgetvalue(tree, row, 3), NULL, 10);
    }
    assert_int_equal(products, SCALE);
    PQclear(tree);
}

TEST(a_row_changed_during_the_delay_is_answered_as_it_was)
{
    PGconn *writer = connected("shop");
    uint64_t mark = stack_postgres_mark(&postgres);
    assert_int_equal(PQsendQueryParams(shop, text_of("sql/load_product.sql"), 3, NULL,
                                       (const char *[]){"9", "", "1500"}, NULL, NULL, 0),
                     1);
    assert_true(stack_postgres_wait(&postgres, mark, "/* load product */", 1, LIMIT_MS));
    execute(writer, "UPDATE products SET price_cents = price_cents + 1 WHERE id = 9");
    assert_int_equal(PQisBusy(shop), 1);
    PGresult *result = PQgetResult(shop);
    assert_string_equal(PQgetvalue(result, 0, PQfnumber(result, "version")), "1");
    PQclear(result);
    assert_null(PQgetResult(shop));
    assert_int_equal(number_of(writer, "SELECT edition FROM products WHERE id = 9"), 2);
    PQfinish(writer);
}

/* A product that is known already comes without what is known; a changed one, and an absent one, as ever. */
TEST(a_known_validator_brings_nothing_but_itself, P78)
{
    char known[128];
    validator_of(8, known);
    const struct {
        const char *id, *validator;
        bool there, whole;
    } cases[] = {{"8", "", true, true},
                 {"8", known, true, false},
                 {"8", "1", true, true},
                 {"8", "1-0.0.0.0", true, true},
                 {"999999999", known, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        PGresult *row = PQexecParams(shop, text_of("sql/load_product.sql"), 3, NULL,
                                     (const char *[]){cases[i].id, cases[i].validator, "0"}, NULL, NULL, 0);
        assert_int_equal(PQresultStatus(row), PGRES_TUPLES_OK);
        assert_int_equal(PQntuples(row), 1);
        assert_int_equal(!PQgetisnull(row, 0, PQfnumber(row, "id")), cases[i].there);
        assert_string_equal(PQgetvalue(row, 0, PQfnumber(row, "validator")), cases[i].there ? known : "");
        static const char *const rest[] = {
            "sku",     "name",       "description", "price_cents",   "stock",
            "version", "updated_at", "category_id", "category_name", "grandparent_name"};
        for (size_t column = 0; column < sizeof rest / sizeof rest[0]; column++)
            assert_int_equal(!PQgetisnull(row, 0, PQfnumber(row, rest[column])), cases[i].whole);
        PQclear(row);
    }
}

/* ---- offers ---- */

static PGresult *offers(const char *token)
{
    PGresult *rows = PQexecParams(shop, text_of("sql/load_offers.sql"), 3, NULL,
                                  (const char *[]){"77", token, "0"}, NULL, NULL, 0);
    assert_int_equal(PQresultStatus(rows), PGRES_TUPLES_OK);
    return rows;
}

static const char *cell(const PGresult *rows, int row, const char *column)
{
    return PQgetvalue(rows, row, PQfnumber(rows, column));
}

/* As "is_personal client prices", with ! behind its own. */
static void assert_offers(const char *token, const char *wanted, long left_least_ms, long left_most_ms)
{
    char said[256];
    PGresult *rows = offers(token);
    int length = snprintf(said, sizeof said, "%s %s", cell(rows, 0, "is_personal"), cell(rows, 0, "client"));
    for (int row = 0; row < PQntuples(rows); row++)
        length +=
            snprintf(said + length, sizeof said - (size_t)length, " %s%s", cell(rows, row, "price_cents"),
                     strcmp(cell(rows, row, "is_own"), "t") == 0 ? "!" : "");
    assert_string_equal(said, wanted);
    assert_in_range(strtol(cell(rows, 0, "left_ms"), NULL, 10), left_least_ms, left_most_ms);
    PQclear(rows);
}

TEST(offers_are_for_all_or_for_one_client_and_stand_for_a_time)
{
    assert_offers("", "f  ", 86400000, 86400000);
    execute(shop,
            "INSERT INTO clients (id, name, token_sha256) VALUES "
            "(1, 'Kontor', encode(sha256('alpha'), 'hex')), (2, 'Laden', encode(sha256('beta'), 'hex'))");
    execute(shop, "INSERT INTO offers (product_id, price_cents, valid_from, valid_until) VALUES "
                  "(77, 900, now() - interval '1 hour', now() + interval '1 hour'), "
                  "(77, 100, now() - interval '2 hours', now() - interval '1 hour'), "
                  "(77, 850, now() + interval '40 minutes', now() + interval '2 hours'), "
                  "(78, 1, now(), now() + interval '1 hour')");
    assert_offers("", "f  900", 2000000, 2400000);
    assert_offers("alpha", "f  900", 2000000, 2400000); /* nobody is named on what is for all */
    execute(shop, "INSERT INTO offers (product_id, client_id, price_cents, valid_until) VALUES "
                  "(77, 1, 800, now() + interval '30 minutes')");
    assert_offers("", "t  900", 1500000, 1800000);
    assert_offers("alpha", "t Kontor 800! 900", 1500000, 1800000);
    assert_offers("beta", "t Laden 900", 1500000, 1800000);
    assert_offers("alphA", "t  900", 1500000, 1800000);
    assert_offers("alpha' OR true --", "t  900", 1500000, 1800000);
    execute(shop, "DELETE FROM clients; DELETE FROM offers");
}

TEST(what_a_database_lacks_is_named)
{
    const char *check = check_text();
    assert_string_equal(value_of(shop, check), "");

    create_database("bare");
    PGconn *bare = connected("bare");
    assert_string_equal(
        value_of(bare, check),
        "table caches, table categories, table clients, table invalidations, table offers, table products");
    assert_string_equal(psql("bare", "-f sql/schema.sql"), "");
    assert_string_equal(value_of(bare, check), "");
    execute(bare, "DROP TABLE caches; ALTER TABLE invalidations DROP COLUMN confirmed");
    assert_string_equal(value_of(bare, check), "column invalidations.confirmed, table caches");
    execute(bare, "ALTER TABLE invalidations ADD COLUMN confirmed uuid[]; CREATE TABLE caches (id uuid)");
    execute(bare, "ALTER TABLE products DROP COLUMN sku, ALTER COLUMN stock TYPE bigint");
    assert_string_equal(value_of(bare, check), "column products.sku, column products.stock of type integer");
    execute(bare, "CREATE ROLE stranger; GRANT SELECT ON products TO stranger; SET ROLE stranger");
    assert_string_equal(
        value_of(bare, check),
        "column products.sku, column products.stock of type integer, privilege to read categories, "
        "privilege to read clients, privilege to read offers");
    PQfinish(bare);
}

static bool start(void)
{
    if (!stack_postgres_start(&postgres, 20)) {
        return false;
    }
    create_database("shop");
    if (!stack_postgres_load(url_of("shop"), SCALE)) {
        return false;
    }
    shop = connected("shop");
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        prepare(shop, loads[i]);
    }
    return true;
}

static bool stop(void)
{
    PQfinish(shop);
    stack_postgres_stop(&postgres);
    return true;
}

TEST_GROUP(.up = start, .down = stop);
