#!/bin/sh
# Waits until every task of some roles listens on its port: sh wait.sh ROLE...
#
# Reads the hosts.json beside it. Ends with 201, and the names of those who do not listen, after LAUNCHER_TIMEOUT
# seconds if that is set. Needs one of python3, bash, nc and curl.

hosts=${0%/*}/hosts.json
waiting=
for role in "$@"; do
    waiting=$waiting$(
        sed -n 's/.*"'"$role"'":\[\([^]]*\)\].*/\1/p' "$hosts" | sed 'y/}/\n/' |
            sed -n 's/.*"index":\([0-9]*\).*"ip":"\([^"]*\)".*"port":\([0-9][0-9]*\).*/'"$role"'\/\1 \2 \3/p'
        echo .
    )
    waiting=${waiting%.}
done

# Reads lines NAME ADDRESS PORT, prints those where nobody listens.
if command -v python3 >/dev/null 2>&1; then
    silent() {
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
    silent() {
        while read -r name address port; do
            listens "$address" "$port" </dev/null >/dev/null 2>&1 || echo "$name $address $port"
        done
    }
    if command -v bash >/dev/null 2>&1; then
        limit=
        timeout 5 true 2>/dev/null && limit='timeout 2'
        listens() {
            $limit bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$1" "$2"
        }
    elif command -v nc >/dev/null 2>&1; then
        # Without -z it would wait for what the other one has to say.
        case $(nc -h 2>&1) in
        *BusyBox*-z*) first=-z last='' ;;
        *BusyBox*) first='' last='-e true' ;;
        *) first=-z last='' ;;
        esac
        listens() {
            # shellcheck disable=SC2086 # these are words, or nothing
            nc -w 2 $first "$1" "$2" $last
        }
    elif command -v curl >/dev/null 2>&1; then
        listens() {
            case $1 in *:*) set -- "[$1]" "$2" ;; esac
            time=$(curl -q -s -m 2 -o /dev/null -w '%{time_connect}' --noproxy '*' "telnet://$1:$2")
            [ "${time:-0.000000}" != 0.000000 ]
        }
    else
        echo "wait.sh: this image has none of python3, bash, nc and curl to see with who listens: use one that has" >&2
        exit 1
    fi
fi

child=
trap 'kill $child 2>/dev/null; exit 143' TERM
trap 'kill $child 2>/dev/null; exit 130' INT
began=$(date +%s)
while [ -n "$waiting" ]; do
    waiting=$(echo "$waiting" | sed '/^$/d' | silent)
    [ -n "$waiting" ] || break
    if [ -n "${LAUNCHER_TIMEOUT:-}" ] && [ "$(($(date +%s) - began))" -ge "$LAUNCHER_TIMEOUT" ]; then
        names=$(echo "$waiting" | sed -n '1,10s/^\([^ ]*\) \([^ ]*\) \([^ ]*\)$/\1 at \2 port \3,/p')
        more=$(($(echo "$waiting" | grep -c .) - 10))
        [ "$more" -le 0 ] || names="$names and $more more,"
        # shellcheck disable=SC2086 # one line of it
        echo "wait.sh: the time is up, and nobody listens for" ${names%,} >&2
        exit 201
    fi
    sleep 1 &
    child=$!
    wait "$child"
done
