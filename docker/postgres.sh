#!/bin/sh
# Makes the database cluster at the first start, then becomes the server. POSTGRES_PASSWORD is that of the user fleet.
set -eu
export PATH="/usr/lib/postgresql/bin:$PATH" PGDATA=/var/lib/postgresql/data
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	secret=$(mktemp)
	printf '%s' "$POSTGRES_PASSWORD" >"$secret"
	initdb -U fleet --pwfile="$secret" --auth-host=scram-sha-256 --auth-local=scram-sha-256 -E UTF8 --no-locale >/dev/null
	rm "$secret"
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	echo "CREATE DATABASE fleet" | postgres --single -j postgres >/dev/null
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp
