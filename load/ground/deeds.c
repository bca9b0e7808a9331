/* SPDX-License-Identifier: MIT */
/* deeds.c - see site.h. */
#include "load/ground/site.h"

#include <string.h>

/* Longer than a lease lives in the playground, so that its end is seen before the dead process is back. */
enum { PROCESS_BACK_MS = 6000, SERVER_BACK_MS = 8000 };

#define LOCK_SECONDS "3"

#define WHEN(health) (1U << (health))

#define PROCESS(letter, lower, number)                                                                       \
    {lower "-kill",                                                                                          \
     DEED_##letter,                                                                                          \
     WHEN(DEED_UP) | WHEN(DEED_PAUSED),                                                                      \
     .after = DEED_DEAD,                                                                                     \
     .back_ms = PROCESS_BACK_MS,                                                                             \
     .back = lower "-start",                                                                                 \
     .said = "Process " #letter " was killed (SIGKILL); it is started again in a moment.",                   \
     .action = {.party = SCENARIO_CATALOGD, .verb = SCENARIO_KILL, .process = (number)}},                    \
        {lower "-pause",                                                                                     \
         DEED_##letter,                                                                                      \
         WHEN(DEED_UP),                                                                                      \
         .after = DEED_PAUSED,                                                                               \
         .back_ms = PROCESS_BACK_MS,                                                                         \
         .back = lower "-resume",                                                                            \
         .said = "Process " #letter                                                                          \
                 " was stopped in the middle of what it did (SIGSTOP), as a machine that stalls would be.",  \
         .action = {.party = SCENARIO_CATALOGD, .verb = SCENARIO_PAUSE, .process = (number)}},               \
        {lower "-resume", DEED_##letter, WHEN(DEED_PAUSED),                                                  \
         .said = "Process " #letter " goes on (SIGCONT).",                                                   \
         .action = {.party = SCENARIO_CATALOGD, .verb = SCENARIO_RESUME, .process = (number)}},              \
    {                                                                                                        \
        .name = lower "-start", .party = DEED_##letter, .when = WHEN(DEED_DEAD),                             \
        .said = "Process " #letter " is back, at the same address.", .action = {                             \
            .party = SCENARIO_CATALOGD,                                                                      \
            .verb = SCENARIO_START,                                                                          \
            .process = (number)                                                                              \
        }                                                                                                    \
    }

static const struct deed deeds[] = {
    PROCESS(A, "a", 1),
    PROCESS(B, "b", 2),
    {"redis-kill", DEED_REDIS, WHEN(DEED_UP) | WHEN(DEED_HUNG), .after = DEED_DEAD, .back_ms = SERVER_BACK_MS,
     .back = "redis-start", .said = "Redis was killed (SIGKILL), and everything in it is lost.",
     .action = {.party = SCENARIO_REDIS, .verb = SCENARIO_KILL}},
    {"redis-hang", DEED_REDIS, WHEN(DEED_UP), .after = DEED_HUNG, .back_ms = SERVER_BACK_MS,
     .back = "redis-heal", .said = "Redis hangs: its connections stay open and nothing is answered.",
     .action = {.party = SCENARIO_LINK_REDIS, .verb = SCENARIO_FAULT, .fault = PROXY_SILENT}},
    {"redis-heal", DEED_REDIS, WHEN(DEED_HUNG), .said = "Redis answers again.",
     .action = {.party = SCENARIO_LINK_REDIS, .verb = SCENARIO_HEAL}},
    {"redis-start", DEED_REDIS, WHEN(DEED_DEAD), .said = "Redis is back, and empty.",
     .action = {.party = SCENARIO_REDIS, .verb = SCENARIO_START}},
    {"redis-flush", DEED_REDIS, WHEN(DEED_UP), .said = "Everything in Redis was deleted.",
     .action = {.party = SCENARIO_REDIS, .verb = SCENARIO_FLUSH}},
    {"postgres-kill", DEED_POSTGRES, WHEN(DEED_UP) | WHEN(DEED_PAUSED), .after = DEED_DEAD,
     .back_ms = SERVER_BACK_MS, .back = "postgres-start",
     .said = "PostgreSQL was killed (SIGKILL): queries fail until it is back.",
     .action = {.party = SCENARIO_POSTGRES, .verb = SCENARIO_KILL}},
    {"postgres-start", DEED_POSTGRES, WHEN(DEED_DEAD), .said = "PostgreSQL is back, with its data.",
     .action = {.party = SCENARIO_POSTGRES, .verb = SCENARIO_START}},
    {"postgres-pause", DEED_POSTGRES, WHEN(DEED_UP), .after = DEED_PAUSED, .back_ms = SERVER_BACK_MS,
     .back = "postgres-resume", .said = "PostgreSQL stands still (SIGSTOP): queries hang.",
     .action = {.party = SCENARIO_POSTGRES, .verb = SCENARIO_PAUSE}},
    {"postgres-resume", DEED_POSTGRES, WHEN(DEED_PAUSED), .said = "PostgreSQL goes on.",
     .action = {.party = SCENARIO_POSTGRES, .verb = SCENARIO_RESUME}},
    {"postgres-lock", DEED_POSTGRES, WHEN(DEED_UP), .after = DEED_LOCKED,
     .said = "The table of products is locked for " LOCK_SECONDS
             " seconds, as a migration would: loads wait for it.",
     .action = {.verb = SCENARIO_SQL,
                .argument =
                    "BEGIN; LOCK TABLE products IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(" LOCK_SECONDS
                    "); COMMIT"}},
    {"postgres-break", DEED_POSTGRES, WHEN(DEED_UP), .after = DEED_BROKEN, .back_ms = SERVER_BACK_MS,
     .back = "postgres-repair", .said = "Every query of products fails.",
     .action = {.verb = SCENARIO_SQL,
                .argument =
                    "CREATE FUNCTION broken(bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$BEGIN "
                    "RAISE EXCEPTION 'out of order'; END$$; "
                    "ALTER TABLE products RENAME TO products_whole; "
                    "CREATE VIEW products AS SELECT id, category_id, sku, name, description, price_cents, "
                    "stock, broken(edition) AS edition, updated_at, stamp FROM products_whole"}},
    {"postgres-repair", DEED_POSTGRES, WHEN(DEED_BROKEN), .said = "Queries of products work again.",
     .action =
         {.verb = SCENARIO_SQL,
          .argument =
              "DROP VIEW products; ALTER TABLE products_whole RENAME TO products; DROP FUNCTION broken"}},
};

const char *deed_health_name(enum deed_health health)
{
    static const char *const names[DEED_HEALTHS] = {"up",     "paused", "dead",    "hung",
                                                    "locked", "broken", "starting"};
    return names[health];
}

const char *deed_party_name(enum deed_party party)
{
    static const char *const names[DEED_PARTIES] = {"A", "B", "Redis", "PostgreSQL"};
    return names[party];
}

const struct deed *deed_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof deeds / sizeof *deeds; i++) {
        if (strcmp(deeds[i].name, name) == 0)
            return &deeds[i];
    }
    return NULL;
}

const struct deed *deed_cure(enum deed_party party, enum deed_health health)
{
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
        if (deeds[i].party == party && (deeds[i].when & WHEN(health)) != 0 && deeds[i].after == DEED_UP &&
            health != DEED_UP)
            return &deeds[i];
    }
    return NULL;
}
