/* SPDX-License-Identifier: MIT */
/* fleet.c - see fleet.h. */
#include "load/lab/fleet.h"

#include "load/base/clock.h"
#include "load/base/net.h"
#include "load/lab/note.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { END_LIMIT_MS = 2000, NUMBER_BYTES = 16 };

/* ---- notes ---- */

static void keep(struct fleet *fleet, uint32_t worker, const struct note *note)
{
    if (fleet->note_count == FLEET_NOTES_MAX) {
        fprintf(stderr, "lab: a trial with more than %d notes\n", (int)FLEET_NOTES_MAX);
        fleet->is_broken = true;
        return;
    }
    fleet->notes[fleet->note_count++] = (struct fleet_note){.worker = worker, .note = *note};
}

static bool matches(const struct fleet_note *entry, enum note_kind kind, uint32_t worker)
{
    return entry->note.kind == kind && (worker == FLEET_ANYBODY || entry->worker == worker);
}

uint32_t fleet_count(const struct fleet *fleet, enum note_kind kind, uint32_t worker)
{
    uint32_t count = 0;
    for (size_t i = 0; i < fleet->note_count; i++)
        count += matches(&fleet->notes[i], kind, worker);
    return count;
}

const struct fleet_note *fleet_first(const struct fleet *fleet, enum note_kind kind, uint32_t worker,
                                     uint64_t after_us)
{
    for (size_t i = 0; i < fleet->note_count; i++) {
        if (matches(&fleet->notes[i], kind, worker) && fleet->notes[i].note.at_us >= after_us)
            return &fleet->notes[i];
    }
    return NULL;
}

static const struct fleet_note *fleet_last(const struct fleet *fleet, enum note_kind kind, uint32_t worker)
{
    for (size_t i = fleet->note_count; i > 0; i--) {
        if (matches(&fleet->notes[i - 1], kind, worker))
            return &fleet->notes[i - 1];
    }
    return NULL;
}

uint32_t fleet_worker_at(const struct fleet *fleet, uint16_t port)
{
    for (size_t i = 0; i < fleet->note_count; i++) {
        if (fleet->notes[i].note.kind == NOTE_ADDRESS && fleet->notes[i].note.value == (int32_t)port)
            return fleet->notes[i].worker;
    }
    return FLEET_ANYBODY;
}

/* ---- holds ---- */

static bool ends_hold(const struct fleet_note *entry, uint32_t worker)
{
    const enum note_kind kind = entry->note.kind;
    return entry->worker == worker && (kind == NOTE_RELEASED || kind == NOTE_LOST || kind == NOTE_KILLED);
}

static struct fleet_hold hold_of(const struct fleet *fleet, size_t index)
{
    const struct fleet_note *held = &fleet->notes[index];
    struct fleet_hold hold = {.from_us = held->note.at_us,
                              .until_us = UINT64_MAX,
                              .worker = held->worker,
                              .units = (uint32_t)held->note.value};
    for (size_t i = index + 1; i < fleet->note_count && hold.until_us == UINT64_MAX; i++) {
        if (!ends_hold(&fleet->notes[i], held->worker))
            continue;
        hold.until_us = fleet->notes[i].note.at_us;
        hold.is_released = fleet->notes[i].note.kind == NOTE_RELEASED;
    }
    return hold;
}

static int by_from(const void *one, const void *other)
{
    const struct fleet_hold *a = one, *b = other;
    return (a->from_us > b->from_us) - (a->from_us < b->from_us);
}

size_t fleet_holds(const struct fleet *fleet, struct fleet_hold holds[static FLEET_NOTES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < fleet->note_count; i++) {
        if (fleet->notes[i].note.kind == NOTE_HELD)
            holds[count++] = hold_of(fleet, i);
    }
    qsort(holds, count, sizeof *holds, by_from);
    return count;
}

/* It can only grow when another one begins. */
struct fleet_peak fleet_peak(const struct fleet *fleet, uint32_t limit)
{
    static struct fleet_hold holds[FLEET_NOTES_MAX];
    const size_t count = fleet_holds(fleet, holds);
    struct fleet_peak peak = {.holders = 0};
    for (size_t i = 0; i < count; i++) {
        uint32_t holders = 0;
        uint64_t units = 0;
        for (size_t j = 0; j < count && holds[j].from_us <= holds[i].from_us; j++) {
            const bool is_there = holds[j].until_us > holds[i].from_us;
            holders += is_there;
            units += is_there ? holds[j].units : 0;
        }
        peak.holders = holders > peak.holders ? holders : peak.holders;
        peak.is_over = peak.is_over || units > limit;
    }
    return peak;
}

