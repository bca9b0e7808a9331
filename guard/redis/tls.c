/* SPDX-License-Identifier: MIT */
/*
 * redis/tls.c - TLS by OpenSSL 1.1.1 or later; see redis/tls.h.
 *
 * Errors    Every call into OpenSSL that may fail stands between errors_begin() and errors_end(): OpenSSL's queue is the
 *           thread's, so that what the host has left there is kept apart and kept.
 * Writing   OpenSSL wants a write that the socket had no room for to be repeated with the same bytes, and their owner
 *           may take them back meanwhile. So such a piece is copied and counts as written.
 * Locking   `mutex` guards what is below it in struct redis_tls. A session is touched by one thread only; OpenSSL hands a
 *           ticket over while its session reads.
 */
#include "tls.h"
#include "../base/clock.h"
#include "../base/resolve.h"
#include <stdio.h>
#include <string.h>

#ifndef GUARD_WITH_TLS

bool redis_tls_is_built_in(void)
{
    return false;
}

struct redis_tls *redis_tls_open(const struct redis_tls_settings *settings, struct guard_error *error)
{
    (void)settings;
    if (error == NULL)
        return NULL;
    error->status = GUARD_INVALID;
    snprintf(error->text, sizeof error->text,
             "redis_url: rediss:// (TLS) is not built in: install OpenSSL's headers (Debian: libssl-dev) and "
             "build again");
    return NULL;
}

/* There are no sessions: nothing below is ever called with one. */
void redis_tls_close(struct redis_tls **tls)
{
    *tls = NULL;
}

struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, int fd, const struct redis_tls_peer *peer,
                                          char why[REDIS_WHY_SIZE])
{
    (void)tls, (void)fd, (void)peer;
    why[0] = '\0';
    return NULL;
}

void redis_tls_end(struct redis_tls_session **session)
{
    *session = NULL;
}

int redis_tls_shake_hands(struct redis_tls_session *session)
{
    (void)session;
    return -1;
}

ssize_t redis_tls_read(struct redis_tls_session *session, void *data, size_t size)
{
    (void)session, (void)data, (void)size;
    return -1;
}

ssize_t redis_tls_write(struct redis_tls_session *session, const void *data, size_t bytes)
{
    (void)session, (void)data, (void)bytes;
    return -1;
}

bool redis_tls_flush(struct redis_tls_session *session)
{
    return session == NULL;
}

bool redis_tls_awaits_room(const struct redis_tls_session *session)
{
    return session != NULL;
}

bool redis_tls_write_awaits_data(const struct redis_tls_session *session)
{
    return session != NULL;
}

bool redis_tls_has_more(const struct redis_tls_session *session)
{
    return session != NULL;
}

bool redis_tls_is_drained(const struct redis_tls_session *session)
{
    return session == NULL;
}

const char *redis_tls_why(const struct redis_tls_session *session)
{
    (void)session;
    return "";
}

const char *redis_tls_remark(const struct redis_tls_session *session)
{
    (void)session;
    return "";
}

bool redis_tls_was_resumed(const struct redis_tls_session *session)
{
    return session != NULL;
}

#else

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum {
    RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH, /* of one write into OpenSSL */
    SERVERS_MAX = 64,                        /* whose tickets are kept */
    TICKETS_EACH = 2,
    LOOK_EVERY_US = 1000000, /* at the files */
    WATCHED_FILES = 3,
    HOST_SHOWN = 80, /* bytes of a text; as many as leave room for the rest */
    NAMES_SHOWN = 110,
    SHOWN_SIZE = 128,
};

static const char no_certificate[] =
    "TLS: the server asks for a client certificate; set ssl_certfile and ssl_keyfile";

/* A file as it was when it was read; all zeros: none. */
struct tls_stamp {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed;
};

struct tls_server {
    struct sockaddr_storage address;
    char name[REDIS_TLS_NAME_SIZE];
    SSL_SESSION *tickets[TICKETS_EACH]; /* owned; the newest first; NULL: none */
    uint64_t used;                      /* 0: never */
};

