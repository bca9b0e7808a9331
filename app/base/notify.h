/* SPDX-License-Identifier: MIT */
/*
 * notify.h - what the service manager is told (systemd's protocol, sd_notify(3)). Where none asks, nothing happens.
 *
 *     start ... notify_ready() ... notify_reloading(), notify_ready() ... notify_stopping() ... exit
 *
 * Threads: one, the main thread; it alone confirms that the service is alive, and only while /healthz would say so.
 */
#ifndef APP_NOTIFY_H
#define APP_NOTIFY_H

#include <stdint.h>

/* READY=1 and a line for `systemctl status`; also after a reload. */
void notify_ready(const char *address);
void notify_reloading(void);
/* Also asks for as much time as the drain may take, whatever TimeoutStopSec and WatchdogSec say. */
void notify_stopping(uint32_t drain_ms);

/* How often notify_alive() is expected; 0: never. */
uint32_t notify_alive_every_ms(void);
void notify_alive(void);

#endif
