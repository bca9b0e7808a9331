/* SPDX-License-Identifier: MIT */
/*
 * proc.c - see proc.h.
 *
 * Between fork() and execve() the child makes system calls only, so that it may be forked from a program
 * with threads or under a sanitizer; everything that needs memory or locks is prepared before.
 */
#include "load/base/proc.h"

#include "app/common/standard.h"
#include "load/base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <inttypes.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    FAMILY_MAX = 4096,
    KILL_LIMIT_MS = 10000,
    PAUSE_LIMIT_MS = 10000,
    LOOK_EVERY_MS = 5,
    TAIL_BYTES = 4096,
};

/*
 * Reads "+ pid signal" and "- pid" until the pipe closes, then ends what is left. A killed process that
 * nobody has reaped yet counts as gone: its parent may be waiting for us.
 */
static const char janitor_script[] =
    "trap '' HUP INT QUIT TERM PIPE\n"
    "left=' '\n"
    "while read -r operation pid signal; do\n"
    "    case $operation in\n"
    "    +) left=\"$left$pid:$signal \" ;;\n"
    "    -) case $left in *\" $pid:\"*) rest=${left#*\" $pid:\"}; left=\"${left%%\" $pid:\"*} ${rest#* }\" "
    ";; esac ;;\n"
    "    esac\n"
    "done\n"
    "for entry in $left; do kill -\"${entry#*:}\" \"${entry%:*}\" 2>/dev/null; done\n"
    "tries=0\n"
    "for entry in $left; do\n"
    "    pid=${entry%:*}\n"
    "    while read -r stat 2>/dev/null </proc/\"$pid\"/stat; do\n"
    "        case $stat in *') Z '*) break ;; esac\n"
    "        tries=$((tries + 1))\n"
    "        [ $tries -lt 150 ] || kill -KILL \"$pid\" 2>/dev/null\n"
    "        [ $tries -lt 300 ] || break\n"
    "        sleep 0.02\n"
    "    done\n"
    "done\n"
    "rm -rf -- \"$1\"\n";

/* One per program, made by the first call. */
static struct {
    pid_t pid;
    int pipe; /* closing it is the order to clean up */
    char root[64];
} janitor = {.pid = 0, .pipe = -1};

/* Nothing here but close() and waitpid(): it also runs in a signal handler. */
static void janitor_finish(void)
{
    if (janitor.pid == 0 || janitor.pipe == -1)
        return;
    close(janitor.pipe);
    janitor.pipe = -1;
    while (waitpid(janitor.pid, NULL, 0) == -1 && errno == EINTR)
        ;
    while (waitpid(-1, NULL, WNOHANG) > 0) /* the children it ended: not every init reaps at once */
        ;
}

/* A forked copy of this program must not order the clean-up of what its parent still uses. */
static void janitor_forget_in_child(void)
{
    if (janitor.pipe != -1)
        close(janitor.pipe);
    janitor.pipe = -1;
}

static bool janitor_root_make(void)
{
    const char *base = getenv("TMPDIR");
    if (base == NULL || strlen(base) > 30)
        base = "/tmp";
    snprintf(janitor.root, sizeof janitor.root, "%s/stampede-guard.XXXXXX", base);
    if (mkdtemp(janitor.root) != NULL && chmod(janitor.root, 0711) == 0)
        return true;
    fprintf(stderr, "proc: cannot make a folder in %s: %s\n", base, strerror(errno));
    return false;
}

static bool janitor_start(void)
{
    int ends[2];
    if (janitor.pid != 0)
        return janitor.pipe != -1;
    if (!janitor_root_make())
        return false;
    if (pipe2(ends, O_CLOEXEC) == -1) {
        fprintf(stderr, "proc: no pipe for what cleans up: %s\n", strerror(errno));
        return false;
    }
    const char *const argv[] = {"sh", "-c", janitor_script, "janitor", janitor.root, NULL};
    janitor.pid = fork();
    if (janitor.pid == 0) {
        setsid();
        dup2(ends[0], 0);
        close_range(3, ~0U, 0);
        execv("/bin/sh", (char **)argv);
        _exit(127);
    }
    close(ends[0]);
    janitor.pipe = ends[1];
    if (janitor.pid == -1) {
        fprintf(stderr, "proc: no process for what cleans up: %s\n", strerror(errno));
        return false;
    }
    pthread_atfork(NULL, NULL, janitor_forget_in_child);
    atexit(janitor_finish);
    return true;
}

static void janitor_tell(char operation, pid_t pid, int signal)
{
    if (janitor.pipe != -1)
        dprintf(janitor.pipe, "%c %d %d\n", operation, (int)pid, signal);
}

static void on_signal(int signal)
{
    janitor_finish();
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(signal, &usual, NULL);
    raise(signal);
}

