/* SPDX-License-Identifier: MIT */
/*
 * sim_main.c - the simulators as a program: of the guard, with one master or, where the first argument is "shards",
 * with two, or, where it is "wishes", with what loaders, requests and operators may wish beyond a load and its
 * answer, or, where it is "outages", with Redis away for long; and, where it is "locks", of the locks.
 *
 *   sim SEEDS=100000 [FROM=1]      runs that many seeds; prints seeds/s and how often each fault happened
 *   sim SEED=4711                  runs one and prints every event
 *   sim MUTANT=fill-unfenced       with a bug sown into the model: the seed that finds it
 *   sim MUTANTS=20000              every mutant; each must be found within so many seeds
 *   sim COURSES=1000 [FROM=1]      prints a hash of the courses of each 100 seeds (EACH=1: of each seed): equal
 *                                  before and after a change that moves code and no decision
 *   sim FIND=20000                 stops at the first failure, which is what is wanted (mutants.sh)
 *   sim shards SEEDS=100000        the guard over two masters that fail separately: likewise with all of the above
 *   sim wishes SEEDS=100000        the guard with wishes (sim_wish.h): likewise
 *   sim outages SEEDS=100000       the guard where Redis is away (sim_outage.h): likewise
 *   sim locks SEEDS=100000         the locks: likewise
 *
 * Exit status 0: what was expected; 1: a seed failed (or a mutant survived); 2: usage.
 */
#include "simulator.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct simulator *sim = &guard_simulator;
static uint64_t total[TALLIES][TALLY_MOST], events_seen;
static uint64_t present_seed; /* the seed of the present run */
static uint32_t sown;         /* its mutant */

static bool aborting_is_finding; /* FIND= */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* An assertion of the core failed, or worse, or it goes round in a circle: say where before it ends us. */
static void aborted(int signal)
{
    char text[96];
    int bytes =
        snprintf(text, sizeof text, "%s in SEED=%" PRIu64 " MUTANT=%s\n",
                 signal == SIGALRM ? "stands still" : "aborted", present_seed, sim->mutant_names[sown]);
    if (write(STDERR_FILENO, text, (size_t)bytes) < 0)
        _exit(1);
    _exit(aborting_is_finding ? 0 : 128 + signal);
}

static bool run(uint64_t seed, uint32_t mutant, bool trace)
{
    enum { LIMIT_S = 60 }; /* some milliseconds are usual */
    present_seed = seed;
    sown = mutant;
    alarm(LIMIT_S);
    return sim->run(sim->seeds_from + seed, mutant, trace);
}

static void print_tally(const struct tally *tally, const uint64_t *counts)
{
    printf("%s:\n", tally->title);
    for (uint32_t what = 0; what < tally->size; what++)
        if (counts[what] != 0 || tally_misses(tally, counts, what))
            printf("  %-26s %10" PRIu64 "%s\n", tally->names[what], counts[what],
                   counts[what] == 0 ? "  NEVER" : "");
}

static int run_seeds(uint64_t from, uint64_t count, uint32_t mutant)
{
    double start_s = now_s();
    int failures = 0;
    for (uint64_t seed = from; seed < from + count && failures < 10; seed++) {
        if (!run(seed, mutant, false)) {
            printf("SEED=%" PRIu64 ": %s\n", seed, sim->course->failure);
            fflush(stdout); /* the next one may abort */
            failures++;
        }
        simulator_add_up(sim, total);
        events_seen += sim->course->events_seen;
    }
    double span_s = now_s() - start_s;
    for (int i = 0; i < TALLIES && sim->tallies[i].size > 0; i++)
        print_tally(&sim->tallies[i], total[i]);
    printf("%" PRIu64 " seeds, %d failed, %.1f s, %.0f seeds/s, %.0f events/seed\n", count, failures, span_s,
           (double)count / span_s, (double)events_seen / (double)count);
    return failures > 0;
}

static int hunt(uint32_t mutant, uint64_t count)
{
    for (uint64_t seed = 1; seed <= count; seed++) {
        if (!run(seed, mutant, false)) {
            printf("%-18s found by SEED=%" PRIu64 ": %s\n", sim->mutant_names[mutant], seed,
                   sim->course->failure);
            return 0;
        }
    }
    printf("%-18s SURVIVED %" PRIu64 " seeds\n", sim->mutant_names[mutant], count);
    return 1;
}