struct redis_tls {
    struct redis_tls_settings settings;
    BIO_METHOD *method; /* owned */

    pthread_mutex_t mutex;
    SSL_CTX *context; /* owned; sessions keep their own reference */
    struct tls_stamp stamps[WATCHED_FILES];
    uint64_t looked_us;
    char remark[REDIS_WHY_SIZE];
    struct tls_server servers[SERVERS_MAX];
    uint64_t uses;
};

struct redis_tls_session {
    struct redis_tls *tls;
    SSL *ssl; /* owned */
    BIO *bio; /* its own */
    int fd;
    struct sockaddr_storage address; /* with the name: where its tickets belong */
    char name[REDIS_TLS_NAME_SIZE];
    bool heard, foreign; /* something has come; what came first was not TLS */
    bool drained;        /* the last recv() left nothing */
    bool ended;
    int error; /* errno of the socket */
    bool read_awaits_room, write_awaits_data;
    int broken; /* what a write of `held` failed with, below 0 */
    char *held; /* owned; a piece that counts as written; NULL: none */
    size_t held_bytes;
    bool certificate_asked; /* and we have none */
    char why[REDIS_WHY_SIZE];
    char remark[REDIS_WHY_SIZE];
};

bool redis_tls_is_built_in(void)
{
    return true;
}

/* ---- OpenSSL's queue of errors ---- */

/* A mark; and, if the host has left something, an entry of our own, so that its last error cannot pass for ours. */
static void errors_begin(void)
{
    ERR_set_mark();
    if (ERR_peek_last_error() != 0)
        ERR_put_error(ERR_LIB_USER, 0, ERR_R_PASSED_NULL_PARAMETER, __FILE__, __LINE__);
}

/* The last error since; 0: none. */
static unsigned long errors_end(void)
{
    unsigned long error = ERR_peek_last_error();

    ERR_pop_to_mark();
    return ERR_GET_LIB(error) == ERR_LIB_USER ? 0 : error;
}

static const char *error_text(unsigned long error)
{
    const char *text = error != 0 ? ERR_reason_error_string(error) : NULL;

    return text != NULL ? text : "OpenSSL says no more";
}

/* ---- the socket, as OpenSSL sees it ---- */

