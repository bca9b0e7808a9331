/* SPDX-License-Identifier: MIT */
/* notify.c - see notify.h. */
#include "app/base/notify.h"

#include "app/base/clock.h"

#include <inttypes.h>
#include <systemd/sd-daemon.h>

enum { STOP_SPARE_MS = 30000 }; /* beyond the drain: loaders that ignore their end, leases, the outbox */

void notify_ready(const char *address)
{
    sd_notifyf(0, "READY=1\nSTATUS=Serving on %s", address);
}

void notify_reloading(void)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64 "\nSTATUS=Reading its files again",
               clock_ms() * 1000);
}

void notify_stopping(uint32_t drain_ms)
{
    const uint64_t limit_us = ((uint64_t)drain_ms + STOP_SPARE_MS) * 1000;

    sd_notifyf(0,
               "STOPPING=1\nSTATUS=Answering what has been asked\nEXTEND_TIMEOUT_USEC=%" PRIu64
               "\nWATCHDOG_USEC=%" PRIu64,
               limit_us, limit_us);
}

uint32_t notify_alive_every_ms(void)
{
    uint64_t limit_us = 0;

    if (sd_watchdog_enabled(0, &limit_us) <= 0)
        return 0;
    const uint64_t half_ms = limit_us / 2000;
    return half_ms == 0 ? 1 : half_ms < UINT32_MAX ? (uint32_t)half_ms : UINT32_MAX;
}

void notify_alive(void)
{
    sd_notify(0, "WATCHDOG=1");
}
