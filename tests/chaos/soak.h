/* SPDX-License-Identifier: MIT */
/*
 * soak.h - what the processes use over the hours: memory, descriptors, threads, flights, PostgreSQL's backends.
 *
 * A sample a second. The run ended flat if the median of its last tenth is not above that of its second tenth
 * (the first is warming up) by more than is allowed for the gauge. Processes that are killed begin anew, so
 * only those that never are, the first SOAK_PROCESSES, are looked at.
 *
 * Threads: one, the scene's.
 */
#pragma once

#include "tests/chaos/scene.h"

#include <stdbool.h>
#include <stdio.h>

enum { SOAK_PROCESSES = 3 };

struct soak;

bool soak_open(struct soak **out);
/* Takes a sample if a second has passed since the last one. */
void soak_sample(struct soak *soak, struct scene *scene);
/* Prints the table; true: flat. */
bool soak_judge(const struct soak *soak, FILE *out);
/* Leaves NULL. Accepts NULL in *soak. */
void soak_close(struct soak **soak);