/* ---- reading ---- */

static void take_note(struct fleet *fleet, uint32_t index)
{
    struct note note;
    if (note_receive(fleet->workers[index].fd, &note)) {
        keep(fleet, index, &note);
        return;
    }
    net_shut(&fleet->workers[index].fd);
    if (fleet->workers[index].pid == 0)
        return; /* we killed it */
    fprintf(stderr, "lab: worker %" PRIu32 " ended by itself; the workers' log ends:\n", index);
    proc_show_tail(fleet->log_path);
    fleet->is_broken = true;
}

/* Reads what there is, waiting for the first of it until end_us. */
static void read_notes(struct fleet *fleet, uint64_t end_us)
{
    struct pollfd polled[FLEET_WORKERS_MAX];
    const uint64_t now_us = clock_us();
    const int left_ms = now_us >= end_us ? 0 : (int)((end_us - now_us + 999) / 1000);
    for (uint32_t i = 0; i < fleet->worker_count; i++)
        polled[i] = (struct pollfd){.fd = fleet->workers[i].fd, .events = POLLIN};
    if (poll(polled, fleet->worker_count, left_ms) <= 0)
        return;
    for (uint32_t i = 0; i < fleet->worker_count; i++) {
        if (polled[i].revents != 0)
            take_note(fleet, i);
    }
}

bool fleet_await(struct fleet *fleet, enum note_kind kind, uint32_t worker, uint32_t wanted,
                 uint32_t limit_ms)
{
    const uint64_t end_us = clock_after_ms(limit_ms);
    while (!fleet->is_broken && fleet_count(fleet, kind, worker) < wanted) {
        const bool is_over = clock_us() >= end_us;
        read_notes(fleet, end_us);
        if (is_over)
            break;
    }
    return !fleet->is_broken && fleet_count(fleet, kind, worker) >= wanted;
}

/* ---- starting and ending ---- */

/* The worker's end of a socket becomes its WORKER_LINK, the other one is ours. */
static bool launch(struct fleet_worker *worker, const char *const *argv, const char *log_path)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == -1) {
        perror("lab: socketpair");
        return false;
    }
    const pid_t pid = proc_start(&(struct proc_options){
        .argv = argv, .output_path = log_path, .descriptors = &ends[1], .descriptor_count = 1});
    close(ends[1]);
    *worker = (struct fleet_worker){.pid = pid > 0 ? pid : 0, .fd = ends[0]};
    return pid > 0;
}

static bool launch_all(struct fleet *fleet, const struct fleet_options *options)
{
    char port[NUMBER_BYTES], index[NUMBER_BYTES], lease[NUMBER_BYTES];
    const char *argv[WORKER_ARGUMENTS + 1] = {"/proc/self/exe",
                                              "worker",
                                              index,
                                              options->scheme->name,
                                              options->key,
                                              port,
                                              options->postgres_url,
                                              lease,
                                              NULL,
                                              NULL};
    snprintf(port, sizeof port, "%u", (unsigned)options->redis_port);
    snprintf(lease, sizeof lease, "%" PRIu32, options->lease_s);
    for (uint32_t i = 0; i < options->worker_count; i++) {
        snprintf(index, sizeof index, "%" PRIu32, i);
        argv[WORKER_ARGUMENTS - 1] = options->lock_urls != NULL ? options->lock_urls[i] : "";
        fleet->worker_count = i + 1;
        if (!launch(&fleet->workers[i], argv, fleet->log_path))
            return false;
    }
    return true;
}

bool fleet_start(struct fleet *fleet, const struct fleet_options *options)
{
    *fleet = (struct fleet){.worker_count = 0};
    for (size_t i = 0; i < FLEET_WORKERS_MAX; i++)
        fleet->workers[i].fd = -1;
    snprintf(fleet->log_path, sizeof fleet->log_path, "%s/log", options->folder);
    if (!launch_all(fleet, options))
        return false;
    if (fleet_await(fleet, NOTE_READY, FLEET_ANYBODY, options->worker_count, FLEET_START_LIMIT_MS))
        return true;
    if (!fleet->is_broken) {
        fprintf(stderr, "lab: not all workers came up; their log ends:\n");
        proc_show_tail(fleet->log_path);
    }
    return false;
}

