/* SPDX-License-Identifier: MIT */
/* tickets.c - see tickets.h. */
#include "tickets.h"
#include <assert.h>
#include <stdlib.h>

/* A ticket: 32 bits of use, 8 of its table, 24 of place (1-based). */
enum { FIRST_SLOTS = 64, PLACE_BITS = 24, MOST_SLOTS = (1 << PLACE_BITS) - 1 };

static bool grow_tickets(struct tickets *tickets)
{
    uint32_t count = tickets->count == 0 ? FIRST_SLOTS : tickets->count * 2;
    if (count > MOST_SLOTS)
        count = MOST_SLOTS;
    if (count == tickets->count)
        return false;
    struct ticket_slot *slots = realloc(tickets->slots, (size_t)count * sizeof *slots);
    if (slots == NULL)
        return false;
    for (uint32_t i = tickets->count; i < count; i++)
        slots[i] = (struct ticket_slot){.next_free = i + 1 < count ? i + 2 : 0};
    tickets->first_free = tickets->count + 1;
    tickets->slots = slots;
    tickets->count = count;
    return true;
}

guard_ticket tickets_add(struct tickets *tickets, void *what)
{
    if (tickets->first_free == 0 && !grow_tickets(tickets))
        return 0;
    uint32_t place = tickets->first_free;
    struct ticket_slot *slot = &tickets->slots[place - 1];
    tickets->first_free = slot->next_free;
    slot->what = what;
    slot->use++;
    tickets->used++;
    return (guard_ticket)slot->use << 32 | (guard_ticket)tickets->table << PLACE_BITS | place;
}

static uint32_t place_of_ticket(guard_ticket ticket)
{
    return (uint32_t)ticket & ((1u << PLACE_BITS) - 1);
}

bool tickets_is_of(const struct tickets *tickets, guard_ticket ticket)
{
    return ticket == 0 || (uint8_t)(ticket >> PLACE_BITS) == tickets->table;
}

static struct ticket_slot *slot_of_ticket(const struct tickets *tickets, guard_ticket ticket)
{
    uint32_t place = place_of_ticket(ticket);
    if (place == 0 || place > tickets->count || !tickets_is_of(tickets, ticket))
        return NULL;
    struct ticket_slot *slot = &tickets->slots[place - 1];
    return slot->what != NULL && slot->use == ticket >> 32 ? slot : NULL;
}

void *tickets_find(const struct tickets *tickets, guard_ticket ticket)
{
    struct ticket_slot *slot = slot_of_ticket(tickets, ticket);
    return slot != NULL ? slot->what : NULL;
}

void tickets_remove(struct tickets *tickets, guard_ticket ticket)
{
    struct ticket_slot *slot = slot_of_ticket(tickets, ticket);
    assert(slot != NULL);
    slot->what = NULL;
    tickets->used--;
    if (slot->use == UINT32_MAX)
        return; /* once more and its tickets would begin again */
    slot->next_free = tickets->first_free;
    tickets->first_free = place_of_ticket(ticket);
}

void tickets_clear(struct tickets *tickets)
{
    free(tickets->slots);
    *tickets = (struct tickets){0};
}