static int bio_recv(BIO *bio, char *data, int size)
{
    struct redis_tls_session *session = BIO_get_data(bio);
    ssize_t got;

    BIO_clear_retry_flags(bio);
    do
        got = recv(session->fd, data, (size_t)size, 0);
    while (got < 0 && errno == EINTR);
    session->drained = got < size;
    session->ended = got == 0;
    if (got < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    else if (got < 0)
        session->error = errno;
    if (got <= 0)
        return (int)got;
    if (!session->heard)
        session->foreign = data[0] < SSL3_RT_CHANGE_CIPHER_SPEC || data[0] > SSL3_RT_APPLICATION_DATA;
    session->heard = true;
    return session->foreign ? -1 : (int)got;
}

static int bio_send(BIO *bio, const char *data, int bytes)
{
    struct redis_tls_session *session = BIO_get_data(bio);
    ssize_t put;

    BIO_clear_retry_flags(bio);
    do
        put = send(session->fd, data, (size_t)bytes, MSG_NOSIGNAL);
    while (put < 0 && errno == EINTR);
    if (put < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    else if (put < 0)
        session->error = errno;
    return (int)put;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    struct redis_tls_session *session = BIO_get_data(bio);

    (void)number, (void)pointer;
    if (command == BIO_CTRL_FLUSH)
        return 1;
    return command == BIO_CTRL_EOF && session->ended;
}

static BIO_METHOD *new_bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stampede-guard");

    if (method == NULL)
        return NULL;
    BIO_meth_set_read(method, bio_recv);
    BIO_meth_set_write(method, bio_send);
    BIO_meth_set_ctrl(method, bio_control);
    return method;
}

/* ---- the files ---- */

static bool tls_refuse(char why[REDIS_WHY_SIZE], const char *what, const char *reason)
{
    snprintf(why, REDIS_WHY_SIZE, "%s: %s", what, reason);
    return false;
}

static bool is_readable(const char *path, const char *what, char why[REDIS_WHY_SIZE])
{
    FILE *file = fopen(path, "re");

    if (file == NULL)
        redis_explain_errno(what, errno, why);
    else
        fclose(file);
    return file != NULL;
}

static bool load_trusted(SSL_CTX *context, const struct redis_tls_settings *settings,
                         char why[REDIS_WHY_SIZE])
{
    const char *path = settings->ca;
    struct stat found;

    if (path[0] == '\0')
        return SSL_CTX_set_default_verify_paths(context) == 1 ||
               tls_refuse(why, "ssl_ca_certs", "the system has none");
    if (!is_readable(path, "ssl_ca_certs", why))
        return false;
    bool is_folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    return SSL_CTX_load_verify_locations(context, is_folder ? NULL : path, is_folder ? path : NULL) == 1 ||
           tls_refuse(why, "ssl_ca_certs", "it has no certificate in PEM");
}

/* In place of a question at the terminal. */
static int refuse_passphrase(char *out, int size, int writing, void *asked)
{
    (void)out, (void)size, (void)writing;
    *(bool *)asked = true;
    return -1;
}

static bool load_key(SSL_CTX *context, const struct redis_tls_settings *settings, char why[REDIS_WHY_SIZE])
{
    bool asked = false;

    if (!is_readable(settings->key, "ssl_keyfile", why))
        return false;
    SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
    bool good = SSL_CTX_use_PrivateKey_file(context, settings->key, SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (asked)
        return tls_refuse(why, "ssl_keyfile",
                          "it is encrypted; give a key without a passphrase (openssl pkey writes one)");
    if (!good && ERR_GET_REASON(ERR_peek_last_error()) != X509_R_KEY_VALUES_MISMATCH)
        return tls_refuse(why, "ssl_keyfile", "it has no key in PEM");
    return good || tls_refuse(why, "ssl_keyfile",
                              "the key is not that of the certificate in ssl_certfile (key values mismatch)");
}

static bool load_own(SSL_CTX *context, const struct redis_tls_settings *settings, char why[REDIS_WHY_SIZE])
{
    if (settings->cert[0] == '\0' && settings->key[0] == '\0')
        return true;
    if (settings->cert[0] == '\0' || settings->key[0] == '\0')
        return tls_refuse(why, settings->cert[0] == '\0' ? "ssl_keyfile" : "ssl_certfile",
                          "ssl_certfile and ssl_keyfile go together: give both or neither");
    if (!is_readable(settings->cert, "ssl_certfile", why))
        return false;
    if (SSL_CTX_use_certificate_chain_file(context, settings->cert) != 1)
        return tls_refuse(why, "ssl_certfile", "it has no certificate in PEM");
    return load_key(context, settings, why);
}

static int on_ticket(SSL *ssl, SSL_SESSION *ticket);
static int on_certificate_asked(SSL *ssl, X509 **certificate, EVP_PKEY **key);

static void set_rules(SSL_CTX *context)
{
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, on_ticket);
    SSL_CTX_set_client_cert_cb(context, on_certificate_asked);
}

/* NULL: *why says why, without "TLS: ". */
static SSL_CTX *new_context(const struct redis_tls_settings *settings, char why[REDIS_WHY_SIZE])
{
    SSL_CTX *context = NULL;

    errors_begin();
    snprintf(why, REDIS_WHY_SIZE, "out of memory");
    context = SSL_CTX_new(TLS_client_method());
    if (context != NULL) {
        set_rules(context);
        if (!load_trusted(context, settings, why) || !load_own(context, settings, why)) {
            SSL_CTX_free(context);
            context = NULL;
        }
    }
    errors_end();
    return context;
}

/* ---- their changes ---- */

static struct tls_stamp stamp_of(const char *path)
{
    struct stat found;

    if (path[0] == '\0' || stat(path, &found) != 0)
        return (struct tls_stamp){.bytes = 0};
    return (struct tls_stamp){found.st_dev, found.st_ino, found.st_size, found.st_mtim};
}

static bool is_same_stamp(const struct tls_stamp *a, const struct tls_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Before they are read: what changes meanwhile is read once more. */
static bool note_stamps(struct redis_tls *tls)
{
    const char *paths[WATCHED_FILES] = {tls->settings.ca, tls->settings.cert, tls->settings.key};
    bool changed = false;

    for (size_t i = 0; i < WATCHED_FILES; i++) {
        struct tls_stamp stamp = stamp_of(paths[i]);
        changed = changed || !is_same_stamp(&stamp, &tls->stamps[i]);
        tls->stamps[i] = stamp;
    }
    return changed;
}

static void drop_tickets(struct tls_server *server)
{
    for (size_t i = 0; i < TICKETS_EACH; i++) {
        SSL_SESSION_free(server->tickets[i]);
        server->tickets[i] = NULL;
    }
}

static void remark_rules(struct redis_tls *tls)
{
    tls->remark[0] = '\0';
    if (tls->settings.verify == REDIS_TLS_NONE)
        snprintf(tls->remark, sizeof tls->remark,
                 "TLS: the server's certificate is not verified (ssl_cert_reqs=none)");
}

/* A ticket speaks for what was verified with the files of its time. */
static void adopt(struct redis_tls *tls, SSL_CTX *context)
{
    SSL_CTX_free(tls->context);
    tls->context = context;
    for (size_t i = 0; i < SERVERS_MAX; i++)
        drop_tickets(&tls->servers[i]);
    remark_rules(tls);
}

static void look_at_files(struct redis_tls *tls)
{
    char why[REDIS_WHY_SIZE];
    uint64_t now_us = clock_now_us();

    if (now_us - tls->looked_us < LOOK_EVERY_US)
        return;
    tls->looked_us = now_us;
    if (!note_stamps(tls))
        return;
    SSL_CTX *context = new_context(&tls->settings, why);
    if (context != NULL)
        adopt(tls, context);
    else
        snprintf(tls->remark, sizeof tls->remark,
                 "TLS: the files have changed and are of no use (%.180s); what was read before stays", why);
}

/* ---- opening and closing ---- */

static struct redis_tls *tls_failed(struct redis_tls *tls, enum guard_status status, const char *why,
                                    struct guard_error *error)
{
    if (error != NULL) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "redis_url: %.240s", why);
    }
    redis_tls_close(&tls);
    return NULL;
}

