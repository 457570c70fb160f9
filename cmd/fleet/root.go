package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"os/user"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
	"github.com/stagefleet/stagefleet/pkg/doctor"
	"github.com/stagefleet/stagefleet/pkg/fleet"
	"github.com/stagefleet/stagefleet/pkg/job"
)

// The exit codes of every noun. The help text below repeats them for people.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoResult    = 3
	exitConflict    = 4
	exitUnreachable = 5
	exitInterrupted = 130
)

const rootHelp = `fleet runs a pipeline of worker stages that turn recordings into captioned clips.

Exit codes of every command:
  0    done as asked (with --wait: the job has a result, maybe with gaps)
  1    the command failed
  2    the command line cannot be understood
  3    the job ended without a result: refused, failed, cancelled or superseded
  4    the record forbids it, such as other content for a version that exists
  5    the fleet does not answer (doctor: not everything could be looked at)
  130  interrupted`

// Errors that carry their exit code.
var (
	errUsage       = errors.New("usage")
	errNoResult    = errors.New("no result")
	errInterrupted = errors.New("interrupted")
	errForbidden   = errors.New("the record forbids it")
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }

// addrVar is the environment's address of the fleet.
const addrVar = "FLEET_ADDR"

func newRoot(getenv func(string) string) *cobra.Command {
	root := &cobra.Command{
		Use: "fleet", Short: "Turn recordings into captioned clips with a fleet of workers", Long: rootHelp,
		SilenceUsage: true, SilenceErrors: true, Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, Version: version(), SuggestionsMinimumDistance: 2,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(misused)
	root.AddCommand(newUp(getenv), newServe(getenv), newSQS(), newMigrate(getenv), newGenerate(), newDoctor(getenv),
		newSubmit(getenv), newImport(getenv), newImports(getenv),
		newWatch(getenv), newJobs(getenv), newJob(getenv), newCancel(getenv), newStages(getenv), newSize(getenv),
		newDLQ(getenv), newPause(getenv), newResume(getenv), newGC(getenv), newEnv(getenv),
		newNewStage(), newCompose(), newHealth(getenv), newKeys(getenv), newAccounts(getenv), newWebhooks(getenv))
	return root
}

// usage makes a wrong number of arguments an error of the command line that names what the command takes.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		_, takes, _ := strings.Cut(cmd.Use, " ")
		problem := fmt.Sprintf("takes no argument such as %q", cmp.Or(args...))
		switch {
		case cmd.HasSubCommands():
			problem = fmt.Sprintf("has no command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				problem += fmt.Sprintf(", did you mean %s?", strings.Join(near, " or "))
			}
		case takes != "" && len(args) == 0:
			problem = "needs " + takes
		case takes != "":
			problem = fmt.Sprintf("takes %s and nothing more; quote a name that has blanks", takes)
		}
		return usageError{fmt.Errorf("%s %s (see: %s --help)", cmd.CommandPath(), problem, cmd.CommandPath())}
	}
}

// misused makes a wrong flag an error of the command line, without the words of the function that reads numbers.
func misused(cmd *cobra.Command, err error) error {
	problem, reader, _ := strings.Cut(err.Error(), ": strconv.")
	switch {
	case strings.HasPrefix(reader, "ParseBool"):
		problem += ": it takes true or false"
	case reader != "":
		problem += ": it takes a number that is not too large"
	}
	return usageError{fmt.Errorf("%s (see: %s --help)", problem, cmd.CommandPath())}
}

// version is what the build knows of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text += ", commit " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			text += " with changes"
		}
	}
	return text + ", " + info.GoVersion
}

// addrOf is the address of the fleet unless a flag says otherwise.
func addrOf(getenv func(string) string) string {
	if addr := getenv(addrVar); addr != "" {
		return addr
	}
	return fleet.DefaultAddr
}

// client is a noun that asks a fleet: how, and in which form the answer is wanted.
type client struct {
	addr    string
	keyFile string
	json    bool
	getenv  func(string) string
}

// flags adds what all such nouns take.
func (c *client) flags(cmd *cobra.Command, getenv func(string) string) {
	cmd.Flags().StringVar(&c.addr, "addr", addrOf(getenv), "address of the fleet; "+addrVar+" sets the default")
	cmd.Flags().StringVar(&c.keyFile, "key-file", "", "file with the API key; "+keyVar+" holds one as well (default: the local fleet's own)")
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	c.getenv = getenv
}

// ask runs a call that a signal interrupts.
func (c *client) ask(call func(ctx context.Context, fleet *api.Client) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	secret, err := secretOf(c.getenv, c.keyFile, c.addr)
	if err != nil {
		return err
	}
	asked := api.NewClient(c.addr).WithKey(secret).As(person())
	defer asked.Close()
	err = call(ctx, asked)
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// person names who runs the command, for the audit.
func person() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "" // the server knows no better either
}

// printJSON writes one JSON document and a line end.
func printJSON(cmd *cobra.Command, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
	return err
}

// withoutResult is the error of a job that ended with nothing to show.
func withoutResult(j job.Job) error {
	if j.State == job.Completed || j.State == job.CompletedWithGaps {
		return nil
	}
	return fmt.Errorf("%w: job %s is %s", errNoResult, j.ID, words(j.State))
}

// misunderstood are the problems that the fleet has with what the command line says.
var misunderstood = []string{"unknown_stage", "older_than", "until", "reason", "webhook"}

func exitCode(err error) int {
	var refused *api.Problem
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errNoResult):
		return exitNoResult
	case errors.Is(err, errInterrupted), errors.Is(err, fleet.ErrKilled):
		return exitInterrupted
	case errors.Is(err, api.ErrUnreachable), errors.Is(err, doctor.ErrUnseen):
		return exitUnreachable
	case errors.Is(err, errForbidden), errors.Is(err, job.ErrEnded), errors.As(err, &refused) && refused.Status == http.StatusConflict:
		return exitConflict
	case errors.As(err, &refused) && slices.Contains(misunderstood, refused.Code):
		return exitUsage
	}
	return exitFailed
}

// advice is the error with the next thing to try, where there is one.
func advice(err error) string {
	if errors.Is(err, api.ErrUnreachable) {
		return err.Error() + "\nIs `fleet up` running, and is --addr (or " + addrVar + ") its address?"
	}
	if refused, ok := errors.AsType[*api.Problem](err); ok && refused.Status == http.StatusUnauthorized {
		return err.Error() + "\nCommands send the key of " + keyVar + ", of --key-file FILE, or of a local fleet's " + defaultState + " in the current folder."
	}
	return err.Error()
}