void proc_clean_on_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

/* ---- starting ---- */

/* What the child needs, worked out before the fork. */
struct launch {
    const char *const *argv;
    char **environment; /* owned; the texts are not */
    int output;         /* owned descriptor */
    const struct passwd *user;
    int end_signal;
    pid_t parent;
    const int *descriptors;
    size_t descriptor_count;
};

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length) == 0 && b[length] == '=';
}

static size_t text_count(char *const *texts)
{
    size_t count = 0;
    while (texts != NULL && texts[count] != NULL)
        count++;
    return count;
}

static bool is_overridden(const char *text, const char *const *settings)
{
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        if (same_name(settings[i], text))
            return true;
    }
    return false;
}

static char **environment_with(const char *const *settings)
{
    char **all = calloc(text_count(environ) + text_count((char *const *)settings) + 1, sizeof *all);
    size_t count = 0;
    if (all == NULL)
        return NULL;
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (!is_overridden(environ[i], settings))
            all[count++] = environ[i];
    }
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++)
        all[count++] = (char *)settings[i];
    return all;
}

static bool launch_init(struct launch *launch, const struct proc_options *options)
{
    const char *output_path = options->output_path != NULL ? options->output_path : "/dev/null";
    *launch = (struct launch){
        .argv = options->argv,
        .environment = environment_with(options->settings),
        .output = open(output_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644),
        .end_signal = options->end_signal != 0 ? options->end_signal : SIGKILL,
        .parent = getpid(),
        .descriptors = options->descriptors,
        .descriptor_count = options->descriptor_count,
    };
    if (launch->output == -1)
        fprintf(stderr, "proc: %s: cannot be written: %s\n", output_path, strerror(errno));
    if (options->user != NULL) {
        launch->user = getpwnam(options->user);
        if (launch->user == NULL) {
            fprintf(stderr, "proc: no user %s\n", options->user);
            return false;
        }
    }
    return launch->environment != NULL && launch->output != -1;
}

static void launch_clear(struct launch *launch)
{
    free(launch->environment);
    if (launch->output != -1)
        close(launch->output);
}

static void become_user(const struct passwd *user)
{
    if (setgroups(0, NULL) == -1 || setgid(user->pw_gid) == -1 || setuid(user->pw_uid) == -1 ||
        chdir("/") == -1)
        _exit(126);
}

/* All out of the way first: one may have the number that another is to get. */
static void hand_over(const struct launch *launch)
{
    enum { OUT_OF_THE_WAY = 256 };
    for (size_t i = 0; i < launch->descriptor_count; i++)
        dup2(launch->descriptors[i], OUT_OF_THE_WAY + (int)i);
    close_range(3, OUT_OF_THE_WAY - 1, CLOSE_RANGE_CLOEXEC);
    for (size_t i = 0; i < launch->descriptor_count; i++)
        dup2(OUT_OF_THE_WAY + (int)i, 3 + (int)i);
    close_range(OUT_OF_THE_WAY, ~0U, CLOSE_RANGE_CLOEXEC);
}

/* In the child. The kernel forgets the death signal when the user changes, so that comes first. */
static _Noreturn void launch_execute(const struct launch *launch)
{
    sigset_t none;
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    sigaction(SIGPIPE, &usual, NULL);
    setpgid(0, 0);
    if (launch->user != NULL)
        become_user(launch->user);
    prctl(PR_SET_PDEATHSIG, launch->end_signal);
    int null = open("/dev/null", O_RDONLY);
    if (getppid() != launch->parent || null == -1)
        _exit(125);
    dup2(null, 0);
    dup2(launch->output, 1);
    dup2(launch->output, 2);
    hand_over(launch);
    execvpe(launch->argv[0], (char *const *)launch->argv, launch->environment);
    dprintf(2, "cannot execute %s: error %d\n", launch->argv[0], errno);
    _exit(127);
}

void proc_begin(void)
{
    standard_open();
    standard_survive(SIGPIPE);
}

pid_t proc_start(const struct proc_options *options)
{
    struct launch launch;
    pid_t pid = -1;
    if (!janitor_start())
        return -1;
    if (launch_init(&launch, options)) {
        pid = fork();
        if (pid == 0)
            launch_execute(&launch);
        if (pid == -1)
            fprintf(stderr, "proc: %s: no process for it: %s\n", options->argv[0], strerror(errno));
        else
            janitor_tell('+', pid, launch.end_signal);
    }
    launch_clear(&launch);
    return pid;
}

/* ---- looking ---- */