struct redis_tls *redis_tls_open(const struct redis_tls_settings *settings, struct guard_error *error)
{
    char why[REDIS_WHY_SIZE] = "out of memory";
    struct redis_tls *tls = calloc(1, sizeof *tls);

    if (tls == NULL)
        return tls_failed(NULL, GUARD_NO_MEMORY, why, error);
    pthread_mutex_init(&tls->mutex, NULL);
    tls->settings = *settings;
    tls->method = new_bio_method();
    if (tls->method == NULL)
        return tls_failed(tls, GUARD_NO_MEMORY, why, error);
    note_stamps(tls);
    tls->looked_us = clock_now_us();
    tls->context = new_context(settings, why);
    if (tls->context == NULL)
        return tls_failed(tls, GUARD_INVALID, why, error);
    remark_rules(tls);
    return tls;
}

void redis_tls_close(struct redis_tls **tls)
{
    struct redis_tls *old = *tls;

    *tls = NULL;
    if (old == NULL)
        return;
    for (size_t i = 0; i < SERVERS_MAX; i++)
        drop_tickets(&old->servers[i]);
    SSL_CTX_free(old->context);
    BIO_meth_free(old->method);
    pthread_mutex_destroy(&old->mutex);
    free(old);
}

/* ---- tickets ---- */

