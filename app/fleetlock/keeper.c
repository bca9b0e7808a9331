/* SPDX-License-Identifier: MIT */
/* keeper.c - see command.h. */
#include "app/fleetlock/command.h"

#include "app/base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

enum {
    EXIT_CANNOT_RUN = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNALLED = 128,
    INHERITED_LEAST = 100, /* no script's own redirection takes the place of our descriptor */
    LOOK_MS = 100, /* at the terminal and at the time: poll()'s clock stands still while the machine sleeps */
    KILL_AGAIN_MS = 5,
    DEPTH_MAX = 64,
    PATH_BYTES = 64,
    LIST_BYTES = 4096,
};

struct keeper {
    struct keeper_shared *shared;
    const struct keeper_plan *plan;
    pid_t front;    /* fleetlock's group */
    pid_t command;  /* 0: over; its group, until then, is nobody else's */
    int status;     /* then */
    int terminal;   /* of the session; -1: none */
    int orders;     /* -1: fleetlock is gone */
    int inherited;  /* hung up when nobody has the other end any more; -1: so it is */
    bool childless; /* nobody that COMMAND has started is left, either */
    pid_t asks;     /* a group that stands still, because the terminal is another job's; 0: none */
    bool ends;
    bool kills;       /* somebody was left to be killed */
    uint64_t kill_ms; /* ENDS: of clock_boot_ms() */
};

/* ---- COMMAND ---- */

static bool is_front(const struct keeper *keeper)
{
    return tcgetpgrp(keeper->terminal) == keeper->front;
}

static void keep_ours_to_ourselves(const bool *is_kept, int kept_count)
{
    for (int fd = STDERR_FILENO + 1; fd < kept_count; fd++) {
        if (!is_kept[fd])
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

static int told_by(const struct keeper_plan *plan)
{
    return plan->on_lost != 0 ? plan->on_lost : SIGTERM;
}

static _Noreturn void become(const struct keeper *keeper, pid_t parent, int given)
{
    char **argv = keeper->plan->argv;
    sigset_t none;
    setpgid(0, 0);
    if (is_front(keeper) && isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1)
        tcsetpgrp(keeper->terminal, getpid()); /* SIGTTOU is still blocked */
    prctl(PR_SET_PDEATHSIG, told_by(keeper->plan));
    if (getppid() != parent)
        _exit(EXIT_CANNOT_RUN);
    if (given >= 0)
        fcntl(given, F_SETFD, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], argv);
    const int error = errno;
    complain("%s: cannot be run: %s", argv[0], strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static _Noreturn void give_up(const char *what)
{
    complain("COMMAND cannot be watched over: %s: %s", what, strerror(errno));
    _exit(EX_OSERR);
}

/* The end of a pipe that COMMAND gets; -1: it gets none. */
static int make_inherited(struct keeper *keeper)
{
    int ends[2];
    keeper->inherited = -1;
    if (keeper->plan->closes)
        return -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        give_up("no pipe to inherit");
    keeper->inherited = ends[0];
    const int given = fcntl(ends[1], F_DUPFD_CLOEXEC, INHERITED_LEAST);
    if (given < 0)
        return ends[1];
    close(ends[1]);
    return given;
}

static void start(struct keeper *keeper)
{
    const pid_t parent = getpid();
    const int given = make_inherited(keeper);
    keeper->command = fork();
    if (keeper->command == 0)
        become(keeper, parent, given);
    if (keeper->command < 0)
        give_up("no process for it");
    setpgid(keeper->command, keeper->command); /* whichever of the two comes first */
    atomic_store(&keeper->shared->group, keeper->command);
    if (given >= 0)
        close(given);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        close(fd); /* a reader of COMMAND's output must not wait for the keeper */
}

/* ---- signals to all ---- */

static void signal_one(struct keeper *keeper, pid_t pid, int signal_number)
{
    if (keeper->command != 0 && getpgid(pid) == keeper->command)
        return; /* told with its group */
    keeper->kills = kill(pid, signal_number) == 0 || keeper->kills;
    if (signal_number != SIGKILL)
        kill(pid, SIGCONT); /* one that was stopped hears of it */
}

static void signal_below(struct keeper *keeper, pid_t parent, int signal_number, int depth);

/* The list that Linux has of a thread's children. They come before their parent: its end would move them
 * elsewhere. */
static void signal_children(struct keeper *keeper, const char *path, int signal_number, int depth)
{
    char list[LIST_BYTES];
    ssize_t bytes;
    pid_t pid = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (bytes = read(fd, list, sizeof list)) > 0) {
        for (ssize_t i = 0; i < bytes; i++) {
            if (list[i] >= '0' && list[i] <= '9') {
                pid = pid * 10 + (list[i] - '0');
                continue;
            }
            if (pid > 0) {
                signal_below(keeper, pid, signal_number, depth + 1);
                signal_one(keeper, pid, signal_number);
            }
            pid = 0;
        }
    }
    if (fd >= 0)
        close(fd);
}

static void signal_below(struct keeper *keeper, pid_t parent, int signal_number, int depth)
{
    char path[PATH_BYTES];
    _Alignas(struct dirent64) char list[LIST_BYTES / 4];
    ssize_t bytes;
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    const int fd = depth < DEPTH_MAX ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    while (fd >= 0 && (bytes = getdents64(fd, list, sizeof list)) > 0) {
        for (ssize_t at = 0; at < bytes;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(list + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "/proc/%d/task/%.10s/children", (int)parent, entry->d_name);
            signal_children(keeper, path, signal_number, depth);
        }
    }
    if (fd >= 0)
        close(fd);
}

/* The group at once: between two looks at a list it could fork. */
static void signal_all(struct keeper *keeper, int signal_number)
{
    keeper->kills = false;
    if (keeper->command != 0) {
        keeper->kills = kill(-keeper->command, signal_number) == 0;
        if (signal_number != SIGKILL)
            kill(-keeper->command, SIGCONT);
    }
    signal_below(keeper, getpid(), signal_number, 0);
}

/* ---- the terminal ---- */

/* fleetlock is in front, maybe since a moment ago: no shell tells a job of its that runs. */
static void give_terminal(struct keeper *keeper)
{
    if (keeper->asks == 0 || !is_front(keeper))
        return;
    tcsetpgrp(keeper->terminal, keeper->asks);
    kill(-keeper->asks, SIGCONT);
    keeper->asks = 0;
}

/* It is stopped because it asked for the terminal; or by its keyboard, and then goes on. */
static void stopped(struct keeper *keeper, pid_t pid, int signal_number)
{
    const pid_t group = getpgid(pid);
    if (group <= 0 || keeper->terminal < 0)
        return;
    if (tcgetpgrp(keeper->terminal) == group) {
        kill(-group, SIGCONT);
        return;
    }
    if (signal_number != SIGTTIN && signal_number != SIGTTOU)
        return;
    keeper->asks = group;
    give_terminal(keeper);
    if (keeper->asks != 0)
        dprintf(keeper->terminal, "fleetlock: COMMAND asks for the terminal, which is another job's: it has "
                                  "the lock, and waits for fg\n");
}

/* ---- what happens ---- */

static void reap(struct keeper *keeper)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (WIFSTOPPED(status)) {
            stopped(keeper, pid, WSTOPSIG(status));
            continue;
        }
        if (pid != keeper->command)
            continue;
        keeper->status = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNALLED + WTERMSIG(status);
        if (tcgetpgrp(keeper->terminal) == keeper->command)
            tcsetpgrp(keeper->terminal, keeper->front);
        keeper->command = 0;
        atomic_store(&keeper->shared->group, 0);
    }
    keeper->childless = pid < 0;
}

