/* SPDX-License-Identifier: MIT */
/* scheme_none.c - (0) no lock: every process that misses loads. What the others are compared with. */
#include "load/lab/lab.h"

static int32_t get(struct lab_client *client)
{
    int32_t version = lab_look(client);
    if (version != LAB_FAILED)
        return version;
    lab_step(client, STEP_LOOKED);
    lab_took(client); /* there is nothing to take: it loads from here on */
    version = lab_load_and_fill(client);
    lab_gave(client);
    return version;
}

const struct scheme scheme_none = {
    .number = "0",
    .name = "none",
    .title = "no lock",
    .source = "cache-aside as everybody begins",
    .lock_prefix = "lock:",
    .get = get,
};
