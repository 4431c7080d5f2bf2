#!/bin/sh
# Starts a worker on a work pool that exists (causalveil, or the one named), and refuses to without a password for the
# API. Flows inherit the worker's environment: the server's own secrets are taken out of it.
set -eu
umask 077
: "${PREFECT_API_URL:?must be set to the URL of the API of the Prefect server}"
: "${PREFECT_API_AUTH_STRING:?must be set to the user:password of the Prefect server}"
unset PREFECT_SERVER_API_AUTH_STRING PREFECT_SERVER_DATABASE_CONNECTION_URL PREFECT_API_DATABASE_CONNECTION_URL
unset PREFECT_PASSWORD LEDGER_PASSWORD WAREHOUSE_PASSWORD POSTGRES_PASSWORD PGPASSWORD
# A server whose database restarts answers 500 for a moment: flows and worker ask again, after 2, 4, 8, 16 and 32 s.
export PREFECT_CLIENT_RETRY_EXTRA_CODES="${PREFECT_CLIENT_RETRY_EXTRA_CODES:-500}"
# A pool that a worker made by itself would have Prefect's own template, in which a deployment may name a command.
# Prefect stops a worker by SIGINT, which a shell without job control lets its background commands ignore: such a worker
# would never end. So the signal is given its default back.
exec python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' \
    prefect worker start --pool "${1:-causalveil}" --type process --no-create-pool-if-not-found --install-policy never
