/* SPDX-License-Identifier: BSD-2-Clause */
/* Clients that mean no good: N connections that send a text again and again, as fast as it is taken. One thread, epoll.
 *
 * attack HOST PORT N SECONDS HOW FILE
 *   HOW  read    what comes is read and thrown away
 *        deaf    nothing is ever read
 *        once    one text a connection, read to its end; then another connection (the text says Connection: close)
 *   FILE the text. In it each @@@@@@@@ becomes a number of eight digits, different each time that the text is sent
 * Its last line says how many texts were begun, connections opened, octets read. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum how { READ, DEAF, ONCE };
struct client { int fd; char *text; size_t sent; unsigned wants; };

static struct sockaddr_in server;
static enum how how;
static char *text;
static size_t length;
static unsigned long texts, connections, octets, number;
static int ep;

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

static void begin_text(struct client *c)
{
	char *at = c->text;
	char digits[16];
	memcpy(c->text, text, length + 1);
	while ((at = strstr(at, "@@@@@@@@"))) {
		snprintf(digits, sizeof digits, "%08lu", number++ % 100000000);
		memcpy(at, digits, 8);
	}
	c->sent = 0;
	texts++;
}

/* What it waits for: to read, unless it never does, and to write while something is left. */
static void wait_for(struct client *c, int op)
{
	unsigned wants = (how == DEAF ? 0 : EPOLLIN) | (how == ONCE && c->sent == length ? 0 : EPOLLOUT);
	struct epoll_event ev = { wants, { .ptr = c } };
	if (op == EPOLL_CTL_MOD && wants == c->wants) return;
	c->wants = wants;
	epoll_ctl(ep, op, c->fd, &ev);
}

static void open_client(struct client *c)
{
	int one = 1;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (c->fd < 0) { perror("attack: socket"); exit(1); }
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(c->fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) { perror("attack: connect"); exit(1); }
	connections++;
	begin_text(c);
	wait_for(c, EPOLL_CTL_ADD);
}

/* False: the connection is over. */
static int send_some(struct client *c)
{
	for (int rounds = 0; rounds < 4; rounds++) {
		if (c->sent == length) {
			if (how == ONCE) return 1;
			begin_text(c);
		}
		ssize_t n = send(c->fd, c->text + c->sent, length - c->sent, MSG_NOSIGNAL);
		if (n < 0) return errno == EAGAIN || errno == ENOTCONN;
		c->sent += n;
	}
	return 1;
}

static int read_some(struct client *c)
{
	for (int rounds = 0; rounds < 4; rounds++) {
		ssize_t n = recv(c->fd, NULL, 1 << 20, MSG_TRUNC);
		if (n == 0) return 0;
		if (n < 0) return errno == EAGAIN || errno == ENOTCONN;
		octets += n;
	}
	return 1;
}

int main(int argc, char **argv)
{
	if (argc != 7) { fprintf(stderr, "attack HOST PORT N SECONDS read|deaf|once FILE\n"); return 2; }
	int count = atoi(argv[3]);
	double end = now() + atof(argv[4]);
	how = !strcmp(argv[5], "deaf") ? DEAF : !strcmp(argv[5], "once") ? ONCE : READ;
	server.sin_family = AF_INET;
	server.sin_port = htons(atoi(argv[2]));
	inet_pton(AF_INET, argv[1], &server.sin_addr);
	FILE *f = fopen(argv[6], "r");
	if (!f) { perror(argv[6]); return 1; }
	text = calloc(1, (1 << 20) + 1);
	length = fread(text, 1, 1 << 20, f);
	fclose(f);
	ep = epoll_create1(0);
	struct client *all = calloc(count, sizeof *all);
	for (int i = 0; i < count; i++) { all[i].text = malloc(length + 1); open_client(&all[i]); }
	struct epoll_event events[64];
	while (now() < end) {
		int k = epoll_wait(ep, events, 64, 20);
		for (int i = 0; i < k; i++) {
			struct client *c = events[i].data.ptr;
			int stays = (how == DEAF || read_some(c)) && !(events[i].events & (EPOLLERR | EPOLLHUP)) && send_some(c);
			if (stays) wait_for(c, EPOLL_CTL_MOD);
			else { close(c->fd); open_client(c); }
		}
	}
	printf("%lu texts, %lu connections, %lu octets\n", texts, connections, octets);
	return 0;
}
