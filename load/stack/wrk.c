/* SPDX-License-Identifier: MIT */
/* wrk.c - see wrk.h. */
#include "load/stack/wrk.h"

#include "load/base/dice.h"
#include "load/base/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { SPARE_MS = 15000 /* over the run itself */, ZIPF_DRAWS = 100000 };
#define ZIPF_EXPONENT 0.99

/* "  100123 requests in 2.00s, ...", "Requests/sec:  50061.50", and lines that come only with failures. */
static bool read_output(const char *path, struct wrk_result *out)
{
    char line[256];
    bool failed = false;
    FILE *file = fopen(path, "re");
    *out = (struct wrk_result){0};
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, " %" SCNu64 " requests in", &out->requests);
        sscanf(line, "Requests/sec: %lf", &out->requests_per_s);
        failed = failed || strstr(line, "Socket errors") != NULL || strstr(line, "Non-2xx") != NULL;
    }
    if (file != NULL)
        fclose(file);
    return !failed && out->requests > 0 && out->requests_per_s > 0;
}

/* Every number once, or as many draws as make the law felt; one a line. */
static bool write_numbers(const char *path, const struct wrk_options *options)
{
    uint64_t dice = 1;
    struct dice_zipf zipf;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    dice_zipf_init(&zipf, options->last - options->first + 1, ZIPF_EXPONENT);
    for (uint32_t i = 0; options->order == WRK_BY_ZIPF && i < ZIPF_DRAWS; i++)
        fprintf(file, "%" PRIu32 "\n", options->first - 1 + dice_zipf_draw(&zipf, &dice));
    for (uint32_t number = options->first; options->order == WRK_IN_TURN && number <= options->last; number++)
        fprintf(file, "%" PRIu32 "\n", number);
    return fclose(file) == 0;
}

/* Requests are made once each, before wrk begins. */
static bool write_script(const char *path, const struct wrk_options *options, const char *numbers)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    if (options->order != WRK_PLAIN)
        fprintf(file,
                "local made, requests, next = {}, {}, 0\n"
                "function init()\n"
                "    for number in io.lines('%s') do\n"
                "        made[number] = made[number] or wrk.format('GET', (('%s'):gsub('%%*', number)))\n"
                "        requests[#requests + 1] = made[number]\n"
                "    end\n"
                "end\n"
                "function request()\n"
                "    next = next %% #requests + 1\n"
                "    return requests[next]\n"
                "end\n",
                numbers, options->path);
    return fclose(file) == 0;
}

bool wrk_run(const struct wrk_options *options, struct wrk_result *out)
{
    char folder[PROC_PATH_BYTES], output[PROC_PATH_BYTES + 8], script[PROC_PATH_BYTES + 12];
    char numbers[PROC_PATH_BYTES + 12];
    char connections[24], duration[24], url[256];
    snprintf(connections, sizeof connections, "-c%" PRIu32, options->connection_count);
    snprintf(duration, sizeof duration, "-d%" PRIu32 "s", options->seconds);
    snprintf(url, sizeof url, "http://127.0.0.1:%u%s", (unsigned)options->port, options->path);
    const char *const argv[] = {"wrk", "-t1", "-s", script, connections, duration, url, NULL};
    int status = -1;
    if (!proc_folder("wrk", NULL, folder))
        return false;
    snprintf(output, sizeof output, "%s/output", folder);
    snprintf(script, sizeof script, "%s/paths.lua", folder);
    snprintf(numbers, sizeof numbers, "%s/numbers", folder);
    pid_t pid = !write_numbers(numbers, options) || !write_script(script, options, numbers)
                    ? -1
                    : proc_start(&(struct proc_options){.argv = argv, .output_path = output});
    bool ended = pid > 0 && proc_wait(pid, options->seconds * 1000 + SPARE_MS, &status);
    if (pid > 0 && !ended)
        proc_kill_tree(&pid);
    bool good = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0 && read_output(output, out);
    if (!good) {
        fprintf(stderr, "wrk: %s failed:\n", url);
        proc_show_tail(output);
    }
    proc_remove(folder);
    return good;
}
