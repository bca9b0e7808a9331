/* SPDX-License-Identifier: MIT */
/* backlog.c - see herd.h. */
#include "load/herd/herd.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_BYTES = 8192, REPLY_BYTES = 32768, REPLIES_MAX = 256, SOMAXCONN_USUAL = 4096 };

/* ---- how often ---- */

/* Names and values are two lines of as many words. */
static bool read_overflows(uint64_t *out)
{
    char names[LINE_BYTES], values[LINE_BYTES], *name_rest = NULL, *value_rest = NULL;
    bool found = false;
    FILE *file = fopen("/proc/net/netstat", "re");
    while (file != NULL && !found && fgets(names, sizeof names, file) != NULL &&
           fgets(values, sizeof values, file) != NULL) {
        char *name = strtok_r(names, " \n", &name_rest), *value = strtok_r(values, " \n", &value_rest);
        for (; name != NULL && value != NULL && !found;
             name = strtok_r(NULL, " \n", &name_rest), value = strtok_r(NULL, " \n", &value_rest))
            found = strcmp(name, "ListenOverflows") == 0 && sscanf(value, "%" SCNu64, out) == 1;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* ---- how long ---- */

static bool is_here(const struct work_target *target, struct in_addr *address, uint16_t *port)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&target->address.storage;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&target->address.storage;
    address->s_addr = INADDR_ANY;
    *port = v4->sin_port; /* at the same place in both */
    if (v4->sin_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    *address = v4->sin_addr;
    return v4->sin_family == AF_INET && (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
}

static bool listens_there(const struct inet_diag_msg *message, struct in_addr address, uint16_t port)
{
    const uint32_t *source = message->id.idiag_src;
    bool is_any = source[0] == 0 && source[1] == 0 && source[2] == 0 &&
                  (source[3] == 0 || message->idiag_family == AF_INET6); /* ::1, too */
    return message->id.idiag_sport == port &&
           (is_any || (message->idiag_family == AF_INET && source[0] == address.s_addr));
}

/* The shortest counts, if several share a port. */
static void take_listener(const struct inet_diag_msg *message, const struct work *work, struct backlog *out)
{
    for (size_t i = 0; i < work->target_count; i++) {
        struct in_addr address;
        uint16_t port;
        bool is_shorter = out->places[i] == 0 || message->idiag_wqueue < out->places[i];
        if (is_here(&work->targets[i], &address, &port) && listens_there(message, address, port) &&
            is_shorter)
            out->places[i] = message->idiag_wqueue;
    }
}

/* True: that was all of them. */
static bool take_reply(const char *bytes, size_t count, const struct work *work, struct backlog *out)
{
    const struct nlmsghdr *head = (const void *)bytes;
    for (; NLMSG_OK(head, count); head = NLMSG_NEXT(head, count)) {
        if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
            return true;
        take_listener(NLMSG_DATA(head), work, out);
    }
    return false;
}

static void ask_kernel(uint8_t family, const struct work *work, struct backlog *out)
{
    static char bytes[REPLY_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
    const struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 request;
    } ask = {
        .head = {.nlmsg_len = sizeof ask,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .request = {.sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = 1U << TCP_LISTEN}};
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    bool is_over = fd == -1 || send(fd, &ask, sizeof ask, 0) != (ssize_t)sizeof ask;
    for (int i = 0; !is_over && i < REPLIES_MAX; i++) {
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        is_over = count <= 0 || take_reply(bytes, (size_t)count, work, out);
    }
    if (fd != -1)
        close(fd);
}

void backlog_look(const struct work *work, struct backlog *out)
{
    *out = (struct backlog){.overflows = 0};
    out->is_known = read_overflows(&out->overflows);
    ask_kernel(AF_INET, work, out);
    ask_kernel(AF_INET6, work, out);
}

/* ---- what it means ---- */

static uint64_t count_missing(const struct records *records)
{
    uint64_t count = 0;
    for (size_t i = 0; i < records->count; i++)
        count += records->at[i].outcome == RECORD_UNCONNECTED || records->at[i].outcome == RECORD_TIMEOUT ||
                 records->at[i].outcome == RECORD_UNSENT;
    return count;
}

static unsigned read_somaxconn(void)
{
    unsigned most = SOMAXCONN_USUAL;
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "re");
    if (file == NULL)
        return most;
    if (fscanf(file, "%u", &most) != 1)
        most = SOMAXCONN_USUAL;
    fclose(file);
    return most;
}

/* The shortest queue among the targets that were asked by more connections than it has places; -1: none. */
static int find_short(const struct backlog *backlog, const struct work *work)
{
    int found = -1;
    for (size_t i = 0; i < work->target_count; i++) {
        double asked = work->connection_count * work_target_share(work, i);
        bool is_short = backlog->places[i] > 0 && asked > backlog->places[i];
        if (is_short && (found == -1 || backlog->places[i] < backlog->places[found]))
            found = (int)i;
    }
    return found;
}

void backlog_judge(const struct backlog *before, const struct work *work, const struct records *records,
                   char text[static BACKLOG_TEXT_BYTES])
{
    char missing[96] = "";
    uint64_t now = 0, count = count_missing(records);
    int target = find_short(before, work);
    text[0] = '\0';
    if (target == -1 || !before->is_known || !read_overflows(&now) || now <= before->overflows)
        return;
    if (count > 0)
        snprintf(missing, sizeof missing, ", and %" PRIu64 " request%s no connection or no answer in time",
                 count, count == 1 ? " had" : "s had");
    snprintf(text, BACKLOG_TEXT_BYTES,
             "the listen queue of %.60s has %u place%s: it overflowed %" PRIu64
             " time%s%s. A connection that finds it full is tried again after 1 s and more; give listen() "
             "more places (net.core.somaxconn allows %u)",
             work->targets[target].name, (unsigned)before->places[target],
             before->places[target] == 1 ? "" : "s", now - before->overflows,
             now - before->overflows == 1 ? "" : "s", missing, read_somaxconn());
}
