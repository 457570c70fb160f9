#!/bin/sh
# Installs what the stages run; with "test" also what only the tests need (a C compiler for the race detector,
# Postgres, curl, jq and shellcheck), with "containers" what images are built and run with (Docker, debootstrap for the base, Compose).
# Safe to run again: it asks dpkg first and calls apt only for what is missing.
set -eu
packages=$(sed -n 's/^[a-z0-9-]*://p' "$(dirname "$0")/tools.txt" | tr ' ' '\n' | sort -u | tr '\n' ' ')
if [ "${1:-}" = test ]; then
	command -v cc >/dev/null || packages="$packages gcc libc6-dev"
	command -v curl >/dev/null || packages="$packages curl"
	command -v jq >/dev/null || packages="$packages jq"
	command -v shellcheck >/dev/null || packages="$packages shellcheck"
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || packages="$packages postgresql"
fi
if [ "${1:-}" = containers ]; then
	command -v dockerd >/dev/null || docker info >/dev/null 2>&1 || packages="$packages docker.io iptables"
	docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || packages="$packages docker-compose"
	command -v debootstrap >/dev/null || packages="$packages debootstrap"
fi
missing=""
for p in $packages; do
	dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
echo "installing:$missing"
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
export DEBIAN_FRONTEND=noninteractive
had=$(ls -d /etc/postgresql/*/main 2>/dev/null || true)
$sudo apt-get update -qq
# shellcheck disable=SC2086 # the list is meant to split
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null

# Tests start servers of their own. The one that the package has just made and started is not wanted by anybody.
case $missing in *postgresql*)
	for cluster in $(ls -d /etc/postgresql/*/main 2>/dev/null || true); do
		case " $had " in *"$cluster"*) continue ;; esac
		$sudo pg_dropcluster --stop "$(basename "$(dirname "$cluster")")" main
	done
	;;
esac
