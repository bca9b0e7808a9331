/* SPDX-License-Identifier: MIT */
/* stack_certificates.c - a private certificate authority; see stack_certificates.h. */
#include "tests/support/stack_certificates.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { OPENSSL_LIMIT_MS = 20000, SCRIPT_BYTES = 2048, DATE_BYTES = 20, DAY_S = 86400 };

/* Of `openssl ca`, which alone can date a certificate back and ahead. */
static const char authority_settings[] = "[ca]\n"
                                         "default_ca = private\n"
                                         "[private]\n"
                                         "database = index\n"
                                         "new_certs_dir = .\n"
                                         "rand_serial = yes\n"
                                         "unique_subject = no\n"
                                         "default_md = sha256\n"
                                         "policy = any\n"
                                         "copy_extensions = copy\n"
                                         "[any]\n"
                                         "commonName = supplied\n"
                                         "[req]\n"
                                         "distinguished_name = asked\n"
                                         "prompt = no\n"
                                         "[asked]\n"
                                         "CN = unnamed\n";

static const char begin_script[] =
    "umask 077; printf '%%s' '%s' >settings; : >index; "
    "openssl req -x509 -config settings -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 "
    "-subj '/CN=private authority' -addext basicConstraints=critical,CA:TRUE "
    "-addext keyUsage=critical,keyCertSign -keyout ca.key -out ca.pem; chmod 755 .; chmod 644 ca.pem";

/* Each file is there whole or not at all. */
static const char issue_script[] =
    "umask 077; openssl req -new -config settings -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
    "-subj '/CN=%s' -addext 'subjectAltName=%s' -keyout new.key -out new.csr; "
    "openssl ca -batch -notext -config settings -cert ca.pem -keyfile ca.key -startdate %s -enddate %s "
    "-in new.csr -out new.pem; chmod 644 new.pem; mv new.key '%s.key'; mv new.pem '%s.pem'; rm new.csr";

static bool run_in_folder(const struct stack_certificates *certificates, const char *script)
{
    char whole[SCRIPT_BYTES + PROC_PATH_BYTES];
    const char *argv[] = {"sh", "-ec", whole, NULL};
    snprintf(whole, sizeof whole, "cd '%s'; %s", certificates->folder, script);
    return proc_run(&(struct proc_options){.argv = argv, .user = proc_plain_user()}, OPENSSL_LIMIT_MS);
}

bool stack_certificates_start(struct stack_certificates *certificates)
{
    char script[SCRIPT_BYTES];
    *certificates = (struct stack_certificates){.folder = ""};
    if (!proc_folder("certificates", proc_plain_user(), certificates->folder))
        return false;
    snprintf(certificates->ca, sizeof certificates->ca, "%s/ca.pem", certificates->folder);
    snprintf(script, sizeof script, begin_script, authority_settings);
    return run_in_folder(certificates, script);
}

void stack_certificates_stop(struct stack_certificates *certificates)
{
    if (certificates->folder[0] != '\0')
        proc_remove(certificates->folder);
    *certificates = (struct stack_certificates){.folder = ""};
}

static void date_of(int days, char out[DATE_BYTES])
{
    time_t at = time(NULL) + (time_t)days * DAY_S;
    struct tm tm;
    strftime(out, DATE_BYTES, "%Y%m%d%H%M%SZ", gmtime_r(&at, &tm));
}

bool stack_certificates_issue(const struct stack_certificates *certificates, const char *name,
                              const char *alt_names, int from_days, int to_days)
{
    char script[SCRIPT_BYTES], from[DATE_BYTES], to[DATE_BYTES];
    date_of(from_days, from);
    date_of(to_days, to);
    snprintf(script, sizeof script, issue_script, name, alt_names, from, to, name, name);
    return run_in_folder(certificates, script);
}

const char *stack_certificates_path(const struct stack_certificates *certificates, const char *file,
                                    char path[static CERTIFICATES_PATH_BYTES])
{
    snprintf(path, CERTIFICATES_PATH_BYTES, "%s/%s", certificates->folder, file);
    return path;
}
