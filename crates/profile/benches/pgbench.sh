#!/bin/sh
# PostgreSQL as its installation makes it, for the bench of costs, as a user that isn't root: `pgbench.sh FOLDER make` makes a server's files
# once; `pgbench.sh FOLDER TRANSACTIONS` starts it, has each of eight clients do so many, and ends it.
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n1)
folder=$1
start() {
    "$bin/postgres" -D "$folder" -k "$folder" -c listen_addresses= >"$folder/log" 2>&1 &
    server=$!
    until "$bin/pg_isready" -q -h "$folder"; do sleep 0.02; done
}
if [ "$2" = make ]; then
    "$bin/initdb" -D "$folder" >/dev/null
    start
    "$bin/pgbench" -q -i -s 20 -h "$folder" postgres
else
    start
    "$bin/pgbench" -c 8 -j 2 -t "$2" -h "$folder" postgres
fi
kill -INT "$server"
wait "$server"
