// SPDX-License-Identifier: BSD-2-Clause
/* Refuses io_uring to a program, for a preloaded library whose `control` is set: rings pass by the calls that it stands before,
 * and a program without them makes these. Include it behind `control`, and dlfcn.h, errno.h, stdarg.h and sys/syscall.h. */
long syscall(long number, ...)
{
	static long (*real)(long, long, long, long, long, long, long);
	va_list rest;
	long of[6];

	va_start(rest, number);
	for (int i = 0; i < 6; i++)
		of[i] = va_arg(rest, long);
	va_end(rest);
	if (real == NULL)
		real = (long (*)(long, long, long, long, long, long, long))dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_io_uring_setup && control != NULL) {
		errno = ENOSYS;
		return (-1);
	}
	return (real(number, of[0], of[1], of[2], of[3], of[4], of[5]));
}
