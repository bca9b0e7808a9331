/* SPDX-License-Identifier: MIT */
/* sale.c - the controller of the flash sale; see sale.h. */
#include "load/lab/sale.h"

#include "load/base/clock.h"
#include "load/base/rank.h"
#include "load/lab/source.h"
#include "load/report/table.h"
#include "load/stack/service.h"

#include <hiredis/hiredis.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_CONNECTIONS = 100,
    READY_LIMIT_MS = 30000,
    STRUCK_REST_MS = 1000, /* for another order, before the one that was held up goes on */
    WAYS_MAX = 4,
    FIELD_BYTES = 32,
};

struct figures {
    bool is_measured;
    int64_t sold, oversold, lost;
    uint32_t bought, refused, gave_up; /* bought: by those that know of it */
    double per_second, p50_ms, p99_ms, in_turn_percent;
};

struct stage {
    struct sale sale;
    struct stack_postgres postgres;
    struct stack_redis redis;
    struct sale_slot control;
    pid_t shops[SALE_PROCESSES];
    bool is_restocked;
};

/* ---- servers and rows ---- */

static const char gate_statement[] =
    "CREATE TABLE sale_gates (number integer NOT NULL);"
    "CREATE FUNCTION sale_pass() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n bigint; gate integer; BEGIN"
    " SELECT count(*) FROM sale_orders INTO n;"
    " FOR gate IN SELECT number FROM sale_gates WHERE number <= n ORDER BY number LOOP"
    " PERFORM pg_advisory_xact_lock_shared(7, gate); END LOOP; RETURN NEW; END $$;"
    "CREATE TABLE sale_stock (stock bigint NOT NULL, fence bigint NOT NULL);"
    "CREATE TABLE sale_orders (buyer integer PRIMARY KEY, reservation bigint);"
    "CREATE TABLE sale_settled (reservation bigint PRIMARY KEY);"
    "CREATE TRIGGER sale_pass AFTER INSERT ON sale_orders FOR EACH ROW EXECUTE FUNCTION sale_pass()";
_Static_assert(SALE_GATE == 7, "as in the statement");

static bool start_servers(struct stage *stage)
{
    return stack_redis_start(&stage->redis, NULL) &&
           stack_postgres_start(&stage->postgres, MAX_CONNECTIONS) &&
           stack_postgres_query(stage->postgres.url, gate_statement, NULL, 0) &&
           (stage->control.postgres = source_open(stage->postgres.socket_url)) != NULL;
}

static void stop_servers(struct stage *stage)
{
    source_close(&stage->control.postgres);
    stack_postgres_stop(&stage->postgres);
    stack_redis_stop(&stage->redis);
}

/* The last order is where a lock outside of the database has most to lose: the next holder sees a piece, too. */
static int strike_at(const struct sale_way *way)
{
    return way->locks && !way->by_parts ? SALE_PIECES : SALE_STRIKE_AT;
}

static bool reset(struct stage *stage)
{
    freeReplyObject(stack_redis_command(&stage->redis, "FLUSHALL"));
    memset(stage->sale.board, 0, sizeof *stage->sale.board);
    return sale_sql(&stage->control, NULL,
                    "TRUNCATE sale_stock, sale_orders, sale_settled, sale_gates;"
                    "INSERT INTO sale_gates VALUES (%d), (%d);"
                    "INSERT INTO sale_stock VALUES (%d, 0)",
                    (int)SALE_RESTOCK_AT, strike_at(stage->sale.way), (int)SALE_FIRST);
}

/* ---- what happens in the middle ---- */

static bool close_gate(struct stage *stage, int number)
{
    return sale_sql(&stage->control, NULL, "SELECT pg_advisory_lock(%d, %d)", (int)SALE_GATE, number);
}

static bool open_gate(struct stage *stage, int number)
{
    return sale_sql(&stage->control, NULL, "SELECT pg_advisory_unlock(%d, %d)", (int)SALE_GATE, number);
}

