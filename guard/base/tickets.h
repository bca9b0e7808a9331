/* SPDX-License-Identifier: MIT */
/*
 * tickets.h - names for gets that stay safe after the get is gone.
 *
 * A ticket is a slot and the number of times the slot was used, so that an old ticket never names a new
 * get; and the number of its table, so that it names nothing in another one of the same guard. One owner at a
 * time: a shared table has a lock around it.
 */
#pragma once

#include "../guard.h"

struct ticket_slot {
    void *what;         /* NULL: free */
    uint32_t use;       /* counts from 1; at the last one the slot is given up */
    uint32_t next_free; /* 1-based, 0: none */
};

struct tickets {
    struct ticket_slot *slots; /* owned */
    uint32_t count, used, first_free;
    uint8_t table;
};

/* 0: no memory, or 16 million are waiting. */
guard_ticket tickets_add(struct tickets *tickets, void *what);
/* NULL: gone. */
void *tickets_find(const struct tickets *tickets, guard_ticket ticket);
/* Whether it may have been given out here; 0 may. Numbers of tables repeat, so a true is no proof. */
bool tickets_is_of(const struct tickets *tickets, guard_ticket ticket);
void tickets_remove(struct tickets *tickets, guard_ticket ticket);
void tickets_clear(struct tickets *tickets);
