/* SPDX-License-Identifier: MIT */
/*
 * peers.c - the known caches and ours on the same work, side by side.
 *
 *     peers [PEER ...] [CONTEST ...] [--repetitions N] [--seconds N]
 *
 * Repetitions are interleaved (A B C A B C), so that a machine that grows slower does so for all peers. Exits with
 * 0 also when another cache is better, and when one is not installed: it reports both. 1: something that is
 * installed did not work, or nothing ran. 2: it was called wrongly.
 */
#include "load/peers/peers.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/base/number.h"
#include "load/base/proc.h"
#include "load/stack/rival.h"
#include "load/stack/stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_NEEDED = 4096, REPETITIONS = 3, REPETITIONS_MAX = 16, ROLLING_S = 10, SECONDS_MAX = 600 };

static struct peer *const all_peers[] = {&peer_catalogd,   &peer_module, &peer_nginx,   &peer_varnish,
                                         &peer_bentocache, &peer_dedupe, &peer_dogpile, &peer_guide};
static const struct contest *const all_contests[] = {&contest_burst, &contest_rolling, &contest_hits,
                                                     &contest_faults};
enum {
    ALL_PEERS = sizeof all_peers / sizeof *all_peers,
    ALL_CONTESTS = sizeof all_contests / sizeof *all_contests,
};
_Static_assert((size_t)ALL_PEERS <= (size_t)PEERS_MAX && (size_t)ALL_CONTESTS <= (size_t)CONTESTS_MAX,
               "struct outcome has room for all of them");
_Static_assert((size_t)REPETITIONS_MAX <= (size_t)SAMPLES_MAX, "struct samples has room for all of them");

static struct outcome outcome;
static struct stage stage;

/* ---- what is wanted ---- */

struct wish {
    bool peers[ALL_PEERS], contests[ALL_CONTESTS];
    bool any_peer, any_contest;
    uint32_t repetitions, rolling_s;
};

static bool complain(const char *word)
{
    fprintf(stderr, "peers: %s is none of these.\n  caches:  ", word);
    for (size_t i = 0; i < ALL_PEERS; i++)
        fprintf(stderr, " %s", all_peers[i]->name);
    fprintf(stderr, "\n  contests:");
    for (size_t i = 0; i < ALL_CONTESTS; i++)
        fprintf(stderr, " %s", all_contests[i]->name);
    fprintf(stderr, "\n  options:  --repetitions 1..%d, --seconds 1..%d (of rolling)\n", REPETITIONS_MAX,
            SECONDS_MAX);
    return false;
}

static bool read_name(struct wish *wish, const char *word)
{
    for (size_t i = 0; i < ALL_PEERS; i++) {
        if (strcmp(word, all_peers[i]->name) == 0)
            return wish->any_peer = wish->peers[i] = true;
    }
    for (size_t i = 0; i < ALL_CONTESTS; i++) {
        if (strcmp(word, all_contests[i]->name) == 0)
            return wish->any_contest = wish->contests[i] = true;
    }
    return complain(word);
}

static bool read_number(const char *option, const char *text, uint32_t most, uint32_t *out)
{
    if (text != NULL && number_read(text, 1, most, out))
        return true;
    fprintf(stderr, "peers: %s takes a number of 1..%" PRIu32 ", not %s\n", option, most,
            text != NULL ? text : "nothing");
    return false;
}

static bool read_option(struct wish *wish, const char *option, const char *text)
{
    if (strcmp(option, "--repetitions") == 0)
        return read_number(option, text, REPETITIONS_MAX, &wish->repetitions);
    if (strcmp(option, "--seconds") == 0)
        return read_number(option, text, SECONDS_MAX, &wish->rolling_s);
    return complain(option);
}

static bool read_wish(int argc, char **argv, struct wish *wish)
{
    *wish = (struct wish){.repetitions = REPETITIONS, .rolling_s = ROLLING_S};
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            if (!read_name(wish, argv[i]))
                return false;
        } else if (!read_option(wish, argv[i], i + 1 < argc ? argv[i + 1] : NULL)) {
            return false;
        } else {
            i++;
        }
    }
    for (size_t i = 0; i < ALL_PEERS; i++) {
        if (!wish->any_peer || wish->peers[i])
            outcome.peers[outcome.peer_count++] = all_peers[i];
    }
    for (size_t i = 0; i < ALL_CONTESTS; i++) {
        if (!wish->any_contest || wish->contests[i])
            outcome.contests[outcome.contest_count++] = all_contests[i];
    }
    return true;
}