/* The end of all, with the grace that the lock still allows. */
static void begin_end(struct keeper *keeper)
{
    if (keeper->ends)
        return;
    const uint64_t by_grace_ms = clock_boot_ms() + keeper->plan->grace_ms;
    const uint64_t safe_ms = atomic_load(&keeper->shared->safe_ms);
    keeper->ends = true;
    keeper->kill_ms = by_grace_ms < safe_ms ? by_grace_ms : safe_ms;
    signal_all(keeper, told_by(keeper->plan));
}

static void obey(struct keeper *keeper)
{
    unsigned char order = KEEPER_LOST;
    const ssize_t bytes = read(keeper->orders, &order, 1);
    if (bytes < 0)
        return;
    if (bytes == 0) {
        close(keeper->orders);
        keeper->orders = -1;
    }
    if (order == KEEPER_LOST) {
        begin_end(keeper);
        return;
    }
    signal_all(keeper, order);
}

/* Who may not be killed, another user's process, is waited for only while it keeps the lock. */
static bool is_over(const struct keeper *keeper)
{
    const bool is_done = keeper->command == 0 && keeper->inherited < 0;
    const bool tries = clock_boot_ms() < keeper->kill_ms || keeper->kills;
    return is_done && (!keeper->ends || keeper->childless || !tries);
}

static int rest_ms(const struct keeper *keeper)
{
    const uint64_t now_ms = clock_boot_ms();
    if (!keeper->ends)
        return keeper->asks != 0 ? LOOK_MS : -1;
    if (now_ms >= keeper->kill_ms)
        return KILL_AGAIN_MS;
    return keeper->kill_ms - now_ms < LOOK_MS ? (int)(keeper->kill_ms - now_ms) : LOOK_MS;
}

static void keep(struct keeper *keeper, int children)
{
    struct signalfd_siginfo info;
    struct pollfd polled[] = {{.fd = children, .events = POLLIN}, {.events = POLLIN}, {.events = 0}};
    for (;;) {
        polled[1].fd = keeper->orders;
        polled[2].fd = keeper->inherited;
        poll(polled, 3, rest_ms(keeper));
        if (polled[0].revents != 0 && read(children, &info, sizeof info) > 0)
            reap(keeper);
        give_terminal(keeper);
        if (keeper->inherited >= 0 && polled[2].revents != 0) {
            close(keeper->inherited);
            keeper->inherited = -1;
        }
        if (keeper->orders >= 0 && polled[1].revents != 0)
            obey(keeper);
        if (keeper->ends && clock_boot_ms() >= keeper->kill_ms)
            signal_all(keeper, SIGKILL);
        if (is_over(keeper))
            return;
    }
}

_Noreturn void keeper_run(struct keeper_shared *shared, const struct keeper_plan *plan, int orders,
                          const bool *is_kept, int kept_count)
{
    struct keeper keeper = {.shared = shared, .plan = plan, .front = getpgrp(), .orders = orders};
    sigset_t all, child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0); /* whoever ends fleetlock's group, or COMMAND's, does not end this */
    prctl(PR_SET_NAME, "lock-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    keep_ours_to_ourselves(is_kept, kept_count);
    keeper.terminal =
        open("/dev/tty", O_RDWR | O_NONBLOCK | O_CLOEXEC); /* one that is stopped holds nothing up */
    const int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (children < 0)
        give_up("no descriptor");
    start(&keeper);
    keep(&keeper, children);
    _exit(keeper.status);
}
