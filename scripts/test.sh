#!/bin/sh
# The whole test suite. Packages that run real processes and tools come last and one at a time, so that
# they have the machine to themselves.
set -eu
cd "$(dirname "$0")/.."
alone='/(e2e|demo|pkg/worker)$'
go vet ./...
# shellcheck disable=SC2046 # package lists are meant to split
go test -race -shuffle=on -timeout 20m $(go list ./... | grep -vE "$alone")
# shellcheck disable=SC2046
go test -race -shuffle=on -timeout 20m -p 1 $(go list ./... | grep -E "$alone")