void fleet_stop(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->worker_count; i++)
        net_shut(&fleet->workers[i].fd);
    const uint64_t end_us = clock_after_ms(END_LIMIT_MS);
    for (uint32_t i = 0; i < fleet->worker_count; i++) {
        pid_t *pid = &fleet->workers[i].pid;
        const uint64_t now_us = clock_us();
        if (*pid > 0 && !proc_wait(*pid, now_us < end_us ? (uint32_t)((end_us - now_us) / 1000) : 0, NULL))
            proc_stop(pid, SIGKILL, END_LIMIT_MS);
        *pid = 0;
    }
    fleet->worker_count = 0;
}

/* ---- orders ---- */

static bool send_order(struct fleet *fleet, uint32_t worker, const struct order *what)
{
    if (fleet->is_broken || !order_send(fleet->workers[worker].fd, what)) {
        fleet->is_broken = true;
        return false;
    }
    return true;
}

bool fleet_ask_for(struct fleet *fleet, uint32_t worker, const struct order *order)
{
    const uint32_t asked = fleet_count(fleet, NOTE_ASKED, worker);
    return send_order(fleet, worker, order) &&
           fleet_await(fleet, NOTE_ASKED, worker, asked + 1, FLEET_ORDER_LIMIT_MS);
}

bool fleet_ask(struct fleet *fleet, uint32_t worker, enum lab_step stop_at)
{
    const struct order order = {.kind = ORDER_ASK, .stop_at = (int32_t)stop_at};
    return fleet_ask_for(fleet, worker, &order);
}

bool fleet_ask_from(struct fleet *fleet, uint32_t first, uint32_t pause_ms)
{
    const uint32_t asked = fleet_count(fleet, NOTE_ASKED, FLEET_ANYBODY);
    const struct order order = {.kind = ORDER_ASK};
    for (uint32_t i = first; i < fleet->worker_count; i++) {
        if (!send_order(fleet, i, &order))
            return false;
        if (pause_ms > 0)
            clock_pause_ms(pause_ms);
    }
    return fleet_await(fleet, NOTE_ASKED, FLEET_ANYBODY, asked + fleet->worker_count - first,
                       FLEET_ORDER_LIMIT_MS);
}

bool fleet_stop_at(struct fleet *fleet, uint32_t worker, enum lab_step step, bool *reached)
{
    const uint64_t end_us = clock_after_ms(FLEET_ORDER_LIMIT_MS);
    const uint32_t answered = fleet_count(fleet, NOTE_ANSWERED, worker);
    *reached = false;
    if (!send_order(fleet, worker, &(struct order){.kind = ORDER_ASK, .stop_at = (int32_t)step}))
        return false;
    while (!fleet->is_broken && clock_us() < end_us &&
           fleet_count(fleet, NOTE_ANSWERED, worker) == answered) {
        if (fleet_count(fleet, NOTE_STOPPED, worker) > 0) {
            *reached = true; /* the note comes a moment before the signal */
            return proc_wait_stopped(fleet->workers[worker].pid);
        }
        read_notes(fleet, end_us);
    }
    return false;
}

bool fleet_invalidate(struct fleet *fleet, uint32_t worker)
{
    const uint32_t done = fleet_count(fleet, NOTE_INVALIDATED, worker);
    if (!send_order(fleet, worker, &(struct order){.kind = ORDER_INVALIDATE}) ||
        !fleet_await(fleet, NOTE_INVALIDATED, worker, done + 1, FLEET_ORDER_LIMIT_MS))
        return false;
    if (fleet_last(fleet, NOTE_INVALIDATED, worker)->note.value == 1)
        return true;
    fprintf(stderr, "lab: the invalidation was not confirmed\n");
    return false;
}

void fleet_pause(struct fleet *fleet, uint32_t worker)
{
    proc_pause(fleet->workers[worker].pid);
}

void fleet_resume(struct fleet *fleet, uint32_t worker)
{
    proc_resume(fleet->workers[worker].pid);
}

uint64_t fleet_kill(struct fleet *fleet, uint32_t worker)
{
    const uint64_t now_us = clock_us();
    const pid_t pid = fleet->workers[worker].pid;
    fleet->workers[worker].pid = 0;
    kill(pid, SIGKILL);
    proc_wait(pid, END_LIMIT_MS, NULL);
    keep(fleet, worker, &(struct note){.kind = NOTE_KILLED, .at_us = now_us});
    return now_us;
}
