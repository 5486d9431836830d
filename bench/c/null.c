/* SPDX-License-Identifier: BSD-2-Clause */
/* NULL server: one thread, epoll, finds CRLFCRLF and writes a canned response.
 * usage: null PORT BODYBYTES   -- the practical one-core limit of this kernel */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>

struct conn { int fd; int inlen; size_t want, sent; int out, last; char in[16384]; };
static char *resp; static size_t rlen; static int ep;

/* answer 'want' bytes in total; for small bodies several pipelined replies go in one write */
static void drop(struct conn *c) { close(c->fd); free(c); }
static int flush_out(struct conn *c)
{
	static char batch[65536];
	while (c->sent < c->want) {
		size_t off = c->sent % rlen, left = c->want - c->sent, n;
		const char *p;
		if (off == 0 && left > rlen && rlen * 2 <= sizeof batch) {
			n = 0;
			while (n + rlen <= sizeof batch && n < left) { memcpy(batch + n, resp, rlen); n += rlen; }
			p = batch;
		} else { p = resp + off; n = rlen - off; if (n > left) n = left; }
		ssize_t w = send(c->fd, p, n, MSG_NOSIGNAL);
		if (w < 0) {
			if (errno != EAGAIN) return -1;
			if (!c->out) { struct epoll_event e = { EPOLLIN | EPOLLOUT, { .ptr = c } }; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e); c->out = 1; }
			return 0;
		}
		c->sent += w;
	}
	c->sent = c->want = 0;
	if (c->last) return -1;
	if (c->out) { struct epoll_event e = { EPOLLIN, { .ptr = c } }; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e); c->out = 0; }
	return 0;
}

int main(int argc, char **argv)
{
	int port = atoi(argv[1]); size_t body = strtoul(argv[2], 0, 10);
	char h[512];
	int hl = snprintf(h, sizeof h, "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: null\r\n"
	    "Content-Type: text/html; charset=utf-8\r\nCache-Control: public, max-age=86400\r\nETag: \"abcdef\"\r\nAge: 12\r\n"
	    "Via: 1.1 null\r\nX-Cache: HIT\r\nAccept-Ranges: bytes\r\nContent-Length: %zu\r\nConnection: keep-alive\r\n\r\n", body);
	rlen = hl + body; resp = malloc(rlen); memcpy(resp, h, hl); memset(resp + hl, 'x', body);
	int one = 1, ls = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(ls, (void *)&a, sizeof a) || listen(ls, 4096)) { perror("bind"); return 1; }
	ep = epoll_create1(0);
	struct epoll_event e = { EPOLLIN, { .ptr = 0 } }, ev[256]; epoll_ctl(ep, EPOLL_CTL_ADD, ls, &e);
	for (;;) {
		int n = epoll_wait(ep, ev, 256, -1);
		for (int i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;
			if (!c) {
				for (int k = 0; k < 64; k++) {
					int fd = accept4(ls, 0, 0, SOCK_NONBLOCK);
					if (fd < 0) break;
					c = malloc(sizeof *c); c->fd = fd; c->inlen = 0; c->want = c->sent = 0; c->out = c->last = 0;
					struct epoll_event x = { EPOLLIN, { .ptr = c } }; epoll_ctl(ep, EPOLL_CTL_ADD, fd, &x);
				}
				continue;
			}
			if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
				ssize_t r = recv(c->fd, c->in + c->inlen, sizeof c->in - c->inlen, 0);
				if (r <= 0) { if (r < 0 && errno == EAGAIN) continue; drop(c); continue; }
				c->inlen += r;
				char *p = c->in, *end = c->in + c->inlen, *q;
				while ((q = memmem(p, end - p, "\r\n\r\n", 4))) { c->want += rlen; p = q + 4; }
				/* the only other look at the request: lg puts 'Connection: close' last */
				if (p == end && p - c->in > 9 && !memcmp(p - 9, "close\r\n\r\n", 9)) c->last = 1;
				c->inlen = end - p; if (p != c->in) memmove(c->in, p, c->inlen);
			}
			if (c->want && flush_out(c) < 0) drop(c);
		}
	}
}