static bool is_over(const struct stage *stage)
{
    for (size_t i = 0; i < SALE_PROCESSES; i++) {
        siginfo_t info = {.si_pid = 0};
        if (stage->shops[i] > 0 &&
            waitid(P_PID, (id_t)stage->shops[i], &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
            return false;
    }
    return true;
}

/* The number of the process whose order waits at the gate; -1: none came. */
static int64_t wait_at_gate(struct stage *stage, int number)
{
    const uint64_t end_us = clock_after_ms(SALE_LIMIT_MS);
    int64_t shop = -1;
    while (shop < 0 && clock_us() < end_us && !is_over(stage)) {
        if (!sale_sql(&stage->control, &shop,
                      "SELECT coalesce(substring(application_name from '^sale([0-9]+)$')::int, 0) FROM "
                      "pg_locks JOIN "
                      "pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND classid = %d AND objid = "
                      "%d AND NOT "
                      "granted LIMIT 1",
                      (int)SALE_GATE, number))
            return -1;
        clock_pause_ms(1);
    }
    if (shop < 0)
        fprintf(stderr, "lab: sale: %s: nobody came to order %d\n", stage->sale.way->name, number);
    return shop;
}

static void kill_shop(struct stage *stage, size_t shop)
{
    kill(stage->shops[shop], SIGKILL);
    waitpid(stage->shops[shop], NULL, 0);
    stage->shops[shop] = 0;
}

static int64_t count_orders(struct stage *stage)
{
    int64_t count = 0;
    sale_sql(&stage->control, &count, "SELECT count(*) FROM sale_orders");
    return count;
}

/* On a thread and a connection of its own: it may have to wait for an order that is held up at the next gate. */
static void *restock(void *context)
{
    struct stage *stage = context;
    char statement[96];
    snprintf(statement, sizeof statement, "UPDATE sale_stock SET stock = stock + %d", (int)SALE_RESTOCK);
    stage->is_restocked = stage->sale.way->restock != NULL
                              ? stage->sale.way->restock(&stage->sale)
                              : stack_postgres_query(stage->postgres.url, statement, NULL, 0);
    atomic_store(&stage->sale.board->restocked, true);
    return NULL;
}

/* Redis is gone and back, empty, while an order is held up: whoever gets its lock now may order before it. */
static bool strike_redis(struct stage *stage)
{
    const int64_t before = count_orders(stage);
    stack_redis_kill(&stage->redis);
    if (!stack_redis_restart(&stage->redis))
        return false;
    for (uint64_t end_us = clock_after_ms(STRUCK_REST_MS);
         clock_us() < end_us && count_orders(stage) == before;)
        clock_pause_ms(1);
    return true;
}

static bool strike(struct stage *stage)
{
    return wait_at_gate(stage, strike_at(stage->sale.way)) >= 0 && strike_redis(stage);
}

static bool middle(struct stage *stage, bool is_struck)
{
    pthread_t thread;
    const int64_t shop = wait_at_gate(stage, SALE_RESTOCK_AT);
    if (shop < 0)
        return false;
    if (is_struck)
        kill_shop(stage, (size_t)shop);
    if (!open_gate(stage, SALE_RESTOCK_AT) || pthread_create(&thread, NULL, restock, stage) != 0)
        return false;
    const bool good = !is_struck || strike(stage);
    const bool opened = !is_struck || open_gate(stage, strike_at(stage->sale.way));
    return pthread_join(thread, NULL) == 0 && stage->is_restocked && good && opened;
}

/* ---- one sale ---- */

static bool open_shops(struct stage *stage)
{
    struct sale_board *board = stage->sale.board;
    for (uint32_t i = 0; i < SALE_PROCESSES; i++) {
        fflush(NULL);
        stage->shops[i] = fork();
        if (stage->shops[i] == 0)
            sale_shop_run(&stage->sale, i);
        if (stage->shops[i] < 0)
            return false;
    }
    const uint64_t end_us = clock_after_ms(READY_LIMIT_MS);
    while (atomic_load(&board->ready) < SALE_BUYERS && clock_us() < end_us && !is_over(stage))
        clock_pause_ms(2);
    if (atomic_load(&board->ready) == SALE_BUYERS)
        return true;
    fprintf(stderr, "lab: sale: %s: %u of %d buyers are ready\n", stage->sale.way->name,
            (unsigned)atomic_load(&board->ready), (int)SALE_BUYERS);
    return false;
}

/* Every buyer gives up in time by itself. */
static bool close_shops(struct stage *stage, bool is_good)
{
    const uint64_t end_us = clock_after_ms(is_good ? SALE_LIMIT_MS + READY_LIMIT_MS : 0);
    while (!is_over(stage) && clock_us() < end_us)
        clock_pause_ms(5);
    for (size_t i = 0; i < SALE_PROCESSES; i++) {
        int status = 0;
        if (stage->shops[i] <= 0)
            continue;
        if (!is_over(stage))
            kill(stage->shops[i], SIGKILL);
        if (waitpid(stage->shops[i], &status, 0) <= 0 || status != 0) {
            fprintf(stderr, "lab: sale: %s: process %zu ended with wait status %d\n", stage->sale.way->name,
                    i, status);
            is_good = false;
        }
        stage->shops[i] = 0;
    }
    return is_good;
}

/* Did it ask before those of its process that went without? Which process comes first is decided on the way. */
static bool is_in_turn(const struct sale_board *board, size_t buyer)
{
    size_t before = 0, bought = 0;
    for (size_t i = buyer % SALE_PROCESSES; i < SALE_BUYERS; i += SALE_PROCESSES) {
        const struct sale_buyer *other = &board->buyers[i];
        before += other->asked_us > 0 && other->turn < board->buyers[buyer].turn;
        bought += other->outcome == SALE_BOUGHT;
    }
    return before < bought;
}

static void time_buyers(const struct sale_board *board, struct figures *figures)
{
    static uint64_t waits[SALE_BUYERS];
    uint64_t first_us = UINT64_MAX, last_us = 0;
    size_t answered = 0, in_turn = 0;
    for (size_t i = 0; i < SALE_BUYERS; i++) {
        const struct sale_buyer *buyer = &board->buyers[i];
        figures->gave_up += buyer->outcome == SALE_GAVE_UP;
        if (buyer->asked_us > 0 && buyer->asked_us < first_us)
            first_us = buyer->asked_us;
        if (buyer->outcome != SALE_BOUGHT && buyer->outcome != SALE_SOLD_OUT)
            continue;
        waits[answered++] = buyer->answered_us - buyer->asked_us;
        if (buyer->outcome != SALE_BOUGHT)
            continue;
        figures->bought++;
        in_turn += is_in_turn(board, i);
        if (buyer->answered_us > last_us)
            last_us = buyer->answered_us;
    }
    rank_sort(waits, answered);
    figures->p50_ms = (double)rank_percentile(waits, answered, 50) / 1e3;
    figures->p99_ms = (double)rank_percentile(waits, answered, 99) / 1e3;
    figures->per_second =
        last_us > first_us ? (double)figures->bought * 1e6 / (double)(last_us - first_us) : 0;
    figures->in_turn_percent = figures->bought > 0 ? 100.0 * (double)in_turn / figures->bought : 0;
}

/* Lost is a piece that nobody has at the end, and an order that its buyer believes in and nobody wrote. */
static void count(struct stage *stage, struct figures *figures)
{
    time_buyers(stage->sale.board, figures);
    const int64_t due = figures->bought > SALE_PIECES ? figures->bought : SALE_PIECES;
    figures->sold = count_orders(stage);
    figures->oversold = figures->sold > SALE_PIECES ? figures->sold - SALE_PIECES : 0;
    figures->lost = figures->sold < due ? due - figures->sold : 0;
    figures->refused = atomic_load(&stage->sale.board->refused);
}

static void run_sale(struct stage *stage, bool is_struck, struct figures *figures)
{
    bool good = reset(stage) && close_gate(stage, SALE_RESTOCK_AT) &&
                (!is_struck || close_gate(stage, strike_at(stage->sale.way))) && open_shops(stage);
    atomic_store(&stage->sale.board->begun, true);
    good = good && middle(stage, is_struck);
    sale_sql(&stage->control, NULL, "SELECT pg_advisory_unlock_all()");
    figures->is_measured = close_shops(stage, good);
    if (figures->is_measured)
        count(stage, figures);
}

/* ---- the report ---- */

static const struct table_column columns[] = {
    {2, 10, TABLE_LEFT, false}, {1, 38, TABLE_LEFT, true},  {1, 5, TABLE_RIGHT, false},
    {1, 5, TABLE_RIGHT, false}, {1, 5, TABLE_RIGHT, false}, {1, 7, TABLE_RIGHT, false},
    {1, 8, TABLE_RIGHT, false}, {1, 8, TABLE_RIGHT, false}, {1, 6, TABLE_RIGHT, false},
    {1, 7, TABLE_RIGHT, false}, {1, 7, TABLE_RIGHT, false},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void print_head(bool is_struck)
{
    static const char *const names[COLUMNS] = {"way",    "",       "sold",  "over",    "lost",   "sold/s",
                                               "p50 ms", "p99 ms", "order", "refused", "gave up"};
    printf("\n%s\n", is_struck ? "Struck: under the 34th order its process is killed; under the 67th (the "
                                 "last one, where a lock "
                                 "outside of the database guards it)\nRedis is killed and comes back empty"
                               : "Calm: nothing goes wrong");
    table_row(stdout, columns, COLUMNS, names);
}

static void print_figures(const struct sale_way *way, const struct figures *figures)
{
    char fields[COLUMNS][FIELD_BYTES];
    const char *cells[COLUMNS] = {way->name, way->title};
    if (!figures->is_measured) {
        cells[1] = "not run";
        table_row(stdout, columns, 2, cells);
        return;
    }
    snprintf(fields[2], FIELD_BYTES, "%" PRId64, figures->sold);
    snprintf(fields[3], FIELD_BYTES, "%" PRId64, figures->oversold);
    snprintf(fields[4], FIELD_BYTES, "%" PRId64, figures->lost);
    snprintf(fields[5], FIELD_BYTES, "%.0f", figures->per_second);
    snprintf(fields[6], FIELD_BYTES, "%.0f", figures->p50_ms);
    snprintf(fields[7], FIELD_BYTES, "%.0f", figures->p99_ms);
    snprintf(fields[8], FIELD_BYTES, "%.0f%%", figures->in_turn_percent);
    snprintf(fields[9], FIELD_BYTES, "%" PRIu32, figures->refused);
    snprintf(fields[10], FIELD_BYTES, "%" PRIu32, figures->gave_up);
    for (size_t i = 2; i < COLUMNS; i++)
        cells[i] = fields[i];
    table_row(stdout, columns, COLUMNS, cells);
}

/* A control may oversell: that is what it is for. */
static bool keeps_promise(const struct sale_way *way, const struct figures *figures)
{
    return figures->is_measured && (way->is_control || (figures->oversold == 0 && figures->lost == 0));
}

static bool run_ways(struct stage *stage, const struct sale_way *const *ways, bool is_struck)
{
    bool good = true;
    print_head(is_struck);
    for (size_t i = 0; ways[i] != NULL; i++) {
        struct figures figures = {.is_measured = false};
        stage->sale.way = ways[i];
        run_sale(stage, is_struck, &figures);
        print_figures(ways[i], &figures);
        fflush(stdout);
        good = keeps_promise(ways[i], &figures) && good;
    }
    return good;
}

static bool run_all(struct stage *stage, const struct sale_way *const *ways)
{
    char machine[MACHINE_BYTES];
    machine_describe(&stage->redis, &stage->postgres, machine);
    printf("Flash sale: %d buyers in %d processes, %d pieces and %d more; %s.\n"
           "order: share of the pieces that went to the first of each process to ask. refused: late writes "
           "that a "
           "fence or a generation turned away.\n",
           (int)SALE_BUYERS, (int)SALE_PROCESSES, (int)SALE_FIRST, (int)SALE_RESTOCK, machine);
    const bool calm = run_ways(stage, ways, false);
    const bool struck = run_ways(stage, ways, true);
    printf("\nWhat each is good for\n");
    for (size_t i = 0; ways[i] != NULL; i++)
        printf("  %-10s %s\n", ways[i]->name, ways[i]->good_for);
    if (!calm || !struck)
        fprintf(stderr, "lab: sale: a way that must not oversell or lose a piece did, or could not be run\n");
    return calm && struck;
}

static const struct sale_way *find_way(const char *name)
{
    for (size_t i = 0; sale_ways[i] != NULL; i++) {
        if (strcmp(sale_ways[i]->name, name) == 0)
            return sale_ways[i];
    }
    return NULL;
}

int sale_main(int argc, char **argv)
{
    static struct stage stage;
    const struct sale_way *chosen[WAYS_MAX + 1] = {NULL};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            fprintf(stderr, "lab: sale: --json: the flash sale only prints\n");
            return 2;
        }
        if (i > WAYS_MAX || (chosen[i - 1] = find_way(argv[i])) == NULL) {
            fprintf(stderr, "lab: sale: %s: no way of selling; they are", argv[i]);
            for (size_t j = 0; sale_ways[j] != NULL; j++)
                fprintf(stderr, " %s", sale_ways[j]->name);
            fputc('\n', stderr);
            return 2;
        }
    }
    proc_clean_on_signals();
    stage.control.complains = true;
    stage.sale.postgres = &stage.postgres;
    stage.sale.redis = &stage.redis;
    stage.sale.board =
        mmap(NULL, sizeof *stage.sale.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const bool good = stage.sale.board != MAP_FAILED && start_servers(&stage) &&
                      run_all(&stage, argc > 1 ? chosen : sale_ways);
    stop_servers(&stage);
    return good ? 0 : 1;
}
