/* SPDX-License-Identifier: MIT */
/*
 * writer.h - changes rows while they are requested, and says when each change is over.
 *
 *     every_ms:  sql with the next key  -->  the new version  -->  POST to say so  -->  over
 *
 * A change is over, and every later request must see its version, once the POST has been answered with 2xx; until then it
 * is posted again. A change whose POST is not answered so within POST_LIMIT_MS has failed: it promises nothing.
 *
 * Threads: one of its own for each; begun and ended by one.
 */
#ifndef LOAD_PLAY_WRITER_H
#define LOAD_PLAY_WRITER_H

#include "load/play/servers.h"

struct writer;

/* Both lent until writer_end(). NULL: no thread or memory, the reason on stderr. */
struct writer *writer_begin(const struct servers *servers, const struct scenario_write *write);

/* At most 10 s after it was told to. *writes is the caller's: free(). `failed`: how many changes were not over. */
void writer_end(struct writer **writer, struct result_write **writes, size_t *write_count, size_t *failed,
                char why[static SCENARIO_WHY_BYTES]);

#endif
