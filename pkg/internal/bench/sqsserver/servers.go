package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagefleet/stagefleet/pkg/localsqs"
)

// The collector is set as fleet sqs sets it.
const (
	gcPercent  = 50
	gcHeadroom = 32 << 20
)

// serveChild is the body of a server process.
func serveChild(name, dir string) {
	debug.SetGCPercent(gcPercent)
	headroom := make([]byte, gcHeadroom)
	defer runtime.KeepAlive(headroom)
	ready := func(addr net.Addr) { fmt.Println(addr) }
	if name == "localsqs" {
		fmt.Fprintln(os.Stderr, localsqs.Serve(context.Background(), localsqs.ServeConfig{Addr: "127.0.0.1:0", Dir: dir, Ready: ready}))
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	ready(listener.Addr())
	server := &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, server.Serve(listener))
}

// replyBytes is the header that tells echo how much to answer.
const replyBytes = "Reply-Bytes"

var echoes = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// echo reads all and answers with as many bytes as it was told, as sparingly as net/http lets it.
func echo(w http.ResponseWriter, r *http.Request) {
	buf := echoes.Get().(*bytes.Buffer)
	defer echoes.Put(buf)
	buf.Reset()
	_, _ = buf.ReadFrom(r.Body)
	reply := r.Header.Get(replyBytes)
	n, _ := strconv.Atoi(reply)
	for buf.Len() < n {
		buf.Write(buf.Bytes())
	}
	w.Header().Set("Content-Length", reply)
	_, _ = w.Write(buf.Bytes()[:n])
}

// process is a running server.
type process struct {
	url string
	cmd *exec.Cmd
}

func (p plan) start(name string) (*process, error) {
	if name == "fauxqs" {
		return startFauxqs(p.Fauxqs)
	}
	return startChild(name, "")
}

func startChild(name, dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-serve", name, "-dir", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("wait for %s: %w", name, err)
	}
	return &process{"http://" + strings.TrimSpace(addr), cmd}, nil
}

func startFauxqs(dir string) (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(dir, "node_modules/.bin/node"), filepath.Join(dir, "node_modules/fauxqs/dist/cli.js"))
	cmd.Env = append(os.Environ(), fmt.Sprint("FAUXQS_PORT=", port), "FAUXQS_HOST=127.0.0.1", "FAUXQS_LOGGER=false")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &process{fmt.Sprint("http://127.0.0.1:", port), cmd}
	for range 100 {
		if conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return s, conn.Close()
		}
		<-time.After(100 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("fauxqs does not listen on port %d", port)
}

func (s *process) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
