#!/bin/sh
# Builds the images and runs the tests in containers. Where no Docker answers it installs Debian's and starts a daemon of
# its own, which it ends again. Needs root for that; says so and fails where it cannot.
set -eu
cd "$(dirname "$0")/.."
if ! docker info >/dev/null 2>&1; then
	[ "$(id -u)" = 0 ] || { echo "containers: no Docker answers, and starting one needs root" >&2; exit 1; }
	export DEBIAN_FRONTEND=noninteractive
	packages=""
	command -v dockerd >/dev/null || packages="docker.io iptables"
	docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || packages="$packages docker-compose"
	command -v debootstrap >/dev/null || packages="$packages debootstrap"
	if [ -n "$packages" ]; then
		apt-get update -qq
		# shellcheck disable=SC2086 # the list is meant to split
		apt-get install -y -qq --no-install-recommends $packages >/dev/null
	fi
	state=$(mktemp -d)
	export DOCKER_HOST="unix://$state/docker.sock"
	dockerd -H "$DOCKER_HOST" --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/pid" >"$state/log" 2>&1 &
	daemon=$!
	trap 'kill "$daemon"; wait "$daemon" || true; rm -rf "$state"' EXIT
	for _ in $(seq 60); do
		docker info >/dev/null 2>&1 && break
		kill -0 "$daemon" 2>/dev/null || { echo "containers: dockerd does not start:" >&2; tail -5 "$state/log" >&2; exit 1; }
		sleep 1
	done
fi
./docker/images.sh
go test -tags containers -count=1 -timeout 20m -v ./docker
