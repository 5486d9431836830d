// SPDX-License-Identifier: BSD-2-Clause
/* Calls to the system that fail where a test says so. Preloaded (LD_PRELOAD), it stands before the calls of the program and of
 * all processes that this forks or starts. A site is a text: the thread's name, the call, and the file that it is about, with #
 * for each number in it. The library notes each site that is passed, in their order, and lets the n-th call of one site fail.
 *
 * SITES names a file that is shared with the test, as `struct control` has it. SITES_HOME is a directory whose name is left out
 * of the texts. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TEXT = 240, NOTES = 4 << 20 };

struct control {
	volatile uint32_t on, error;	/* on: sites are noted, and the chosen one fails; error: with this number */
	volatile uint64_t which, seen, met;	/* the n-th call of the chosen site; calls of it so far; failures so far */
	volatile uint64_t noted;	/* bytes of `notes` */
	char chosen[TEXT];
	char notes[NOTES];	/* lines: sites */
};

static struct control *control;
static char home[TEXT];

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("SITES");
	int fd = path == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	void *at;

	if (fd < 0)
		return;
	at = (void *)syscall(SYS_mmap, NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (getenv("SITES_HOME") != NULL)
		snprintf(home, sizeof(home), "%s", getenv("SITES_HOME"));
	if (at != MAP_FAILED)
		control = at;
}

/* Adds `path` without the home, and with # for decimal numbers and for words that are hexadecimal ones. */
static char *plain(char *to, const char *end, const char *path)
{
	size_t len = strlen(home), hex;
	int is_within = 0;

	if (len > 0 && strncmp(path, home, len) == 0)
		path += len;
	while (*path != '\0' && to < end) {
		hex = is_within ? 0 : strspn(path, "0123456789abcdef");
		if (hex > 0 && strcspn(path, "0123456789") < hex && !isalnum((unsigned char)path[hex])) {
			*to++ = '#';
			path += hex;
		} else if (isdigit((unsigned char)*path)) {
			*to++ = '#';
			path += strspn(path, "0123456789");
			is_within = 1;
		} else {
			is_within = isalnum((unsigned char)*path);
			*to++ = *path++;
		}
	}
	*to = '\0';
	return (to);
}

/* Whether this call is to fail; errno is set then. */
static int fails(const char *call, const char *path, int fd)
{
	char text[TEXT], name[17] = "", link[64], target[TEXT] = "", *end;
	ssize_t len;
	uint64_t at;
	int before = errno;

	if (control == NULL || !control->on)
		return (0);
	syscall(SYS_prctl, PR_GET_NAME, name, 0, 0, 0);
	if (path == NULL && fd >= 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = syscall(SYS_readlink, link, target, sizeof(target) - 1);
		target[len < 0 ? 0 : len] = '\0';
		path = target;
	}
	end = plain(text, text + sizeof(text) - 2, name);
	end += snprintf(end, text + sizeof(text) - 2 - end, " %s ", call);
	if (path != NULL)
		end = plain(end, text + sizeof(text) - 2, path);
	*end++ = '\n';
	at = __atomic_fetch_add(&control->noted, end - text, __ATOMIC_SEQ_CST);
	if (at + (end - text) <= NOTES)
		memcpy(control->notes + at, text, end - text);
	end[-1] = '\0';
	errno = before;
	if (strcmp(text, control->chosen) != 0 || __atomic_add_fetch(&control->seen, 1, __ATOMIC_SEQ_CST) != control->which)
		return (0);
	__atomic_fetch_add(&control->met, 1, __ATOMIC_SEQ_CST);
	errno = (int)control->error;
	return (1);
}

