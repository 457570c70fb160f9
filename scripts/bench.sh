#!/usr/bin/env bash
# Measured comparisons, each a table on screen and a file in build/bench. Ratios count; absolute figures are this
# machine's. The peers are dependencies of the bench module alone. Whatever cannot be had here (the npm server,
# Postgres) is said to be missing, not left out silently.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/build/bench
mkdir -p "$out"

fauxqs=$PWD/build/fauxqs
if [ ! -d "$fauxqs/node_modules/fauxqs" ]; then
	mkdir -p "$fauxqs"
	npm install --silent --no-fund --no-audit --prefix "$fauxqs" fauxqs@2.4.1 node@22 || {
		echo "fauxqs cannot be installed by npm: the SQS server is measured without it"
		fauxqs=""
	}
fi

cd pkg/internal/bench
what=${BENCH:-sqsserver consumers store}
case " $what " in *" sqsserver "*)
	echo "== the embedded SQS server =="
	go run ./sqsserver -fauxqs "$fauxqs" | tee "$out/sqsserver.txt"
	;;
esac
case " $what " in *" consumers "*)
	echo "== the pool beside other consumers =="
	go run ./consumers -json "$out/consumers.json" | tee "$out/consumers.txt"
	;;
esac
case " $what " in *" store "*)
	echo "== the record =="
	go run ./store -out "$out/store.json" | tee "$out/store.txt"
	;;
esac
