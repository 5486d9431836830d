// SPDX-License-Identifier: BSD-2-Clause

// Asks for the paths on standard input with net/http, and prints a line of JSON for each.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func ask(client *http.Client, path string) map[string]any {
	response, err := client.Get(os.Args[1] + path)
	if err != nil {
		return map[string]any{"path": path, "error": err.Error()}
	}
	defer response.Body.Close()
	length, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		return map[string]any{"path": path, "error": err.Error()}
	}
	return map[string]any{"path": path, "status": response.StatusCode, "length": length}
}

func main() {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableCompression: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		line, _ := json.Marshal(ask(client, lines.Text()))
		fmt.Println(string(line))
	}
}