/* The one of this address and name, or the one that was not used for the longest time. */
static struct tls_server *find_server(struct redis_tls *tls, const struct redis_tls_session *session)
{
    struct tls_server *oldest = &tls->servers[0];

    for (size_t i = 0; i < SERVERS_MAX; i++) {
        struct tls_server *server = &tls->servers[i];
        if (memcmp(&server->address, &session->address, sizeof server->address) == 0 &&
            strcmp(server->name, session->name) == 0)
            return server;
        if (server->used < oldest->used)
            oldest = server;
    }
    drop_tickets(oldest);
    oldest->address = session->address;
    memcpy(oldest->name, session->name, sizeof oldest->name);
    return oldest;
}

/* One of TLS 1.3 serves once; one of 1.2 again and again. NULL: there is none. */
static SSL_SESSION *take_ticket(struct redis_tls *tls, const struct redis_tls_session *session)
{
    struct tls_server *server = find_server(tls, session);
    SSL_SESSION *ticket = server->tickets[0];

    server->used = ++tls->uses;
    if (ticket == NULL)
        return NULL;
    if (SSL_SESSION_get_protocol_version(ticket) < TLS1_3_VERSION) {
        SSL_SESSION_up_ref(ticket);
        return ticket;
    }
    server->tickets[0] = server->tickets[1];
    server->tickets[1] = NULL;
    return ticket;
}

/* 1: it is kept. */
static int on_ticket(SSL *ssl, SSL_SESSION *ticket)
{
    struct redis_tls_session *session = SSL_get_app_data(ssl);
    struct redis_tls *tls = session->tls;
    int kept = 0;

    pthread_mutex_lock(&tls->mutex);
    if (SSL_get_SSL_CTX(ssl) == tls->context) {
        struct tls_server *server = find_server(tls, session);
        server->used = ++tls->uses;
        SSL_SESSION_free(server->tickets[1]);
        server->tickets[1] = server->tickets[0];
        server->tickets[0] = ticket;
        kept = 1;
    }
    pthread_mutex_unlock(&tls->mutex);
    return kept;
}

/* ---- what a certificate is refused for ---- */

/* As strlcat(), printable: what a server sends may be anything. */
static void append_printable(char out[SHOWN_SIZE], const char *text, size_t bytes)
{
    size_t length = strlen(out);

    for (size_t i = 0; i < bytes && length + 1 < NAMES_SHOWN; i++)
        out[length++] = text[i] > ' ' && text[i] <= '~' ? text[i] : '?';
    out[length] = '\0';
}

static void append_name(char out[SHOWN_SIZE], const GENERAL_NAME *name)
{
    char address[INET6_ADDRSTRLEN] = "";
    const ASN1_STRING *value = name->d.ia5;
    const char *separator = out[0] != '\0' ? "," : "";

    if (name->type == GEN_IPADD) {
        int family = ASN1_STRING_length(value) == 4 ? AF_INET : AF_INET6;
        if (ASN1_STRING_length(value) != 4 && ASN1_STRING_length(value) != 16)
            return;
        inet_ntop(family, ASN1_STRING_get0_data(value), address, sizeof address);
    } else if (name->type != GEN_DNS) {
        return;
    }
    append_printable(out, separator, strlen(separator));
    append_printable(out, address[0] != '\0' ? "IP:" : "DNS:", address[0] != '\0' ? 3 : 4);
    if (address[0] != '\0')
        append_printable(out, address, strlen(address));
    else
        append_printable(out, (const char *)ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value));
}

/* "DNS:cache-2,IP:10.0.0.1", or its common name if that is all it has. */
static void list_names(X509 *certificate, char out[SHOWN_SIZE])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    char common[NAMES_SHOWN] = "";

    out[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++)
        append_name(out, sk_GENERAL_NAME_value(names, i));
    GENERAL_NAMES_free(names);
    if (out[0] != '\0')
        return;
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, common, sizeof common);
    append_printable(out, "CN:", 3);
    append_printable(out, common, strlen(common));
}

