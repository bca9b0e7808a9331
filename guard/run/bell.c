/* SPDX-License-Identifier: MIT */
/* bell.c - see bell.h. */
#include "bell.h"
#include "../base/process.h"
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct bell *bell_new(uint32_t wanted)
{
    struct bell *bell = malloc(sizeof *bell);
    if (bell == NULL)
        return NULL;
    *bell =
        (struct bell){descriptor_not_standard(eventfd(wanted == 0, EFD_CLOEXEC | EFD_NONBLOCK)), 1, wanted};
    if (bell->fd >= 0)
        return bell;
    free(bell);
    return NULL;
}

void bell_again(struct bell *bell, uint32_t wanted)
{
    eventfd_t count = 0;
    eventfd_read(bell->fd, &count); /* fails if it was not set */
    bell->wanted = wanted;
    if (wanted == 0)
        eventfd_write(bell->fd, 1);
}

void bell_unwanted(struct bell *bell)
{
    if (--bell->wanted == 0)
        eventfd_write(bell->fd, 1);
}

void bell_unref(struct bell **unref)
{
    struct bell *bell = *unref;
    *unref = NULL;
    if (bell == NULL || --bell->refs > 0)
        return;
    close(bell->fd);
    free(bell);
}
