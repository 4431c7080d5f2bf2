#!/bin/sh
# Starts Prefect's server, on loopback alone, and refuses to without a password: whoever reaches its API runs code as
# the worker. For another address set PREFECT_SERVER_API_HOST and put a proxy with TLS in front of it.
set -eu
umask 077
: "${PREFECT_SERVER_API_AUTH_STRING:?must be set to user:password before the server starts}"
case "$PREFECT_SERVER_API_AUTH_STRING" in
*change-me* | *:) short=yes ;;
?*:????????????????*) short=no ;;
*) short=yes ;;
esac
if [ "$short" = yes ]; then
    echo "PREFECT_SERVER_API_AUTH_STRING must be user:password with a password of 16 characters or more" >&2
    exit 2
fi
export PREFECT_SERVER_API_HOST="${PREFECT_SERVER_API_HOST:-127.0.0.1}"
export PREFECT_SERVER_API_PORT="${PREFECT_SERVER_API_PORT:-4200}"
# Pages of other origins may not read what the API answers. Prefect has no list of hosts to answer to.
export PREFECT_SERVER_CORS_ALLOWED_ORIGINS="${PREFECT_SERVER_CORS_ALLOWED_ORIGINS:-http://127.0.0.1:$PREFECT_SERVER_API_PORT}"
if [ "$PREFECT_SERVER_CORS_ALLOWED_ORIGINS" = "*" ]; then
    echo "PREFECT_SERVER_CORS_ALLOWED_ORIGINS must name origins, not *" >&2
    exit 2
fi
# Prefect unpacks its pages beside its code, where a user without privileges may not write: then it has none.
export PREFECT_SERVER_UI_STATIC_DIRECTORY="${PREFECT_SERVER_UI_STATIC_DIRECTORY:-${PREFECT_HOME:-$HOME/.prefect}/pages}"
export PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE=prefect.server.concurrency.lease_storage.filesystem
export PREFECT_SERVER_ANALYTICS_ENABLED=false DO_NOT_TRACK=1
# What flows need is none of the server's business.
unset CAUSALVEIL_LEDGER_URL WAREHOUSE_URL
exec prefect server start