static void show_time(const ASN1_TIME *time, char out[SHOWN_SIZE])
{
    struct tm tm;

    snprintf(out, SHOWN_SIZE, "a date that cannot be read");
    if (ASN1_TIME_to_tm(time, &tm) == 1)
        strftime(out, SHOWN_SIZE, "%Y-%m-%d %H:%M:%S UTC", &tm);
}

static void explain_certificate(struct redis_tls_session *session, int verdict, X509 *certificate, int depth)
{
    const char *whose = depth > 0 ? "its issuer's certificate" : "the certificate";
    char shown[SHOWN_SIZE] = "";

    switch (verdict) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        snprintf(session->why, sizeof session->why,
                 "TLS: the certificate's issuer is not trusted; set ssl_ca_certs");
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        list_names(certificate, shown);
        snprintf(session->why, sizeof session->why,
                 "TLS: the certificate is for another name than \"%.*s\" (it has %s); set ssl_server_name or "
                 "reissue",
                 HOST_SHOWN, session->name, shown);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        show_time(X509_get0_notBefore(certificate), shown);
        snprintf(session->why, sizeof session->why,
                 "TLS: %s is not valid before %s; set the clock right, or reissue", whose, shown);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        show_time(X509_get0_notAfter(certificate), shown);
        snprintf(session->why, sizeof session->why, "TLS: %s expired on %s; renew it, or set the clock right",
                 whose, shown);
        break;
    default:
        snprintf(session->why, sizeof session->why, "TLS: %s is refused: %s", whose,
                 X509_verify_cert_error_string(verdict));
    }
}

/* OpenSSL's own verdict stands; only here is the certificate at hand. */
static int on_verified(int good, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());

    if (good == 0)
        explain_certificate(SSL_get_app_data(ssl), X509_STORE_CTX_get_error(store),
                            X509_STORE_CTX_get_current_cert(store), X509_STORE_CTX_get_error_depth(store));
    return good;
}

/* Called only if there is none. */
static int on_certificate_asked(SSL *ssl, X509 **certificate, EVP_PKEY **key)
{
    struct redis_tls_session *session = SSL_get_app_data(ssl);

    (void)certificate, (void)key;
    session->certificate_asked = true;
    return 0;
}

/* ---- what a connection fails for ---- */

static bool is_about_our_certificate(int reason)
{
    static const int alerts[] = {
        SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,     SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE,
        SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED,
        SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, SSL_R_TLSV1_ALERT_UNKNOWN_CA,
    };

    for (size_t i = 0; i < sizeof alerts / sizeof alerts[0]; i++)
        if (reason == alerts[i])
            return true;
    return false;
}

/* What has been said already, of the certificate, stays. */
static void explain_failure(struct redis_tls_session *session, unsigned long error)
{
    int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;

    if (session->why[0] != '\0')
        return;
    if (session->foreign)
        snprintf(session->why, sizeof session->why, "TLS: the other side does not speak TLS");
    else if (session->certificate_asked && (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE ||
                                            reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED))
        snprintf(session->why, sizeof session->why, "%s", no_certificate);
    else if (is_about_our_certificate(reason))
        snprintf(session->why, sizeof session->why,
                 "TLS: the server refuses the certificate in ssl_certfile (%s)", error_text(error));
    else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
        snprintf(session->why, sizeof session->why, "TLS: the server speaks no TLS 1.2 or later");
    else
        snprintf(session->why, sizeof session->why, "TLS: %s", error_text(error));
}

/* OpenSSL waits for the socket: for which of the two, HOST_READABLE or HOST_WRITABLE in all but name. */
enum tls_wait { TLS_WAITS_NOT, TLS_WAITS_DATA, TLS_WAITS_ROOM };

static enum tls_wait awaited(const struct redis_tls_session *session)
{
    if (SSL_want_read(session->ssl) && BIO_should_read(session->bio))
        return TLS_WAITS_DATA;
    if (SSL_want_write(session->ssl) && BIO_should_write(session->bio))
        return TLS_WAITS_ROOM;
    return TLS_WAITS_NOT;
}

