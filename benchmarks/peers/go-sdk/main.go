// The bench tools on the official Go SDK: `bench stdio|PORT [fast|default]`. One processor, as the other peers have one.
// fast: no sessions, JSON answers; default: sessions and event streams.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoArgs struct {
	Text string `json:"text"`
	N    int    `json:"n"`
}

type addArgs struct {
	A int `json:"a"`
	B int `json:"b"`
}

type sleepArgs struct {
	Seconds float64 `json:"seconds"`
}

type blobArgs struct {
	Size int `json:"size"`
}

func text(value string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: value}}}
}

func register[In any](server *mcp.Server, name, description string, run func(In) string) {
	handler := func(_ context.Context, _ *mcp.CallToolRequest, given In) (*mcp.CallToolResult, any, error) {
		return text(run(given)), nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: description}, handler)
}

func main() {
	runtime.GOMAXPROCS(1)
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.0.0"}, nil)
	register(server, "echo", "The text.", func(given echoArgs) string { return given.Text })
	register(server, "add", "The sum.", func(given addArgs) string { return strconv.Itoa(given.A + given.B) })
	register(server, "sleep", "An answer after some time.", func(given sleepArgs) string {
		time.Sleep(time.Duration(given.Seconds * float64(time.Second)))
		return "slept"
	})
	register(server, "blob", "A text of this size.", func(given blobArgs) string { return strings.Repeat("x", given.Size) })
	if os.Args[1] == "stdio" {
		log.Fatal(server.Run(context.Background(), &mcp.StdioTransport{}))
	}
	fast := len(os.Args) > 2 && os.Args[2] == "fast"
	options := &mcp.StreamableHTTPOptions{Stateless: fast, JSONResponse: fast}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
	http.Handle("/mcp", handler)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
