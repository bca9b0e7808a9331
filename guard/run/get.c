/* SPDX-License-Identifier: MIT */
/* get.c - see get.h. */
#include "get.h"
#include <stdlib.h>

void get_free(struct get *get)
{
    if (get->asker.unref != NULL)
        get->asker.unref(get->asker.what);
    free(get);
}