/* What the call means that has returned none: as recv() and send(). */
static ssize_t outcome_of(struct redis_tls_session *session, unsigned long error)
{
    if (awaited(session) != TLS_WAITS_NOT)
        return -EAGAIN;
    if (error == 0 && session->error != 0)
        return -session->error;
    if (error == 0 && !session->foreign &&
        (session->ended || (SSL_get_shutdown(session->ssl) & SSL_RECEIVED_SHUTDOWN) != 0))
        return 0;
    explain_failure(session, error);
    return -EPROTO;
}

/* ---- a session ---- */

static bool set_peer(struct redis_tls_session *session)
{
    X509_VERIFY_PARAM *rules = SSL_get0_param(session->ssl);
    struct sockaddr_storage address;
    const char *name = session->name;
    bool verifies = session->tls->settings.verify == REDIS_TLS_REQUIRED;

    switch (resolve_digits(name, 0, &address)) {
    case sizeof(struct sockaddr_in):
        return !verifies ||
               X509_VERIFY_PARAM_set1_ip(
                   rules, (const unsigned char *)&((struct sockaddr_in *)&address)->sin_addr, 4) == 1;
    case sizeof(struct sockaddr_in6):
        return !verifies ||
               X509_VERIFY_PARAM_set1_ip(
                   rules, (const unsigned char *)&((struct sockaddr_in6 *)&address)->sin6_addr, 16) == 1;
    }
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(session->ssl, name) == 1 &&
           (!verifies || X509_VERIFY_PARAM_set1_host(rules, name, 0) == 1);
}

static bool set_bio(struct redis_tls_session *session)
{
    session->bio = BIO_new(session->tls->method);
    if (session->bio == NULL)
        return false;
    BIO_set_data(session->bio, session);
    BIO_set_init(session->bio, 1);
    SSL_set_bio(session->ssl, session->bio, session->bio);
    return true;
}

static bool prepare(struct redis_tls_session *session)
{
    bool verifies = session->tls->settings.verify != REDIS_TLS_NONE;

    if (session->ssl == NULL || !set_bio(session))
        return false;
    SSL_set_app_data(session->ssl, session);
    SSL_set_verify(session->ssl, verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, verifies ? on_verified : NULL);
    SSL_set_connect_state(session->ssl);
    return set_peer(session);
}

/* Looks at the files, and takes what they have come to and a ticket that goes with it. */
static SSL_SESSION *take_context(struct redis_tls_session *session)
{
    struct redis_tls *tls = session->tls;
    SSL_SESSION *ticket = NULL;

    pthread_mutex_lock(&tls->mutex);
    look_at_files(tls);
    memcpy(session->remark, tls->remark, sizeof session->remark);
    session->ssl = SSL_new(tls->context);
    ticket = take_ticket(tls, session);
    pthread_mutex_unlock(&tls->mutex);
    return ticket;
}

struct redis_tls_session *redis_tls_begin(struct redis_tls *tls, int fd, const struct redis_tls_peer *peer,
                                          char why[REDIS_WHY_SIZE])
{
    struct redis_tls_session *session = calloc(1, sizeof *session);
    const char *name = tls->settings.server_name;

    snprintf(why, REDIS_WHY_SIZE, "TLS: out of memory, or a name that is none");
    if (session == NULL)
        return NULL;
    session->tls = tls;
    session->fd = fd;
    session->address = peer->address;
    snprintf(session->name, sizeof session->name, "%s", name[0] != '\0' ? name : peer->host);
    errors_begin();
    SSL_SESSION *ticket = take_context(session);
    bool good = prepare(session);
    if (good && ticket != NULL)
        SSL_set_session(session->ssl, ticket);
    SSL_SESSION_free(ticket);
    errors_end();
    if (!good)
        redis_tls_end(&session);
    return session;
}

