// SPDX-License-Identifier: BSD-2-Clause

// An application of Go's net/http that writes what it was asked to $FILE.
package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
)

// latin1 has a rune for each octet.
func latin1(octets string) string {
	runes := make([]rune, len(octets))
	for i := range len(octets) {
		runes[i] = rune(octets[i])
	}
	return string(runes)
}

func main() {
	out, err := os.OpenFile(os.Getenv("FILE"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		panic(err)
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		length, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		line, _ := json.Marshal(map[string]any{"vxid": append([]string{}, r.Header.Values("X-Vxid")...), "method": r.Method, "target": latin1(r.RequestURI), "host": latin1(r.Host), "length": length})
		out.Write(append(line, '\n'))
		w.Write([]byte("ok"))
	}
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(handle)))
}