/* The fields behind the name, which may hold anything. */
bool proc_look(pid_t pid, struct proc_look *out)
{
    char path[32], stat[1024];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t count = fread(stat, 1, sizeof stat - 1, file);
    fclose(file);
    stat[count] = '\0';
    const char *name = strchr(stat, '('), *behind = strrchr(stat, ')');
    if (name == NULL || behind == NULL || sscanf(behind, ") %c %d", &out->state, &parent) != 2)
        return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(behind - name - 1), name + 1);
    out->parent = (pid_t)parent;
    return out->state != 'Z';
}

static bool has_pid(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (pids[i] == pid)
            return true;
    }
    return false;
}

static size_t add_children(pid_t *pids, size_t count, size_t most)
{
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    while (proc != NULL && (entry = readdir(proc)) != NULL && count < most) {
        struct proc_look look;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && !has_pid(pids, count, pid) && proc_look(pid, &look) &&
            has_pid(pids, count, look.parent))
            pids[count++] = pid;
    }
    if (proc != NULL)
        closedir(proc);
    return count;
}

/* Children of children are found because /proc is read again until nothing new turns up. */
size_t proc_family(pid_t pid, pid_t *pids, size_t most)
{
    size_t before = 0, count = 1;
    pids[0] = pid;
    while (count > before) {
        before = count;
        count = add_children(pids, count, most);
    }
    return count;
}

uint64_t proc_cpu_us(pid_t pid)
{
    pid_t pids[FAMILY_MAX];
    uint64_t sum_us = 0;
    for (size_t i = proc_family(pid, pids, FAMILY_MAX); i-- > 0;) {
        clockid_t its;
        struct timespec spent;
        if (clock_getcpuclockid(pids[i], &its) == 0 && clock_gettime(its, &spent) == 0)
            sum_us += (uint64_t)spent.tv_sec * 1000000 + (uint64_t)spent.tv_nsec / 1000;
    }
    return sum_us;
}

/* ---- ending ---- */

bool proc_wait(pid_t pid, uint32_t limit_ms, int *status)
{
    uint64_t end_us = clock_after_ms(limit_ms);
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid) {
            janitor_tell('-', pid, 0);
            return true;
        }
        if ((got == -1 && errno != EINTR) || clock_us() >= end_us)
            return false;
        clock_pause_ms(limit_ms < 1000 ? 1 : 5);
    }
}

bool proc_stop(pid_t *pid, int signal, uint32_t limit_ms)
{
    bool went = false;
    if (*pid <= 0)
        return false;
    if (kill(*pid, signal) == 0) {
        kill(*pid, SIGCONT);
        went = proc_wait(*pid, limit_ms, NULL);
    }
    if (!went)
        proc_kill_tree(pid);
    *pid = 0;
    return went;
}

/* Not all of its threads stand still. */
static bool moves(pid_t pid)
{
    char path[32];
    struct dirent *entry;
    bool any = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return errno != ENOENT && errno != ESRCH;
    while (!any && (entry = readdir(threads)) != NULL) {
        struct proc_look look;
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        any = thread > 0 && proc_look(thread, &look) && look.state != 'T' && look.state != 't';
    }
    closedir(threads);
    return any;
}

bool proc_wait_stopped(pid_t pid)
{
    struct proc_look look;
    uint64_t end_us = clock_after_ms(PAUSE_LIMIT_MS);
    while (moves(pid) && clock_us() < end_us)
        clock_pause_ms(1);
    return !moves(pid) && proc_look(pid, &look);
}

/* Whoever of them moves is told to stop. */
static bool family_moves(pid_t pid)
{
    pid_t pids[FAMILY_MAX];
    bool any = false;
    size_t count = proc_family(pid, pids, FAMILY_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!moves(pids[i]))
            continue;
        kill(pids[i], SIGSTOP);
        any = true;
    }
    return any;
}

/* A look in which nobody moved may have missed a child of one that stopped during it: the next one finds that. */
bool proc_pause(pid_t pid)
{
    uint64_t end_us = clock_after_ms(PAUSE_LIMIT_MS);
    unsigned still = 0;
    if (pid <= 0)
        return true;
    kill(pid, SIGSTOP); /* at once: to look at the whole family takes a while */
    while (still < 2 && clock_us() < end_us) {
        still = family_moves(pid) ? 0 : still + 1;
        if (still == 0)
            clock_pause_ms(1);
    }
    if (still < 2)
        fprintf(stderr, "proc: process %d and its children have not stopped within %d ms\n", (int)pid,
                PAUSE_LIMIT_MS);
    return still == 2;
}

void proc_resume(pid_t pid)
{
    pid_t pids[FAMILY_MAX];
    size_t count = pid > 0 ? proc_family(pid, pids, FAMILY_MAX) : 0;
    for (size_t i = 0; i < count; i++)
        kill(pids[i], SIGCONT);
}

