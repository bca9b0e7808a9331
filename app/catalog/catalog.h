/* SPDX-License-Identifier: MIT */
/*
 * catalog.h - the catalog as kinds of guarded data: from a guard key (document.h) to one statement to one JSON
 * document.
 *
 * The room catalog/ owns what readers load: this file, catalog_json.h (rows to documents), and how long some of
 * them are kept, and for whom, asker.h (what a load knows of its client), and cache_gate.h (may a load be stored?).
 *
 * A key that document.h does not know is refused by the loader (GUARD_FAILURE_INTERNAL): it is a bug of its maker.
 *
 * The validator of a product names every row that it is made of (product_validator() in sql/schema.sql); other
 * documents have a hash of their body, 16 hex digits.
 *
 * A schema that lacks what the statements need, such as one of an earlier catalogd, is refused: the process is not
 * ready until it is right, and the log names what is missing and the command that mends it.
 *
 * Threads: catalog_open() and catalog_close() on the main thread; the rest on any. Loaders run on the guard's
 * load workers, each with a database connection of its own.
 * Lifetime: opened after the guard, closed after guard_close(), for loaders use it until then.
 */
#pragma once

#include "app/base/document.h"
#include "app/base/settings.h"
#include "app/catalog/cache_gate.h"
#include "guard/guard.h"

#include <stdbool.h>

struct catalog;

/*
 * Declares the kinds with the guard and starts a thread that looks at the database until it has been reached and its
 * schema is right. Does not wait for that: a service whose database is away starts, is not ready, and recovers.
 * `settings` is lent until this returns, its texts until catalog_close(). False with *error set: the guard refuses
 * the policy, or no memory.
 */
bool catalog_open(const struct settings *settings, struct guard *guard, struct catalog **out,
                  struct guard_error *error);

/* Leaves NULL. Accepts NULL in *catalog. */
void catalog_close(struct catalog **catalog);

/* Loads pass it from now on; lent until catalog_close(). Before the first request; without a gate all is stored. */
void catalog_set_gate(struct catalog *catalog, struct cache_gate *gate);

/* The policy of every kind follows these settings from the next request on. `now`: those that it follows now; with
 * them it goes on if this returns false with *error set. On one thread at a time. */
bool catalog_set_policy(struct catalog *catalog, const struct settings *now, const struct settings *changed,
                        struct guard_error *error);

struct guard_kind *catalog_kind(const struct catalog *catalog, enum document_kind kind);

/* The database was reached at the last try and its schema was right at the last look. Cheap: asks neither. */
bool catalog_ready(const struct catalog *catalog);