/* A call that is about a path, a descriptor, or neither. */
#define CALL(type, name, args, path, fd, failed, ...)						\
type name args											\
{												\
	static type (*real) args;								\
	if (real == NULL)									\
		real = (type (*) args)dlsym(RTLD_NEXT, #name);					\
	return (fails(#name, path, fd) ? (failed) : real(__VA_ARGS__));				\
}
#define OF_FD(type, name, args, ...) CALL(type, name, args, NULL, fd, -1, __VA_ARGS__)
#define OF_PATH(type, name, args, ...) CALL(type, name, args, path, -1, -1, __VA_ARGS__)
#define OF_NONE(type, name, args, ...) CALL(type, name, args, NULL, -1, -1, __VA_ARGS__)

#define OPEN(name, args, ...)									\
int name args											\
{												\
	static int (*real) args;								\
	va_list rest;										\
	mode_t mode = 0;									\
	if (real == NULL)									\
		real = (int (*) args)dlsym(RTLD_NEXT, #name);					\
	va_start(rest, flags);									\
	if (flags & (O_CREAT | O_TMPFILE))							\
		mode = va_arg(rest, mode_t);							\
	va_end(rest);										\
	return (fails("open", path, -1) ? -1 : real(__VA_ARGS__, mode));			\
}

OPEN(open, (const char *path, int flags, ...), path, flags)
OPEN(open64, (const char *path, int flags, ...), path, flags)
OPEN(openat, (int dir, const char *path, int flags, ...), dir, path, flags)
OPEN(openat64, (int dir, const char *path, int flags, ...), dir, path, flags)
OF_PATH(int, mkdir, (const char *path, mode_t mode), path, mode)
OF_PATH(int, rmdir, (const char *path), path)
OF_PATH(int, unlink, (const char *path), path)
OF_PATH(int, unlinkat, (int dir, const char *path, int flags), dir, path, flags)
OF_PATH(int, rename, (const char *path, const char *to), path, to)
OF_PATH(int, chmod, (const char *path, mode_t mode), path, mode)
OF_PATH(int, chown, (const char *path, uid_t user, gid_t group), path, user, group)
OF_PATH(int, statx, (int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict st), dir, path, flags, mask, st)
OF_FD(int, fchmod, (int fd, mode_t mode), fd, mode)
OF_FD(int, fchown, (int fd, uid_t user, gid_t group), fd, user, group)
OF_FD(int, ftruncate64, (int fd, off64_t len), fd, len)
OF_FD(int, fallocate, (int fd, int mode, off_t at, off_t len), fd, mode, at, len)
OF_FD(int, fsync, (int fd), fd)
OF_FD(int, fdatasync, (int fd), fd)
OF_FD(int, flock, (int fd, int how), fd, how)
OF_FD(off64_t, lseek64, (int fd, off64_t at, int whence), fd, at, whence)
OF_FD(ssize_t, read, (int fd, void *into, size_t len), fd, into, len)
OF_FD(ssize_t, readv, (int fd, const struct iovec *iov, int count), fd, iov, count)
OF_FD(ssize_t, write, (int fd, const void *from, size_t len), fd, from, len)
OF_FD(ssize_t, writev, (int fd, const struct iovec *iov, int count), fd, iov, count)
OF_FD(ssize_t, pread64, (int fd, void *into, size_t len, off64_t at), fd, into, len, at)
OF_FD(ssize_t, pwrite64, (int fd, const void *from, size_t len, off64_t at), fd, from, len, at)
OF_FD(int, dup, (int fd), fd)
OF_FD(int, dup2, (int fd, int other), fd, other)
OF_FD(int, bind, (int fd, const struct sockaddr *to, socklen_t len), fd, to, len)
OF_FD(int, listen, (int fd, int backlog), fd, backlog)
OF_FD(int, connect, (int fd, const struct sockaddr *to, socklen_t len), fd, to, len)
OF_FD(int, accept4, (int fd, struct sockaddr *restrict from, socklen_t *restrict len, int flags), fd, from, len, flags)
OF_FD(int, getsockname, (int fd, struct sockaddr *restrict at, socklen_t *restrict len), fd, at, len)
OF_FD(int, getsockopt, (int fd, int level, int name, void *restrict value, socklen_t *restrict len), fd, level, name, value, len)
OF_FD(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t len), fd, level, name, value, len)
OF_FD(ssize_t, send, (int fd, const void *from, size_t len, int flags), fd, from, len, flags)
OF_FD(ssize_t, recv, (int fd, void *into, size_t len, int flags), fd, into, len, flags)
OF_FD(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message, flags)
OF_FD(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)
OF_FD(int, epoll_ctl, (int epoll, int how, int fd, struct epoll_event *event), epoll, how, fd, event)
OF_NONE(int, socket, (int domain, int type, int protocol), domain, type, protocol)
OF_NONE(int, socketpair, (int domain, int type, int protocol, int pair[2]), domain, type, protocol, pair)
OF_NONE(int, pipe2, (int pair[2], int flags), pair, flags)
OF_NONE(int, eventfd, (unsigned count, int flags), count, flags)
OF_NONE(int, epoll_create1, (int flags), flags)
OF_NONE(int, signalfd, (int fd, const sigset_t *set, int flags), fd, set, flags)
OF_NONE(pid_t, fork, (void))
OF_PATH(int, memfd_create, (const char *path, unsigned flags), path, flags)
OF_PATH(int, execvp, (const char *path, char *const argv[]), path, argv)
OF_FD(int, fexecve, (int fd, char *const argv[], char *const env[]), fd, argv, env)
CALL(int, posix_fallocate, (int fd, off_t at, off_t len), NULL, fd, errno, fd, at, len)
CALL(int, posix_spawnp, (pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions,
    const posix_spawnattr_t *restrict attr, char *const argv[restrict], char *const env[restrict]), path, -1, errno, pid, path, actions, attr, argv, env)
CALL(int, pthread_create, (pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*run)(void *), void *restrict arg), NULL, -1, errno,
    thread, attr, run, arg)
CALL(void *, mmap, (void *want, size_t len, int prot, int flags, int fd, off_t at), NULL, fd, MAP_FAILED, want, len, prot, flags, fd, at)
CALL(void *, mmap64, (void *want, size_t len, int prot, int flags, int fd, off64_t at), NULL, fd, MAP_FAILED, want, len, prot, flags, fd, at)

#include "no_rings.h"
