// SPDX-License-Identifier: BSD-2-Clause
// Loaded before a server that valgrind runs (instructions.py): two calls that valgrind doesn't know, made of others.
//
// fexecve: the same program by its path (PROGRAM), under the name the caller gives it: valgrind puts a path into argv[0].
// pidfd_open: the reading end of a pipe, which a thread closes once the process has ended.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int fexecve(int fd, char *const argv[], char *const envp[])
{
	const char *program = getenv("PROGRAM"), *links = getenv("LINKS"), *name = strrchr(argv[0], '/');
	char path[4096];

	(void)fd;
	snprintf(path, sizeof path, "%s/%s", links, name ? name + 1 : argv[0]);
	if (symlink(program, path) && errno != EEXIST)
		return -1;
	return execve(path, argv, envp);
}

struct child {
	pid_t pid;
	int end;
};

static void *watch(void *arg)
{
	struct child *child = arg;
	siginfo_t how;

	waitid(P_PID, (id_t)child->pid, &how, WEXITED | WNOWAIT);
	close(child->end);
	free(child);
	return NULL;
}

static long pidfd_open(pid_t pid)
{
	struct child *child = malloc(sizeof *child);
	pthread_t thread;
	int ends[2];

	if (child == NULL || pipe2(ends, O_CLOEXEC))
		return -1;
	*child = (struct child){ .pid = pid, .end = ends[1] };
	return pthread_create(&thread, NULL, watch, child) ? -1 : ends[0];
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long arg[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_pidfd_open)
		return pidfd_open((pid_t)arg[0]);
	if (real == NULL)
		real = (long (*)(long, ...))(intptr_t)dlsym(RTLD_NEXT, "syscall");
	return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