/* One that is dead and not reaped has given everything back; whoever adopted it may take its time. */
void proc_kill_tree(pid_t *pid)
{
    pid_t pids[FAMILY_MAX];
    struct proc_look look;
    if (*pid <= 0)
        return;
    kill(*pid, SIGSTOP);
    size_t count = proc_family(*pid, pids, FAMILY_MAX);
    for (size_t i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    proc_wait(*pid, KILL_LIMIT_MS, NULL);
    uint64_t end_us = clock_after_ms(KILL_LIMIT_MS);
    for (size_t i = 1; i < count; i++) {
        while (proc_look(pids[i], &look) && clock_us() < end_us)
            clock_pause_ms(1);
    }
    *pid = 0;
}

uint64_t proc_status(pid_t pid, const char *name)
{
    char line[256];
    uint64_t value = 0;
    size_t name_bytes = strlen(name);
    snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
    FILE *file = fopen(line, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, name_bytes) == 0 && line[name_bytes] == ':')
            value = strtoull(line + name_bytes + 1, NULL, 10);
    }
    if (file != NULL)
        fclose(file);
    return value;
}

pid_t proc_start_up(const struct proc_options *options, proc_is_up *is_up, void *server, uint32_t limit_ms)
{
    enum { OWN_STATUS = 125 }; /* from here on the child had not become the program, and said nothing */
    pid_t pid = proc_start(options);
    uint64_t end_us = clock_after_ms(limit_ms);
    int status = 0;
    while (pid > 0 && clock_us() < end_us) {
        if (is_up(server))
            return pid;
        if (!proc_wait(pid, LOOK_EVERY_MS, &status))
            continue;
        if (!WIFEXITED(status) || WEXITSTATUS(status) >= OWN_STATUS)
            fprintf(stderr, "proc: %s ended with status %#x before it was up\n", options->argv[0],
                    (unsigned)status);
        return 0;
    }
    if (pid > 0)
        fprintf(stderr, "proc: %s was not up within %" PRIu32 " ms\n", options->argv[0], limit_ms);
    proc_kill_tree(&pid);
    return 0;
}

bool proc_output(const char *command, char *text, size_t text_bytes)
{
    char whole[1024], more[1024];
    snprintf(whole, sizeof whole, "{ %s; } 2>&1", command);
    FILE *output = popen(whole, "re");
    size_t count = output != NULL ? fread(text, 1, text_bytes - 1, output) : 0;
    text[count] = '\0';
    while (output != NULL && fread(more, 1, sizeof more, output) > 0) /* it may have more to say */
        ;
    int status = output != NULL ? pclose(output) : -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool proc_run(const struct proc_options *options, uint32_t limit_ms)
{
    struct proc_options copy = *options;
    char folder[PROC_PATH_BYTES], output[PROC_PATH_BYTES + 8];
    int status = -1;
    if (!proc_folder("run", options->user, folder))
        return false;
    snprintf(output, sizeof output, "%s/output", folder);
    copy.output_path = output;
    pid_t pid = proc_start(&copy);
    bool ended = pid != -1 && proc_wait(pid, limit_ms, &status);
    bool good = ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (pid != -1 && !ended)
        proc_kill_tree(&pid);
    if (!good) {
        fprintf(stderr, "proc: %s %s\n", options->argv[0], ended ? "failed:" : "did not end in time:");
        proc_show_tail(output);
    }
    proc_remove(folder);
    return good;
}

/* ---- users and folders ---- */

const char *proc_plain_user(void)
{
    if (geteuid() != 0)
        return NULL;
    return getpwnam("postgres") != NULL ? "postgres" : "nobody";
}

bool proc_folder(const char *name, const char *user, char path[static PROC_PATH_BYTES])
{
    static unsigned number;
    const struct passwd *owner = user != NULL ? getpwnam(user) : NULL;
    if (!janitor_start())
        return false;
    snprintf(path, PROC_PATH_BYTES, "%s/%.16s-%u", janitor.root, name, ++number);
    if (mkdir(path, 0700) == 0 && (owner == NULL || chown(path, owner->pw_uid, owner->pw_gid) == 0))
        return true;
    fprintf(stderr, "proc: %s: the folder cannot be made: %s\n", path, strerror(errno));
    return false;
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *position)
{
    (void)stat, (void)type, (void)position;
    remove(path);
    return 0;
}

void proc_remove(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void proc_show_tail(const char *path)
{
    char text[TAIL_BYTES];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    bool is_there = fseek(file, -(long)sizeof text, SEEK_END) == 0 || fseek(file, 0, SEEK_SET) == 0;
    size_t count = is_there ? fread(text, 1, sizeof text, file) : 0;
    fwrite(text, 1, count, stderr);
    fclose(file);
}
