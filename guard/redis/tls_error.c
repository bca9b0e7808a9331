/* SPDX-License-Identifier: MIT */
/*
 * redis/tls_error.c - OpenSSL's errors; see redis/tls_error.h.
 */
#include "tls_error.h"

#ifdef GUARD_WITH_TLS

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    HOST_SHOWN = 80, /* bytes of a text; as many as leave room for the rest */
    NAMES_SHOWN = 110,
    SHOWN_SIZE = 128,
};

static const char no_certificate[] =
    "TLS: the server asks for a client certificate; set ssl_certfile and ssl_keyfile";

/* ---- the queue ---- */

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

void redis_tls_explain_certificate(X509_STORE_CTX *store, const char *name, char why[REDIS_WHY_SIZE])
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

#endif
