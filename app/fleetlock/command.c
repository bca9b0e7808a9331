/* SPDX-License-Identifier: MIT */
/* command.c - see command.h. */
#include "app/fleetlock/command.h"

#include "guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SIGNALLED = 128, DESCRIPTORS_MAX = 1024 };

/* Those that were open when fleetlock began. */
static bool is_inherited[DESCRIPTORS_MAX];

void command_keep_descriptors(void)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        is_inherited[fd] = fcntl(fd, F_GETFD) >= 0;
}

static bool no_process(const char *what)
{
    complain("COMMAND was not started: %s: %s", what, strerror(errno));
    return false;
}

bool command_start(struct command *command, const struct keeper_plan *plan, uint64_t safe_ms)
{
    int ends[2];
    *command = (struct command){.orders = -1};
    command->shared =
        mmap(NULL, sizeof *command->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (command->shared == MAP_FAILED)
        return no_process("no memory for it");
    command_is_safe(command, safe_ms);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return no_process("no pipe to what watches over it");
    fflush(NULL);
    command->keeper = fork();
    if (command->keeper == 0) {
        close(ends[1]);
        keeper_run(command->shared, plan, ends[0], is_inherited, DESCRIPTORS_MAX);
    }
    close(ends[0]);
    command->orders = ends[1];
    if (command->keeper < 0) {
        command_finish(command);
        return no_process("no process to watch over it");
    }
    signal(SIGTSTP, SIG_IGN); /* ^Z must not stop us while COMMAND runs */
    return true;
}

void command_is_safe(struct command *command, uint64_t safe_ms)
{
    atomic_store(&command->shared->safe_ms, safe_ms);
}

/* Nobody reads it if the keeper is over already. */
static void order(const struct command *command, int number)
{
    const unsigned char byte = (unsigned char)number;
    ssize_t sent;
    do
        sent = write(command->orders, &byte, 1);
    while (sent < 0 && errno == EINTR);
}

void command_signal(const struct command *command, int signal_number)
{
    order(command, signal_number);
}

void command_lost(const struct command *command)
{
    order(command, KEEPER_LOST);
}

void command_reap(struct command *command)
{
    int status;
    if (command->is_over || waitpid(command->keeper, &status, WNOHANG) <= 0)
        return;
    command->is_over = true;
    if (WIFEXITED(status)) {
        command->status = WEXITSTATUS(status);
        return;
    }
    command->status = EXIT_SIGNALLED + WTERMSIG(status);
    if (atomic_load(&command->shared->group) > 0)
        kill(-atomic_load(&command->shared->group), SIGKILL); /* nobody watches over it any more */
}

void command_finish(struct command *command)
{
    close(command->orders);
    munmap(command->shared, sizeof *command->shared);
    *command = (struct command){.orders = -1, .is_over = command->is_over, .status = command->status};
}

/* ---- what is said ---- */

static atomic_uint unsaid; /* lines, since one was written */

void complain(const char *format, ...)
{
    char text[1024], line[1280], before[64] = "";
    const unsigned count = atomic_exchange(&unsaid, 0);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (count > 0)
        snprintf(before, sizeof before, "(%u lines before this one could not be written) ", count);
    const int bytes = snprintf(line, sizeof line, "fleetlock: %s%s\n", before, text);
    if (!guard_write_stderr(line, (size_t)bytes))
        atomic_fetch_add(&unsaid, count + 1);
}
