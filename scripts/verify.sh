#!/bin/sh
# Fails when what is committed differs from what the tools would write.
set -eu
cd "$(dirname "$0")/.."
go mod tidy -diff
unformatted=$(gofmt -l $(git ls-files '*.go'))
[ -z "$unformatted" ] || { echo "run gofmt on:"; echo "$unformatted"; exit 1; }
for f in $(git ls-files 'workers/*/main.go'); do
	n=$(wc -l <"$f")
	[ "$n" -le 50 ] || { echo "$f has $n lines; a worker's main has at most 50"; exit 1; }
done
