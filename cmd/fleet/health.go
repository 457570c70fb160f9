package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stagefleet/stagefleet/pkg/api"
)

func newHealth(getenv func(string) string) *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use: "health", Short: "Ask a server whether it works", Args: usage(cobra.NoArgs),
		Long:    "health asks a server whether it and its record work, for the health checks of containers: it says nothing if they do.",
		Example: "  fleet health --addr 127.0.0.1:8080",
		RunE: func(*cobra.Command, []string) error {
			c := client{addr: addr, getenv: getenv}
			return c.ask(func(ctx context.Context, fleet *api.Client) error { return fleet.Health(ctx) })
		},
	}
	cmd.Flags().StringVar(&addr, "addr", addrOf(getenv), "address of the server; "+addrVar+" sets the default")
	return cmd
}