static int hunt_all(uint64_t count)
{
    int survivors = 0;
    for (uint32_t mutant = sim->first_mutant; mutant < sim->end_mutant; mutant++)
        survivors += hunt(mutant, count);
    return survivors > 0;
}

static int show(uint64_t seed, uint32_t mutant)
{
    bool good = run(seed, mutant, true);
    printf("SEED=%" PRIu64 ": %s\n", seed, good ? "nothing found" : sim->course->failure);
    return !good;
}

static int find(uint64_t count)
{
    for (uint64_t seed = 1; seed <= count; seed++) {
        if (run(seed, 0, false))
            continue;
        printf("SEED=%" PRIu64 ": %s\n", seed, sim->course->failure);
        return 0;
    }
    return 1;
}

/* A line for each group of so many seeds, named by its first. */
static int print_courses(uint64_t from, uint64_t count, uint64_t each)
{
    struct course group = {.hash = 0};
    for (uint64_t i = 0; i < count; i++) {
        run(from + i, 0, false);
        course_note(&group, sim->course->hash);
        if ((i + 1) % each != 0 && i + 1 < count)
            continue;
        printf("%" PRIu64 " %016" PRIx64 "\n", from + i / each * each, group.hash);
        group.hash = 0;
    }
    return 0;
}

static bool number_of(const char *argument, const char *name, uint64_t *out)
{
    size_t bytes = strlen(name);
    if (strncmp(argument, name, bytes) != 0 || argument[bytes] != '=')
        return false;
    *out = strtoull(argument + bytes + 1, NULL, 10);
    return true;
}

static bool mutant_of(const char *argument, uint32_t *out)
{
    if (strncmp(argument, "MUTANT=", 7) != 0)
        return false;
    for (uint32_t mutant = sim->first_mutant; mutant < sim->end_mutant; mutant++) {
        if (strcmp(argument + 7, sim->mutant_names[mutant]) != 0)
            continue;
        *out = mutant;
        return true;
    }
    return false;
}

static bool choose_simulator(const char *name)
{
    static const struct {
        const char *name;
        const struct simulator *simulator;
    } all[] = {{"shards", &shard_simulator},
               {"wishes", &wish_simulator},
               {"outages", &outage_simulator},
               {"locks", &lock_simulator}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(name, all[i].name) != 0)
            continue;
        sim = all[i].simulator;
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 10000, from = 1, seed = 0, mutants = 0, wanted = 0, courses = 0, each = 100;
    uint32_t mutant = 0;
    bool has_name = choose_simulator(argc > 1 ? argv[1] : "");
    signal(SIGABRT, aborted);
    signal(SIGSEGV, aborted);
    signal(SIGALRM, aborted);
    for (int i = 1 + has_name; i < argc; i++) {
        bool known = number_of(argv[i], "SEEDS", &seeds) || number_of(argv[i], "FROM", &from) ||
                     number_of(argv[i], "SEED", &seed) || number_of(argv[i], "MUTANTS", &mutants) ||
                     number_of(argv[i], "FIND", &wanted) || number_of(argv[i], "COURSES", &courses) ||
                     (number_of(argv[i], "EACH", &each) && each != 0) || mutant_of(argv[i], &mutant);
        if (!known) {
            fprintf(stderr,
                    "usage: sim [locks|shards|wishes|outages] [SEEDS=n] [FROM=n] [SEED=n] [MUTANT=name] "
                    "[MUTANTS=n] "
                    "[FIND=n] "
                    "[COURSES=n] [EACH=n]; not: %s\n",
                    argv[i]);
            return 2;
        }
    }
    int status = 0;
    aborting_is_finding = wanted != 0;
    if (wanted != 0)
        status = find(wanted);
    else if (mutants != 0)
        status = hunt_all(mutants);
    else if (courses != 0)
        status = print_courses(from, courses, each);
    else if (seed != 0)
        status = show(seed, mutant);
    else
        status = run_seeds(from, seeds, mutant);
    events_clear(&sim->course->events);
    return status;
}
