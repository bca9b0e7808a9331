/* SPDX-License-Identifier: MIT */
/*
 * redis/tls_context.c - TLS as a process shares it, by OpenSSL 1.1.1 or later; see redis/tls_context.h.
 *
 * Locking   `mutex` guards what is below it in struct redis_tls.
 */
#include "tls_context.h"
#include "../base/clock.h"
#include <stdio.h>
#include <string.h>

#ifndef GUARD_WITH_TLS

struct redis_tls *redis_tls_open(const struct redis_tls_settings *settings, struct guard_error *error)
{
    (void)settings;
    if (error == NULL)
        return NULL;
    error->status = GUARD_INVALID;
    snprintf(
        error->text, sizeof error->text,
        "redis_url: rediss:// (TLS) is not built in: guard.mk and CMake do so where OpenSSL's headers are "
        "installed (Debian: libssl-dev), the one file with -DGUARD_WITH_TLS");
    return NULL;
}

void redis_tls_close(struct redis_tls **tls)
{
    *tls = NULL;
}

#else

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum {
    LOOK_EVERY_US = 1000000, /* at the files */
    WATCHED_FILES = 3,
    HOST_SHOWN = 80, /* bytes of a text; as many as leave room for the rest */
    NAMES_SHOWN = 110,
    SHOWN_SIZE = 128,
};

/* A file as it was when it was read; all zeros: none. */
struct tls_stamp {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed;
};

struct redis_tls {
    struct redis_tls_settings settings; /* never change */

    pthread_mutex_t mutex;
    SSL_CTX *context; /* owned; sessions keep their own reference */
    struct tls_stamp stamps[WATCHED_FILES];
    uint64_t looked_us;
    char remark[REDIS_WHY_SIZE];
};

static const char no_certificate[] =
    "TLS: the server asks for a client certificate; set ssl_certfile and ssl_keyfile";

/* ---- OpenSSL's errors ---- */

/* A mark; and, if the host has left something, an entry of our own. */
void redis_tls_errors_begin(void)
{
    ERR_set_mark();
    if (ERR_peek_last_error() != 0)
        ERR_put_error(ERR_LIB_USER, 0, ERR_R_PASSED_NULL_PARAMETER, __FILE__, __LINE__);
}

/* From 3.2 on OpenSSL queues errno's number, which the socket's owner has already, and says of the reason that is
 * below it that the record layer has failed. */
static bool hides_its_reason(unsigned long error)
{
    bool sums_up = false;

#ifdef SSL_R_RECORD_LAYER_FAILURE
    sums_up = ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_RECORD_LAYER_FAILURE;
#endif
    return sums_up || ERR_GET_LIB(error) == ERR_LIB_SYS;
}

/* An entry of our own is the last that may be looked at. */
unsigned long redis_tls_errors_end(void)
{
    unsigned long error = ERR_peek_last_error();

#if OPENSSL_VERSION_NUMBER >= 0x30300000L
    while (hides_its_reason(error) && ERR_pop() == 1)
        error = ERR_peek_last_error();
#endif
    ERR_pop_to_mark();
    return ERR_GET_LIB(error) == ERR_LIB_USER || hides_its_reason(error) ? 0 : error;
}

static const char *error_text(unsigned long error)
{
    const char *text = error != 0 ? ERR_reason_error_string(error) : NULL;
    return text != NULL ? text : "OpenSSL says no more";
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

/* Why the certificate that OpenSSL looks at is refused; name: it was verified for that one. */
static void explain_certificate(X509_STORE_CTX *store, const char *name, char why[REDIS_WHY_SIZE])
{
    int verdict = X509_STORE_CTX_get_error(store), depth = X509_STORE_CTX_get_error_depth(store);
    X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    const char *whose = depth > 0 ? "its issuer's certificate" : "the certificate";
    char shown[SHOWN_SIZE] = "";
    switch (verdict) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        snprintf(why, REDIS_WHY_SIZE, "TLS: the certificate's issuer is not trusted; set ssl_ca_certs");
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        list_names(certificate, shown);
        snprintf(why, REDIS_WHY_SIZE,
                 "TLS: the certificate is for another name than \"%.*s\" (it has %s); set ssl_server_name or "
                 "reissue",
                 HOST_SHOWN, name, shown);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        show_time(X509_get0_notBefore(certificate), shown);
        snprintf(why, REDIS_WHY_SIZE, "TLS: %s is not valid before %s; set the clock right, or reissue",
                 whose, shown);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        show_time(X509_get0_notAfter(certificate), shown);
        snprintf(why, REDIS_WHY_SIZE, "TLS: %s expired on %s; renew it, or set the clock right", whose,
                 shown);
        break;
    default:
        snprintf(why, REDIS_WHY_SIZE, "TLS: %s is refused: %s", whose,
                 X509_verify_cert_error_string(verdict));
    }
}

