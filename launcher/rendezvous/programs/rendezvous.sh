#!/bin/sh
# Waits until every task of this attempt has an address, and writes the files with the addresses.
#
# The init container launcher-discovery runs this program, in any image with a POSIX shell and curl, python3 or wget. It
# sends one request, which the launcher answers when all addresses are known. The request is repeated if it ends before
# that or fails. Environment:
#
#   LAUNCHER_RENDEZVOUS  the URL of this attempt
#   LAUNCHER_TOKEN       the token of this attempt
#   LAUNCHER_CA          CA certificates for the launcher as PEM; empty: those of the image
#   LAUNCHER_MOUNT       the directory for the files
#   LAUNCHER_TIMEOUT     timeout in seconds; empty: none
#   LAUNCHER_PORT        `auto`: choose a free port of this node and reserve it
#   LAUNCHER_WAIT_PORTS  roles, separated by spaces; also wait until all their tasks listen on their ports
#   FC_TASKROLE_NAME, FC_TASK_INDEX  the task of this pod
#
# Exit codes: 0 when the files are written; 201 after the timeout, with a message that names the missing tasks; 210 if
# the attempt does not exist or has ended; 1 after any other error.
#
# The text must not contain two consecutive dollar signs, nor a variable name alone in $(…): both are expanded in the
# command of a container.

program=rendezvous
. http_request.sh

: "${LAUNCHER_RENDEZVOUS:?}" "${LAUNCHER_TOKEN:?}" "${LAUNCHER_MOUNT:?}"
work_dir=$LAUNCHER_MOUNT/.$program
token=$LAUNCHER_TOKEN
init_http_client "$LAUNCHER_RENDEZVOUS"

# Sets $port to a free port from 20000 to 29999, which is outside the ranges of node ports and of outgoing connections.
choose_port() {
    read -r random </proc/sys/kernel/random/uuid
    port=$((20000 + 0x${random%%-*} % 10000))
    while cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$(printf %04X "$port") [0-9A-F]*:"; do
        port=$((20000 + (port - 20000 + 1) % 10000))
    done
}

# Sets $remaining to the seconds until the timeout; empty: no timeout.
set_remaining() {
    remaining=
    [ -z "${LAUNCHER_TIMEOUT:-}" ] || remaining=$((LAUNCHER_TIMEOUT - ($(date +%s) - start)))
}

# After the timeout, exits with status $1.
check_timeout() {
    [ "${remaining:-1}" -gt 0 ] || fail "$1" "timed out after ${LAUNCHER_TIMEOUT}s: $message"
}

url="$LAUNCHER_RENDEZVOUS?format=all&task=$FC_TASKROLE_NAME/$FC_TASK_INDEX"
start=$(date +%s)
port=
[ "${LAUNCHER_PORT:-}" != auto ] || choose_port
pause=1
set_remaining
while :; do
    wait=${remaining:-300}
    [ "$wait" -le 300 ] || wait=300
    http_get "$url&wait=$wait${port:+&port=$port}" "$((wait + 15))"
    set_message
    set_remaining
    case $http_code in
    200)
        break
        ;;
    202 | 204)
        check_timeout 201
        log "$message"
        pause=1
        ;;
    409)
        # Another task of this node has just reserved the port.
        check_timeout 1
        choose_port
        ;;
    401 | 403 | 404 | 410)
        fail 210 "$message"
        ;;
    000 | 429 | 5??)
        check_timeout 1
        log "$message; retrying"
        [ "$pause" -ge 15 ] || pause=$((pause * 2))
        ;;
    *)
        fail 1 "$message"
        ;;
    esac
    [ "${remaining:-$pause}" -ge "$pause" ] || pause=$remaining
    sleep_with_jitter "$pause"
    set_remaining
    [ "${remaining:-1}" -gt 0 ] || remaining=0
done

for name in $(sed -n 's/^==> \([A-Za-z0-9_][A-Za-z0-9_.-]*\) <==$/\1/p' "$work_dir/response"); do
    write_file "$name" "$LAUNCHER_MOUNT"
done
{
    echo "#!/bin/sh"
    echo ": \"\${LAUNCHER_TIMEOUT=${LAUNCHER_TIMEOUT:-}}\""
    cat <<'END_OF_WAIT'
. wait.sh
END_OF_WAIT
} >"$LAUNCHER_MOUNT/.wait.sh.new" && chmod 755 "$LAUNCHER_MOUNT/.wait.sh.new" &&
    mv -f "$LAUNCHER_MOUNT/.wait.sh.new" "$LAUNCHER_MOUNT/wait.sh" || fail 1 "cannot write $LAUNCHER_MOUNT/wait.sh"

if [ -n "${LAUNCHER_WAIT_PORTS:-}" ]; then
    set_remaining
    export LAUNCHER_TIMEOUT="$remaining"
    # shellcheck disable=SC2086 # one word for each role
    sh "$LAUNCHER_MOUNT/wait.sh" $LAUNCHER_WAIT_PORTS &
    child=$!
    wait "$child"
    status=$?
    child=
    exit "$status"
fi
