// Package sqldbtest starts a throwaway Postgres for tests and benchmarks: a cluster of its own in a temporary folder, reached
// by a unix socket, gone when its owner ends. It touches no server that is installed or running. Only tests and
// benchmarks import it.
package sqldbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrMissing means that no Postgres is installed here.
var ErrMissing = errors.New("no initdb found: install the package postgresql")

// Cluster is one running server. Not safe for concurrent Stop and Start.
type Cluster struct {
	Locale string // whose order new databases sort text in, by ICU; empty: that of its bytes

	dir, bin string
	settings []string
	cred     *syscall.Credential
	cmd      *exec.Cmd
}

// Fast are settings for tests that survive the death of processes, not of the machine.
var Fast = []string{"fsync=off", "full_page_writes=off", "synchronous_commit=off"}

// New makes a cluster and starts it. settings are name=value.
func New(ctx context.Context, settings ...string) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, bin: bin, settings: settings}
	if err := c.init(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func (c *Cluster) init(ctx context.Context) error {
	if os.Getuid() == 0 { // Postgres refuses to run as root
		var err error
		if c.cred, err = unprivileged(); err != nil {
			return err
		}
		if err := os.Chown(c.dir, int(c.cred.Uid), int(c.cred.Gid)); err != nil {
			return err
		}
	}
	initdb := c.command(ctx, "initdb", "-D", c.data(), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return c.Start(ctx)
}

// Start runs the server and waits until it answers.
func (c *Cluster) Start(ctx context.Context) error {
	args := []string{"-D", c.data(), "-k", c.dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-c", "logging_collector=off"}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	// The server outlives the context of its start; Stop ends it, and the kernel does if this process dies.
	c.cmd = c.command(context.WithoutCancel(ctx), "postgres", args...)
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("postgres does not answer: %w", err), c.Kill())
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill stops the server at once, as a crash would, and keeps its files.
func (c *Cluster) Kill() error { return c.signal(syscall.SIGQUIT) }

// Stop ends the server and removes its files.
func (c *Cluster) Stop() error {
	return errors.Join(c.signal(syscall.SIGQUIT), os.RemoveAll(c.dir))
}

func (c *Cluster) signal(s syscall.Signal) error {
	if c.cmd == nil {
		return nil
	}
	err := c.cmd.Process.Signal(s)
	_ = c.cmd.Wait() // its exit status says only that it was told to end
	c.cmd = nil
	return err
}

// PID is the server's process; its backends are its children.
func (c *Cluster) PID() int { return c.cmd.Process.Pid }

// URL returns the address of a database of this cluster.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@/%s?host=%s", database, c.dir)
}

// Create makes a database, as a copy of template unless that is empty, and returns its URL.
func (c *Cluster) Create(ctx context.Context, name, template string) (string, error) {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is lost with it
	options := ""
	if template == "" {
		template = "template0"
		if c.Locale != "" {
			options = " LOCALE_PROVIDER icu ICU_LOCALE '" + c.Locale + "'"
		}
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE "+pgx.Identifier{template}.Sanitize()+options)
	return c.URL(name), err
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	return cmd
}

func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", ErrMissing
	}
	return filepath.Dir(path), nil
}

func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("postgres cannot run as root and there is no user postgres or nobody")
}
