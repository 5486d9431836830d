// SPDX-License-Identifier: BSD-2-Clause

// A client of quic-go that does one case of the QUIC interop runner, and prints what came of it as JSON.
//
// usage: client CASE ADDRESS ROOTS
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const (
	largeFiles  = 3
	streams     = 60
	connections = 30
)

type answer struct {
	Status       int    `json:"status"`
	Bytes        int64  `json:"bytes"`
	Digest       string `json:"digest"`
	IsResumed    bool   `json:"resumed"`
	WasZeroRTT   bool   `json:"zerortt"`
	ErrorMessage string `json:"error"`
}

type judge struct {
	address string
	config  *tls.Config
}

// A connection of its own for each client; the last one is `conn`.
type client struct {
	transport *http3.Transport
	conn      *quic.Conn
}

func (j judge) client() *client {
	c := &client{}
	c.transport = &http3.Transport{
		TLSClientConfig: j.config,
		QUICConfig:      &quic.Config{HandshakeIdleTimeout: 20 * time.Second, MaxIdleTimeout: 60 * time.Second},
		Dial: func(ctx context.Context, _ string, tlsConf *tls.Config, conf *quic.Config) (*quic.Conn, error) {
			conn, err := quic.DialAddrEarly(ctx, j.address, tlsConf, conf)
			c.conn = conn
			return conn, err
		},
	}
	return c
}

func (c *client) get(method, path string) answer {
	request, _ := http.NewRequest(method, "https://bed.test"+path, nil)
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return answer{ErrorMessage: err.Error()}
	}
	defer response.Body.Close()
	digest := sha256.New()
	length, err := io.Copy(digest, response.Body)
	got := answer{Status: response.StatusCode, Bytes: length, Digest: hex.EncodeToString(digest.Sum(nil))}
	if err != nil {
		got.ErrorMessage = err.Error()
	}
	if c.conn != nil {
		state := c.conn.ConnectionState()
		got.IsResumed, got.WasZeroRTT = state.TLS.DidResume, state.Used0RTT
	}
	return got
}

func atOnce(count int, one func(int) answer) []answer {
	all := make([]answer, count)
	var group sync.WaitGroup
	for n := range count {
		group.Add(1)
		go func() { defer group.Done(); all[n] = one(n) }()
	}
	group.Wait()
	return all
}

func (j judge) do(name string) []answer {
	c := j.client()
	defer c.transport.Close()
	switch name {
	case "handshake":
		return []answer{c.get("GET", "/own")}
	case "transfer":
		return atOnce(largeFiles, func(n int) answer { return c.get("GET", fmt.Sprintf("/large?%d", n)) })
	case "streams":
		return atOnce(streams, func(n int) answer { return c.get("GET", fmt.Sprintf("/middle?%d", n)) })
	case "multiconnect":
		return atOnce(connections, func(n int) answer {
			own := j.client()
			defer own.transport.Close()
			return own.get("GET", fmt.Sprintf("/middle?%d", n))
		})
	case "resumption", "zerortt":
		first := c.get("GET", "/middle")
		// The ticket comes behind the handshake.
		time.Sleep(200 * time.Millisecond)
		c.transport.Close()
		again := j.client()
		defer again.transport.Close()
		if name == "zerortt" {
			return []answer{first, again.get(http3.MethodGet0RTT, "/middle?early")}
		}
		return []answer{first, again.get("GET", "/middle?again")}
	}
	return []answer{{ErrorMessage: "no such case: " + name}}
}

func main() {
	roots := x509.NewCertPool()
	file, err := os.ReadFile(os.Args[3])
	if err != nil || !roots.AppendCertsFromPEM(file) {
		panic("no roots")
	}
	config := &tls.Config{ServerName: "bed.test", RootCAs: roots, NextProtos: []string{http3.NextProtoH3}, ClientSessionCache: tls.NewLRUClientSessionCache(10)}
	json.NewEncoder(os.Stdout).Encode(judge{os.Args[2], config}.do(os.Args[1]))
}
