#!/bin/sh
# Builds the images, tests them, and runs the fleet as `make up-containers` does. Where no Docker answers it installs Debian's
# and starts a daemon of its own, which it ends again. Where that cannot be done it says so and fails: nothing was tested.
set -eu
cd "$(dirname "$0")/.."
untested() {
	echo "containers: NOT TESTED: $*" >&2
	exit 1
}
if ! docker info >/dev/null 2>&1; then
	[ "$(id -u)" = 0 ] || untested "no Docker answers, and starting one needs root"
	./scripts/setup.sh containers
fi
if ! docker info >/dev/null 2>&1; then
	state=$(mktemp -d)
	export DOCKER_HOST="unix://$state/docker.sock"
	export TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1 # the daemon is here, even if this is a container itself
	dockerd -H "$DOCKER_HOST" --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/pid" >"$state/log" 2>&1 &
	daemon=$!
	# The daemon leaves a network namespace mounted. What cannot be removed is no failure of the tests.
	ended() {
		code=$?
		kill "$daemon" 2>/dev/null || true
		wait "$daemon" || true
		umount "$state"/exec/netns/* 2>/dev/null || true
		rm -rf "$state" || true
		exit "$code"
	}
	trap ended EXIT
	for _ in $(seq 60); do
		docker info >/dev/null 2>&1 && break
		kill -0 "$daemon" 2>/dev/null || untested "dockerd does not start: $(grep -v level=info "$state/log" | tail -3)"
		sleep 1
	done
	docker info >/dev/null 2>&1 || untested "dockerd does not answer within a minute: $(tail -3 "$state/log")"
fi
./scripts/setup.sh containers
./docker/images.sh
go test -tags containers -count=1 -timeout 20m -v ./docker
