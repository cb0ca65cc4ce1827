#!/bin/sh
# Waits until every task of some roles listens on its port: sh wait.sh ROLE...
#
# Reads hosts.json in the same directory. Exits with 201 after LAUNCHER_TIMEOUT seconds, if that is set, with a message
# that names the tasks that do not listen. Needs python3, bash, nc or curl.

hosts=${0%/*}/hosts.json
# Lines of NAME ADDRESS PORT.
pending=
for role in "$@"; do
    pending=$pending$(
        sed -n 's/.*"'"$role"'":\[\([^]]*\)\].*/\1/p' "$hosts" | sed 'y/}/\n/' |
            sed -n 's/.*"index":\([0-9]*\).*"ip":"\([^"]*\)".*"port":\([0-9][0-9]*\).*/'"$role"'-\1 \2 \3/p'
        echo .
    )
    pending=${pending%.}
done

# print_pending reads such lines and prints those whose port has no listener.
if command -v python3 >/dev/null 2>&1; then
    print_pending() {
        python3 -c '
import socket, sys

for line in sys.stdin:
    name, address, port = line.split()
    try:
        socket.create_connection((address, int(port)), timeout=2).close()
    except OSError:
        print(line, end="")
'
    }
else
    print_pending() {
        while read -r name address port; do
            has_listener "$address" "$port" </dev/null >/dev/null 2>&1 || echo "$name $address $port"
        done
    }
    if command -v bash >/dev/null 2>&1; then
        limit=
        timeout 5 true 2>/dev/null && limit='timeout 2'
        has_listener() {
            $limit bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$1" "$2"
        }
    elif command -v nc >/dev/null 2>&1; then
        # Without -z, nc would wait for data.
        case $(nc -h 2>&1) in
        *BusyBox*-z*) first=-z last='' ;;
        *BusyBox*) first='' last='-e true' ;;
        *) first=-z last='' ;;
        esac
        has_listener() {
            # shellcheck disable=SC2086 # both are split into words
            nc -w 2 $first "$1" "$2" $last
        }
    elif command -v curl >/dev/null 2>&1; then
        has_listener() {
            case $1 in *:*) set -- "[$1]" "$2" ;; esac
            time=$(curl -q -s -m 2 -o /dev/null -w '%{time_connect}' --noproxy '*' "telnet://$1:$2")
            [ "${time:-0.000000}" != 0.000000 ]
        }
    else
        echo "wait.sh: the image has none of python3, bash, nc and curl; use an image with one of them" >&2
        exit 1
    fi
fi

child=
trap 'kill $child 2>/dev/null; exit 143' TERM
trap 'kill $child 2>/dev/null; exit 130' INT
start=$(date +%s)
while [ -n "$pending" ]; do
    pending=$(echo "$pending" | sed '/^$/d' | print_pending)
    [ -n "$pending" ] || break
    if [ -n "${LAUNCHER_TIMEOUT:-}" ] && [ "$(($(date +%s) - start))" -ge "$LAUNCHER_TIMEOUT" ]; then
        names=$(echo "$pending" | sed -n '1,10s/^\([^ ]*\) \([^ ]*\) \([^ ]*\)$/\1 at \2 port \3,/p')
        more=$(($(echo "$pending" | grep -c .) - 10))
        [ "$more" -le 0 ] || names="$names and $more more,"
        # shellcheck disable=SC2086 # joins the lines
        echo "wait.sh: timed out: no listener for" ${names%,} >&2
        exit 201
    fi
    sleep 1 &
    child=$!
    wait "$child"
done
