/* SPDX-License-Identifier: MIT */
/* tls.c - see tls.h. */
#include "load/herd/tls.h"

#include "load/base/clock.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHECK_LIMIT_MS = 5000 };

static bool speaks_tls(const struct work *work)
{
    for (size_t i = 0; i < work->target_count; i++) {
        if (work->targets[i].is_tls)
            return true;
    }
    return false;
}

bool tls_open(const struct work *work, struct ssl_ctx_st **out, char why[static WORK_WHY_BYTES])
{
    static const unsigned char http[] = "\x08http/1.1";
    *out = NULL;
    if (!speaks_tls(work))
        return true;
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    bool has_own = work->ca_file != NULL && work->ca_file[0] != '\0';
    bool good = tls != NULL && SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) == 1 &&
                SSL_CTX_set_alpn_protos(tls, http, sizeof http - 1) == 0;
    if (!good)
        snprintf(why, WORK_WHY_BYTES, "TLS: OpenSSL has no memory");
    else if (has_own ? SSL_CTX_load_verify_file(tls, work->ca_file) != 1
                     : SSL_CTX_set_default_verify_paths(tls) != 1) {
        good = false;
        bool is_read = !has_own || access(work->ca_file, R_OK) == 0;
        const char *reason = is_read ? ERR_reason_error_string(ERR_peek_last_error()) : strerror(errno);
        snprintf(why, WORK_WHY_BYTES, "cacert %.150s: %s", has_own ? work->ca_file : "of the system",
                 reason != NULL ? reason : "it has no certificate");
    }
    if (good)
        SSL_CTX_set_verify(tls, work->is_insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    ERR_clear_error();
    *out = good ? tls : NULL;
    if (!good)
        SSL_CTX_free(tls);
    return good;
}

void tls_close(struct ssl_ctx_st **tls)
{
    SSL_CTX_free(*tls);
    *tls = NULL;
}

/* "shop.example:443", "[::1]:443" */
static void host_of(const struct work_target *target, char host[static sizeof target->name])
{
    bool is_v6 = target->name[0] == '[';
    size_t bytes = is_v6 ? strcspn(target->name, "]") - 1 : strcspn(target->name, ":");
    snprintf(host, sizeof target->name, "%.*s", (int)bytes, target->name + is_v6);
}

struct ssl_st *tls_begin(struct ssl_ctx_st *tls, const struct work_target *target, int fd)
{
    char host[sizeof target->name];
    SSL *connection = SSL_new(tls);
    host_of(target, host);
    bool good = connection != NULL && SSL_set_fd(connection, fd) == 1;
    bool is_address = good && X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host) == 1;
    if (good && !is_address) /* an address is no name to ask for */
        good = SSL_set_tlsext_host_name(connection, host) == 1 && SSL_set1_host(connection, host) == 1;
    if (!good)
        tls_end(&connection);
    return connection;
}

void tls_end(struct ssl_st **connection)
{
    SSL_free(*connection);
    *connection = NULL;
}

enum tls_step tls_shake(struct ssl_st *connection)
{
    ERR_clear_error();
    int done = SSL_connect(connection);
    int error = done == 1 ? SSL_ERROR_NONE : SSL_get_error(connection, done);
    return error == SSL_ERROR_NONE         ? TLS_DONE
           : error == SSL_ERROR_WANT_READ  ? TLS_READS
           : error == SSL_ERROR_WANT_WRITE ? TLS_WRITES
                                           : TLS_FAILED;
}

/* As errno has it. */
static ssize_t fail(struct ssl_st *connection, int done)
{
    int error = SSL_get_error(connection, done);
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        errno = EAGAIN;
    else if (error != SSL_ERROR_SYSCALL || errno == 0)
        errno = ECONNRESET;
    return -1;
}

ssize_t tls_receive(struct ssl_st *connection, int fd, char *bytes, size_t room)
{
    if (connection == NULL)
        return recv(fd, bytes, room, MSG_DONTWAIT);
    ERR_clear_error();
    errno = 0;
    int done = SSL_read(connection, bytes, (int)room);
    return done > 0 ? done : fail(connection, done);
}

ssize_t tls_send(struct ssl_st *connection, int fd, const char *bytes, size_t count)
{
    if (connection == NULL)
        return send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    ERR_clear_error();
    errno = 0;
    int done = SSL_write(connection, bytes, (int)count);
    return done > 0 ? done : fail(connection, done);
}

bool tls_has_more(const struct ssl_st *connection)
{
    return connection != NULL && SSL_pending(connection) > 0;
}

/* ---- before the run ---- */

static bool refuse(const struct work_target *target, SSL *connection, enum tls_step step, char *why)
{
    long verified = SSL_get_verify_result(connection);
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    if (step != TLS_FAILED)
        snprintf(why, WORK_WHY_BYTES, "target https://%.80s: no TLS within %d s: is that a port for http://?",
                 target->name, CHECK_LIMIT_MS / 1000);
    else if (verified != X509_V_OK)
        snprintf(
            why, WORK_WHY_BYTES,
            "target https://%.70s: its certificate is not trusted: %.60s; name its authority with --cacert "
            "FILE, or do without with --insecure",
            target->name, X509_verify_cert_error_string(verified));
    else
        snprintf(why, WORK_WHY_BYTES, "target https://%.80s: no TLS (%.60s): is that a port for http://?",
                 target->name, reason != NULL ? reason : "the connection ended");
    return false;
}

static bool check_connection(const struct work_target *target, SSL *connection, int fd, char *why)
{
    uint64_t end_us = clock_after_ms(CHECK_LIMIT_MS);
    enum tls_step step = tls_shake(connection);
    while ((step == TLS_READS || step == TLS_WRITES) &&
           net_wait(fd, step == TLS_READS ? POLLIN : POLLOUT, end_us))
        step = tls_shake(connection);
    return step == TLS_DONE || refuse(target, connection, step, why);
}

static bool check_target(struct ssl_ctx_st *tls, const struct work_target *target, char *why)
{
    int fd = net_connect_start(&target->address);
    bool is_there =
        fd != -1 && net_wait(fd, POLLOUT, clock_after_ms(CHECK_LIMIT_MS)) && net_connect_error(fd) == 0;
    SSL *connection = is_there ? tls_begin(tls, target, fd) : NULL;
    bool good = !is_there || (connection != NULL && check_connection(target, connection, fd, why));
    if (is_there && connection == NULL)
        snprintf(why, WORK_WHY_BYTES, "TLS: OpenSSL has no memory");
    tls_end(&connection);
    net_shut(&fd);
    return good;
}

bool tls_check(const struct work *work, char why[static WORK_WHY_BYTES])
{
    struct ssl_ctx_st *tls;
    bool good = tls_open(work, &tls, why);
    for (size_t i = 0; good && i < work->target_count; i++)
        good = !work->targets[i].is_tls || check_target(tls, &work->targets[i], why);
    tls_close(&tls);
    return good;
}