/* ---- what a session fails for ---- */

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

void redis_tls_explain_failure(unsigned long error, bool certificate_asked, char why[REDIS_WHY_SIZE])
{
    int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    if (certificate_asked &&
        (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE || reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED))
        snprintf(why, REDIS_WHY_SIZE, "%s", no_certificate);
    else if (is_about_our_certificate(reason))
        snprintf(why, REDIS_WHY_SIZE, "TLS: the server refuses the certificate in ssl_certfile (%s)",
                 error_text(error));
    else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
        snprintf(why, REDIS_WHY_SIZE, "TLS: the server speaks no TLS 1.2 or later");
    else
        snprintf(why, REDIS_WHY_SIZE, "TLS: %s", error_text(error));
}

/* ---- certificates ---- */

/* OpenSSL's own verdict stands; only here is the certificate at hand. */
static int on_verified(int good, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct redis_tls_session *session = SSL_get_app_data(ssl);
    if (good == 0)
        explain_certificate(store, session->name, session->why);
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
    bool asked = false;
    SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
    if (SSL_CTX_use_certificate_chain_file(context, settings->cert) != 1)
        return tls_refuse(why, "ssl_certfile", "it has no certificate in PEM");
    return load_key(context, settings, why);
}

static void set_rules(SSL_CTX *context, enum redis_tls_verify verify)
{
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_client_cert_cb(context, on_certificate_asked);
    SSL_CTX_set_verify(context, verify != REDIS_TLS_NONE ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                       verify != REDIS_TLS_NONE ? on_verified : NULL);
}

/* NULL: *why says why, without "TLS: ". */
static SSL_CTX *new_context(const struct redis_tls_settings *settings, char why[REDIS_WHY_SIZE])
{
    SSL_CTX *context = NULL;
    redis_tls_errors_begin();
    snprintf(why, REDIS_WHY_SIZE, "out of memory");
    context = SSL_CTX_new(TLS_client_method());
    if (context != NULL) {
        set_rules(context, settings->verify);
        if (!load_trusted(context, settings, why) || !load_own(context, settings, why)) {
            SSL_CTX_free(context);
            context = NULL;
        }
    }
    redis_tls_errors_end();
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

static void remark_rules(struct redis_tls *tls)
{
    tls->remark[0] = '\0';
    if (tls->settings.verify == REDIS_TLS_NONE)
        snprintf(tls->remark, sizeof tls->remark,
                 "TLS: the server's certificate is not verified (ssl_cert_reqs=none)");
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
    if (context == NULL) {
        snprintf(tls->remark, sizeof tls->remark,
                 "TLS: the files have changed and are of no use (%.180s); what was read before stays", why);
        return;
    }
    SSL_CTX_free(tls->context);
    tls->context = context;
    remark_rules(tls);
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
    SSL_CTX_free(old->context);
    pthread_mutex_destroy(&old->mutex);
    free(old);
}

bool redis_tls_draw(struct redis_tls_session *session)
{
    struct redis_tls *tls = session->tls;
    pthread_mutex_lock(&tls->mutex);
    look_at_files(tls);
    memcpy(session->remark, tls->remark, sizeof tls->remark);
    session->ssl = SSL_new(tls->context);
    pthread_mutex_unlock(&tls->mutex);
    if (session->ssl != NULL)
        SSL_set_app_data(session->ssl, session);
    return session->ssl != NULL;
}

const struct redis_tls_settings *redis_tls_settings_of(const struct redis_tls *tls)
{
    return &tls->settings;
}

#endif