/* As if both had said goodbye: else OpenSSL would void the tickets. */
void redis_tls_end(struct redis_tls_session **session)
{
    struct redis_tls_session *old = *session;

    *session = NULL;
    if (old == NULL)
        return;
    if (old->ssl != NULL)
        SSL_set_shutdown(old->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(old->ssl);
    free(old->held);
    free(old);
}

int redis_tls_shake_hands(struct redis_tls_session *session)
{
    errors_begin();
    int done = SSL_do_handshake(session->ssl);
    unsigned long error = errors_end();
    ssize_t failed = done == 1 ? 0 : outcome_of(session, error);

    session->read_awaits_room = failed == -EAGAIN && awaited(session) == TLS_WAITS_ROOM;
    if (done != 1 && failed == 0) {
        snprintf(session->why, sizeof session->why, "TLS: the other side hangs up in the handshake");
        return -EPROTO;
    }
    return (int)failed;
}

ssize_t redis_tls_read(struct redis_tls_session *session, void *data, size_t size)
{
    errors_begin();
    int got = SSL_read(session->ssl, data, (int)size);
    unsigned long error = errors_end();
    ssize_t result = got > 0 ? got : outcome_of(session, error);

    session->read_awaits_room = result == -EAGAIN && awaited(session) == TLS_WAITS_ROOM;
    return result == -EAGAIN && session->broken != 0 ? session->broken : result;
}

static ssize_t write_record(struct redis_tls_session *session, const void *data, size_t bytes)
{
    errors_begin();
    int put = SSL_write(session->ssl, data, (int)bytes);
    unsigned long error = errors_end();
    ssize_t result = put > 0 ? put : outcome_of(session, error);

    session->write_awaits_data = result == -EAGAIN && awaited(session) == TLS_WAITS_DATA;
    return result != 0 ? result : -EPIPE;
}

/* 0: nothing is held any more. */
static int write_held(struct redis_tls_session *session)
{
    while (session->held_bytes > 0) {
        ssize_t put = write_record(session, session->held, session->held_bytes);
        if (put < 0)
            return (int)put;
        session->held_bytes -= (size_t)put;
        memmove(session->held, session->held + put, session->held_bytes);
    }
    free(session->held);
    session->held = NULL;
    return 0;
}

ssize_t redis_tls_write(struct redis_tls_session *session, const void *data, size_t bytes)
{
    size_t piece = bytes < RECORD_BYTES ? bytes : RECORD_BYTES;
    int failed = write_held(session);

    if (failed != 0)
        return failed;
    ssize_t put = write_record(session, data, piece);
    if (put != -EAGAIN)
        return put;
    session->held = malloc(piece);
    if (session->held == NULL)
        return -ENOMEM;
    memcpy(session->held, data, piece);
    session->held_bytes = piece;
    return (ssize_t)piece;
}

/* What failed is told by the next read, after the other side's last words. */
bool redis_tls_flush(struct redis_tls_session *session)
{
    int failed = session->broken == 0 ? write_held(session) : session->broken;

    if (failed != 0 && failed != -EAGAIN)
        session->broken = failed;
    return failed == 0;
}

bool redis_tls_awaits_room(const struct redis_tls_session *session)
{
    return session->read_awaits_room ||
           (session->held_bytes > 0 && session->broken == 0 && !session->write_awaits_data);
}

bool redis_tls_write_awaits_data(const struct redis_tls_session *session)
{
    return session->write_awaits_data;
}

bool redis_tls_has_more(const struct redis_tls_session *session)
{
    return SSL_has_pending(session->ssl) == 1;
}

bool redis_tls_is_drained(const struct redis_tls_session *session)
{
    return session->drained && !redis_tls_has_more(session);
}

const char *redis_tls_why(const struct redis_tls_session *session)
{
    return session->why;
}

const char *redis_tls_remark(const struct redis_tls_session *session)
{
    return session->remark;
}

bool redis_tls_was_resumed(const struct redis_tls_session *session)
{
    return SSL_session_reused(session->ssl) == 1;
}

#endif
