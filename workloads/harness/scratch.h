/*
 * A temporary folder, and processes that work in it. None of it outlives this program, however that
 * ends: a keeper, which is a process of its own, notices the end, stops what still runs, and
 * removes the folder. Each process is the head of a group, with what it starts.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Makes the folder, in TMPDIR or /tmp, and starts the keeper. `unprivileged` asks for an account
 * other than root for all that follows, which is `postgres` or `nobody`. False, and why, when that
 * can't be done.
 */
bool scratch_open(const char *name, bool unprivileged, char *why, size_t why_size);

/* The folder. */
const char *scratch_folder(void);

/* A file in it that is written anew, or read; NULL when that can't be done. */
FILE *scratch_file(const char *name, const char *mode);

/*
 * Starts a program in the folder, whose output goes to the file `log` there. `stop` is the signal
 * that ends it with all that it has started. -1 when it can't be started.
 */
pid_t scratch_start(const char *const *arguments, const char *log, int stop);

/* Waits for it: its exit code, or -1 when it ended by a signal or was never there. */
int scratch_wait(pid_t process);

/* Whether it has ended, without waiting for it. */
bool scratch_ended(pid_t process);

/* Starts a program and waits for it. */
int scratch_run(const char *const *arguments, const char *log);

/* The last line of a log that isn't empty. */
void scratch_last_line(const char *log, char *line, size_t size);

/* Stops what still runs, removes the folder, and waits until that is done. */
void scratch_close(void);

/* The path of a program in one of the folders of PATH. False when none has it. */
bool scratch_on_path(const char *program, char *path, size_t size);
