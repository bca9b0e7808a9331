/* SPDX-License-Identifier: MIT */
/*
 * network.h - networks of our own, whose cables can be pulled.
 *
 *     place 1 --cable--+
 *     place 2 --cable--+-- place 0, the switch
 *     ...              |
 *
 * Each place is a network namespace with a loopback of its own and one address; what a thread starts, listens on and
 * connects to belongs to the place it is in. Unix sockets reach over all of them. Nothing outlives the program.
 *
 * Needs root and the program ip.
 *
 * Threads: network_enter() and network_leave() move the calling thread only; the rest from one.
 * Errors: false, and the reason on stderr.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { NETWORK_PLACES_MAX = 128, NETWORK_ADDRESS_BYTES = 16 };

struct network {
    size_t count;
    int home; /* where this program was */
    struct network_place {
        int space; /* the namespace */
        char address[NETWORK_ADDRESS_BYTES];
    } place[NETWORK_PLACES_MAX];
};

/* Without both there can be no network. */
bool network_is_possible(void);

/* So many places, the switch included, all connected. The thread is home again. */
bool network_open(struct network *network, size_t count);
void network_close(struct network *network); /* accepts one that is all zeros */

bool network_enter(const struct network *network, size_t place);
bool network_leave(const struct network *network);

/* Pulls the cable of a place, or plugs it in. */
bool network_cut(const struct network *network, size_t place);
bool network_mend(const struct network *network, size_t place);
