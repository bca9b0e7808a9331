/* SPDX-License-Identifier: MIT */
/* crowd.c - see crowd.h. */
#include "load/bench/crowd.h"

#include <inttypes.h>
#include <stdio.h>

enum { LIMIT_MS = 60000 };

bool crowd_open(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->port_count; i++)
        crowd->targets[i] = (struct burst_target){.host = "127.0.0.1", .port = crowd->ports[i]};
    const struct burst_options options = {.targets = crowd->targets,
                                          .target_count = crowd->port_count,
                                          .connection_count = crowd->size,
                                          .connect_limit_ms = LIMIT_MS,
                                          .request_limit_ms = LIMIT_MS,
                                          .path = crowd->path,
                                          .events = &crowd->meanwhile,
                                          .event_count = crowd->meanwhile.run != NULL};
    return burst_open(&options, &crowd->burst);
}

bool crowd_ask(struct crowd *crowd)
{
    bool ran = burst_run(crowd->burst);
    const struct burst_answer *answers = burst_answers(crowd->burst);
    burst_summarise(crowd->burst, &crowd->summary);
    crowd->sent_us = answers[0].sent_us;
    crowd->last_us = 0;
    for (uint32_t i = 0; i < crowd->size; i++) {
        uint64_t end_us = answers[i].end_us;
        crowd->last_us = end_us > crowd->last_us ? end_us : crowd->last_us;
    }
    uint32_t good = crowd->summary.statuses[200];
    if (good != crowd->size)
        fprintf(stderr, "bench: only %" PRIu32 " of %" PRIu32 " requests were answered with 200\n", good,
                crowd->size);
    return ran && good == crowd->size;
}

void crowd_close(struct crowd *crowd)
{
    burst_close(&crowd->burst);
}

bool crowd_waits(const struct crowd *crowd, const struct stack_catalogd *catalogd)
{
    double waiting = stack_catalogd_metric(catalogd, "catalogd_connections_parked");
    if (waiting < crowd->size)
        fprintf(stderr, "bench: only %.0f of %" PRIu32 " requests wait\n", waiting, crowd->size);
    return waiting >= crowd->size;
}
