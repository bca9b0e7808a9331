/* SPDX-License-Identifier: MIT */
/*
 * ground.h - all that the playground consists of.
 *
 *     page.html, page.js   the page; app/view/plot.js and widgets.js draw the samples
 *     web.c, gate.c        serves it, on loopback, and asks who presses its buttons
 *     buttons.c            what can be pressed, as a table
 *     jobs.c, rush.c       a crowd, and what became of it, in one sentence
 *     change.c             a product that is bought, edited, expired
 *     site.c, deeds.c      the servers, and what is done to them
 *     reader.c, shelf.c    what the processes say of themselves, and what stands in Redis
 *     state.c              all of that as one line of JSON, four times a second
 *     serve.c              the command
 */
#ifndef LOAD_GROUND_GROUND_H
#define LOAD_GROUND_GROUND_H

#include "load/ground/jobs.h"
#include "load/ground/reader.h"
#include "load/ground/site.h"
#include "load/ground/story.h"

struct ground {
    struct story story;
    struct site site;
    struct reader readers[DEED_PROCESSES];
    struct jobs jobs;
};

#endif
