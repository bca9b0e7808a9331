/* SPDX-License-Identifier: MIT */
/* network.c - see network.h. */
#include "tests/support/network.h"

#include "load/base/proc.h"

#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COMMAND_BYTES = 512, COMMAND_LIMIT_MS = 10000 };

__attribute__((format(printf, 1, 2))) static bool shell(const char *format, ...)
{
    char command[COMMAND_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    const char *const argv[] = {"sh", "-ec", command, NULL};
    return proc_run(&(struct proc_options){.argv = argv}, COMMAND_LIMIT_MS);
}

bool network_is_possible(void)
{
    char text[64];
    return geteuid() == 0 && proc_output("command -v ip", text, sizeof text);
}

static int present_space(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

static bool move_to(int space)
{
    if (setns(space, CLONE_NEWNET) == 0)
        return true;
    perror("network: setns");
    return false;
}

static bool make_space(struct network_place *place, size_t at)
{
    snprintf(place->address, sizeof place->address, "10.87.%u.%u", (unsigned)(at / 250),
             (unsigned)(at % 250 + 1));
    place->space = unshare(CLONE_NEWNET) == 0 ? present_space() : -1;
    if (place->space != -1)
        return shell("ip link set lo up");
    perror("network: unshare");
    return false;
}

/* In the switch: one end of the cable stays, the other one goes to its place. */
static bool lay_cable(const struct network *network, size_t at)
{
    const struct network_place *place = &network->place[at];
    if (!shell("ip link add port%u type veth peer name cable netns /proc/%d/fd/%d; "
               "ip link set port%u master switch up",
               (unsigned)at, (int)getpid(), place->space, (unsigned)at))
        return false;
    return move_to(place->space) &&
           shell("ip addr add %s/16 dev cable; ip link set cable up", place->address) &&
           move_to(network->place[0].space);
}

bool network_open(struct network *network, size_t count)
{
    *network = (struct network){.home = present_space()};
    assert(count >= 1 && count <= NETWORK_PLACES_MAX);
    bool good = network->home != -1;
    for (size_t i = 0; good && i < count; i++) {
        network->count++;
        good = make_space(&network->place[i], i);
    }
    good = good && move_to(network->place[0].space) &&
           shell("ip link add switch type bridge; ip addr add %s/16 dev switch; ip link set switch up",
                 network->place[0].address);
    for (size_t i = 1; good && i < count; i++)
        good = lay_cable(network, i);
    return network_leave(network) && good;
}

void network_close(struct network *network)
{
    if (network->count == 0)
        return;
    network_leave(network);
    for (size_t i = 0; i < network->count; i++) {
        if (network->place[i].space != -1)
            close(network->place[i].space);
    }
    close(network->home);
    *network = (struct network){.count = 0};
}

bool network_enter(const struct network *network, size_t place)
{
    return move_to(network->place[place].space);
}

bool network_leave(const struct network *network)
{
    return move_to(network->home);
}

static bool set_port(const struct network *network, size_t place, const char *state)
{
    bool good = network_enter(network, 0) && shell("ip link set port%u %s", (unsigned)place, state);
    return network_leave(network) && good;
}

bool network_cut(const struct network *network, size_t place)
{
    return set_port(network, place, "down");
}

bool network_mend(const struct network *network, size_t place)
{
    return set_port(network, place, "up");
}
