#!/bin/sh
# Waits until every task of this attempt has its address, and writes what the launcher then tells.
#
# It is what the init container launcher-discovery runs, in any image with a POSIX shell and one of curl, python3 and
# wget. It asks once and is answered when all is known; it asks again when that takes longer than one question lasts,
# or when the launcher was away. In its environment:
#
#   LAUNCHER_RENDEZVOUS  where to ask: the URL of this attempt
#   LAUNCHER_TOKEN       shows that this pod is of this attempt
#   LAUNCHER_CA          whose word on the launcher's certificate counts, as PEM; empty: the image's own authorities
#   LAUNCHER_MOUNT       where to write
#   LAUNCHER_TIMEOUT     seconds after which it gives up; empty: never
#   LAUNCHER_PORT        `auto`: choose a port that is free on this node, and tell it
#   LAUNCHER_WAIT_PORTS  roles, with spaces between; it also waits until all their tasks listen
#   FC_TASKROLE_NAME, FC_TASK_INDEX  who asks
#
# It ends with 0 when all is written; 201 when the time was up, and then it has said who is missing; 210 when the
# launcher knows no such attempt, or no longer; 1 when something is wrong here or nobody answers.
#
# No line here may have two dollar signs next to each other, nor a variable's name alone in $(…): both mean something in
# a pod's command.

me=rendezvous
. http_request.sh

: "${LAUNCHER_RENDEZVOUS:?}" "${LAUNCHER_TOKEN:?}" "${LAUNCHER_MOUNT:?}"
scratch=$LAUNCHER_MOUNT/.$me
token=$LAUNCHER_TOKEN
prepare_to_ask "$LAUNCHER_RENDEZVOUS"

# Sets $port to one from 20000 to 29999 that nobody here has. Neither clusters nor outgoing connections take theirs from
# there.
free_port() {
    read -r chance </proc/sys/kernel/random/uuid
    port=$((20000 + 0x${chance%%-*} % 10000))
    while cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$(printf %04X "$port") [0-9A-F]*:"; do
        port=$((20000 + (port - 20000 + 1) % 10000))
    done
}

# Sets $left, the seconds that there still are; nothing where it may take for ever.
look_at_the_clock() {
    left=
    [ -z "${LAUNCHER_TIMEOUT:-}" ] || left=$((LAUNCHER_TIMEOUT - ($(date +%s) - began)))
}

question="$LAUNCHER_RENDEZVOUS?format=all&task=$FC_TASKROLE_NAME/$FC_TASK_INDEX"
began=$(date +%s)
port=
[ "${LAUNCHER_PORT:-}" != auto ] || free_port
pause=1
look_at_the_clock
while :; do
    poll=${left:-300}
    [ "$poll" -le 300 ] || poll=300
    ask "$question&wait=$poll${port:+&port=$port}" "$((poll + 15))"
    hear
    look_at_the_clock
    case $code in
    200)
        break
        ;;
    202 | 204)
        [ "${left:-1}" -gt 0 ] || fail 201 "gave up after $LAUNCHER_TIMEOUT s: $told"
        say "$told"
        pause=1
        ;;
    409)
        # Another task of this node has told that port a moment ago.
        [ "${left:-1}" -gt 0 ] || fail 1 "gave up after $LAUNCHER_TIMEOUT s: $told"
        free_port
        ;;
    401 | 403 | 404 | 410)
        fail 210 "$told"
        ;;
    000 | 429 | 5??)
        [ "${left:-1}" -gt 0 ] || fail 1 "gave up after $LAUNCHER_TIMEOUT s: $told"
        say "$told; asking again"
        [ "$pause" -ge 15 ] || pause=$((pause * 2))
        ;;
    *)
        fail 1 "$told"
        ;;
    esac
    [ "${left:-$pause}" -ge "$pause" ] || pause=$left
    rest "$pause"
    look_at_the_clock
    [ "${left:-1}" -gt 0 ] || left=0
done

for name in $(sed -n 's/^==> \([A-Za-z0-9_][A-Za-z0-9_.-]*\) <==$/\1/p' "$scratch/answer"); do
    put "$name" "$LAUNCHER_MOUNT"
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
    look_at_the_clock
    export LAUNCHER_TIMEOUT="$left"
    # shellcheck disable=SC2086 # one word for each role
    sh "$LAUNCHER_MOUNT/wait.sh" $LAUNCHER_WAIT_PORTS &
    child=$!
    wait "$child"
    status=$?
    child=
    exit "$status"
fi
