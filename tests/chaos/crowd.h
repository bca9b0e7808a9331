/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - clients who ask and writers who edit, each a thread, each keeping the history of what it did.
 *
 * A client asks one process for one product at a time, mostly for a few hot ones, and waits for as long as a
 * process may need with a stop in between; one request in sixteen leaves early. A writer updates any row, then
 * asks processes to invalidate it until one confirms or it gives up.
 *
 * Threads: open and close from one. The scene and the history are lent until crowd_close() has returned.
 */
#pragma once

#include "tests/chaos/history.h"
#include "tests/chaos/scene.h"

enum { CROWD_MAX = 64, CROWD_PATIENCE_MS = 12000 };

struct crowd_options {
    struct scene *scene;
    struct history *history;
    uint64_t seed;
    uint32_t client_count, writer_count;       /* at most CROWD_MAX together */
    uint32_t client_pause_ms, writer_pause_ms; /* between two turns, on average */
};

struct crowd;

/* False: no thread. */
bool crowd_open(const struct crowd_options *options, struct crowd **out);
/* Writers begin nothing, or go on. Any thread. */
void crowd_quiet_writers(struct crowd *crowd, bool quiet);
/* Lets everybody finish the turn they are in. Leaves NULL. Accepts NULL in *crowd. */
void crowd_close(struct crowd **crowd);