/* ---- one contest ---- */

static void show(const char *text)
{
    printf(" %s", text);
    fflush(stdout);
}

static bool runs(const struct peer *peer)
{
    return peer->why_not[0] == '\0';
}

static bool takes_part(const struct contest *contest, const struct peer *peer)
{
    return runs(peer) && contest_is_for(contest, peer);
}

/* A peer that fails is out from now on; what it did before stays in the report. */
static void start_all(const struct contest *contest)
{
    printf("  %s: starting", contest->name);
    for (size_t i = 0; i < outcome.peer_count; i++) {
        struct peer *peer = outcome.peers[i];
        if (!takes_part(contest, peer))
            continue;
        show(peer->name);
        if (!peer_start(peer, &stage, &contest->terms))
            peer_fail(peer, "did not start");
        else if (!contest->prepare(&stage, peer))
            peer_fail(peer, "failed in %s before anything counted", contest->name);
    }
    printf("\n");
}

static void repeat(size_t contest, uint32_t repetition, uint32_t repetitions)
{
    const struct contest *about = outcome.contests[contest];
    uint64_t begin_us = clock_us();
    printf("  %s, repetition %" PRIu32 " of %" PRIu32 ":", about->name, repetition, repetitions);
    for (size_t i = 0; i < outcome.peer_count; i++) {
        struct peer *peer = outcome.peers[i];
        if (!takes_part(about, peer))
            continue;
        show(peer->name);
        if (!about->run(&stage, peer, &outcome.scores[contest][i]))
            peer_fail(peer, "failed in %s", about->name);
    }
    printf("  %.1f s\n", (double)(clock_us() - begin_us) / 1e6);
    fflush(stdout);
}

static void run_all(const struct wish *wish)
{
    char line[PEER_TEXT_BYTES];
    bool has_wrk = rival_first_line("command -v wrk", line, sizeof line);
    for (size_t i = 0; i < outcome.contest_count; i++) {
        if (outcome.contests[i]->needs_wrk && !has_wrk) {
            printf("  %s: not run: wrk is not installed\n", outcome.contests[i]->name);
            continue;
        }
        stage_forget(&stage);
        start_all(outcome.contests[i]);
        for (uint32_t k = 1; k <= wish->repetitions; k++)
            repeat(i, k, wish->repetitions);
        for (size_t k = 0; k < outcome.peer_count; k++)
            peer_stop(outcome.peers[k]);
    }
}

/* ---- the whole ---- */

static void describe_machine(double load_before)
{
    char machine[MACHINE_BYTES];
    machine_describe(&stage.redis, stage.postgres.socket_url, machine);
    snprintf(
        outcome.machine, sizeof outcome.machine,
        "%s.\n"
        "Clients, caches, origin, Redis and PostgreSQL share these cores; the load average was %.1f before.",
        machine, load_before);
}

/* True: at least one is installed. */
static bool look_at_all(void)
{
    bool any = false;
    for (size_t i = 0; i < outcome.peer_count; i++) {
        struct peer *peer = outcome.peers[i];
        if (peer->look(peer))
            any = true;
        else
            printf("  %s: not run: %s\n", peer->name, peer->why_not);
    }
    return any;
}

int main(int argc, char **argv)
{
    struct wish wish;
    double load_before = 0;
    proc_begin();
    if (!read_wish(argc, argv, &wish))
        return 2;
    if (!net_raise_file_limit(FILES_NEEDED)) {
        fprintf(stderr, "peers: the limit of open files (ulimit -n) is below %d\n", FILES_NEEDED);
        return 1;
    }
    if (getloadavg(&load_before, 1) != 1)
        load_before = 0;
    proc_clean_on_signals();
    stage.rolling_s = wish.rolling_s;
    bool good = look_at_all() && stage_open(&stage);
    size_t installed = 0, worked = 0;
    if (good) {
        for (size_t i = 0; i < outcome.peer_count; i++)
            installed += runs(outcome.peers[i]);
        run_all(&wish);
        for (size_t i = 0; i < outcome.peer_count; i++)
            worked += runs(outcome.peers[i]);
        describe_machine(load_before);
        outcome_print(&outcome);
        good = worked == installed;
    }
    stage_close(&stage);
    return good ? 0 : 1;
}
