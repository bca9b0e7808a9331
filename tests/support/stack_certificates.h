/* SPDX-License-Identifier: MIT */
/*
 * stack_certificates.h - a private certificate authority and what it issues, made by the program openssl: P-256, PEM.
 *
 *     folder/ca.pem                       trust this
 *     folder/NAME.pem, folder/NAME.key    of stack_certificates_issue()
 *
 * The folder belongs to whom the servers run as and is gone when this program is. Threads and errors: as stack.h.
 */
#pragma once

#include "load/base/proc.h"

#include <stdbool.h>

enum { CERTIFICATES_PATH_BYTES = PROC_PATH_BYTES + 64 };

struct stack_certificates {
    char folder[PROC_PATH_BYTES];
    char ca[CERTIFICATES_PATH_BYTES];
};

bool stack_certificates_start(struct stack_certificates *certificates);
void stack_certificates_stop(struct stack_certificates *certificates);

/* For a server or a client, in place of one of the same name. `alt_names` as OpenSSL has it:
 * "DNS:cache-1,IP:127.0.0.1". It is good from so many days from now to so many. */
bool stack_certificates_issue(const struct stack_certificates *certificates, const char *name,
                              const char *alt_names, int from_days, int to_days);

/* Of the name: "NAME.pem" or "NAME.key" with the folder. Returns `path`. */
const char *stack_certificates_path(const struct stack_certificates *certificates, const char *file,
                                    char path[static CERTIFICATES_PATH_BYTES]);
