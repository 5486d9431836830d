// SPDX-License-Identifier: BSD-2-Clause
/* A disk that does wrong when a test says so. Preloaded into the server (LD_PRELOAD), it stands before pread, pwrite and
 * fdatasync on one file, and forbids io_uring, so that the server's threads do all reading and writing by these.
 *
 * FAULTS names a file of 32 bytes, shared with the test, which changes it while the server runs:
 *   0  which operations: 1 reads, 2 writes, 4 syncs, or a sum of these
 *   4  what goes wrong with them, see `enum fault`
 *   8  how many have met it (counted here)
 *  16  the file's inode; 24 its device
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { READ = 1, WRITE = 2, SYNC = 4 };
enum fault { NONE, EIO_, ENOSPC_, STALL, TORN, FLIP };

struct control {
	volatile uint32_t kinds, fault;
	volatile uint64_t met;
	volatile uint64_t inode, device;
};

static struct control *control;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULTS");
	int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (at != MAP_FAILED)
		control = at;
}

/* What is to go wrong with an operation of that kind on `fd`. What stalls is held here for as long as that is so. */
static enum fault meet(int fd, enum kind kind)
{
	struct stat st;

	if (control == NULL || !(control->kinds & kind) || fstat(fd, &st) != 0)
		return (NONE);
	if (st.st_ino != control->inode || st.st_dev != control->device)
		return (NONE);
	__atomic_fetch_add(&control->met, 1, __ATOMIC_SEQ_CST);
	if (control->fault == STALL) {
		while ((control->kinds & kind) && control->fault == STALL)
			usleep(5000);
		return (NONE);
	}
	return (control->fault);
}

static int failed(enum fault fault)
{
	if (fault != EIO_ && fault != ENOSPC_)
		return (0);
	errno = fault == EIO_ ? EIO : ENOSPC;
	return (1);
}

#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))

typedef ssize_t (*pread_f)(int, void *, size_t, off64_t);
typedef ssize_t (*pwrite_f)(int, const void *, size_t, off64_t);
typedef int (*sync_f)(int);

ssize_t pread64(int fd, void *into, size_t len, off64_t at)
{
	enum fault fault = meet(fd, READ);
	ssize_t got;

	if (failed(fault))
		return (-1);
	/* The file seems to end here. */
	if (fault == TORN)
		return (0);
	got = REAL(pread_f, "pread64")(fd, into, len, at);
	if (fault == FLIP && got > 0)
		((unsigned char *)into)[got / 2] ^= 1;
	return (got);
}

ssize_t pwrite64(int fd, const void *from, size_t len, off64_t at)
{
	pwrite_f real = REAL(pwrite_f, "pwrite64");
	enum fault fault = meet(fd, WRITE);
	void *other;
	ssize_t put;

	if (failed(fault))
		return (-1);
	if (fault == TORN) {
		/* A part of it is written, and all is said to be well. */
		if (len / 2 >= 4096)
			(void)real(fd, from, len / 2 / 4096 * 4096, at);
		return ((ssize_t)len);
	}
	if (fault != FLIP || posix_memalign(&other, 4096, len) != 0)
		return (real(fd, from, len, at));
	memcpy(other, from, len);
	((unsigned char *)other)[len / 2] ^= 1;
	put = real(fd, other, len, at);
	free(other);
	return (put);
}

int fdatasync(int fd)
{
	return (failed(meet(fd, SYNC)) ? -1 : REAL(sync_f, "fdatasync")(fd));
}

#include "no_rings.h"
