#!/bin/sh
# Waits until every task of this attempt has an address, as FrameworkController's barrier does.
#
# Writes framework.json and injector.sh to the working directory, and to /mnt/frameworkbarrier if that exists. It sends
# one request to the launcher instead of polling the Framework. Environment, in addition to the variables that the
# launcher sets in every pod (LAUNCHER_RENDEZVOUS, LAUNCHER_TOKEN, LAUNCHER_CA, FC_FRAMEWORK_NAME and others):
#
#   BARRIER_CHECK_INTERVAL_SEC  seconds between two requests after an error: at least 5, by default 10
#   BARRIER_CHECK_TIMEOUT_SEC   timeout in seconds: 60 to 1200, by default 600
#   KUBE_APISERVER_ADDRESS, KUBECONFIG  ignored: requests go to the launcher, without Kubernetes credentials
#
# Exit codes: 0 when the files are written; 201 after the timeout; 210 if the Framework or the attempt does not exist,
# or the environment is invalid; 1 if the last request before the timeout failed, or a file cannot be written.

program=barrier
. http_request.sh

# Exits unless $2, the value of the variable $1, is an integer from $3 to $4.
check_integer() {
    case $2 in
    '' | *[!0-9]*) fail 210 "$1: invalid value '$2': must be an integer" ;;
    esac
    [ "${#2}" -le 9 ] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] ||
        fail 210 "$1: invalid value $2: must be between $3 and $4"
}

interval=${BARRIER_CHECK_INTERVAL_SEC-10}
timeout=${BARRIER_CHECK_TIMEOUT_SEC-600}
[ -n "${FC_FRAMEWORK_NAME:-}" ] || fail 210 "FC_FRAMEWORK_NAME is not set"
check_integer BARRIER_CHECK_INTERVAL_SEC "$interval" 5 999999999
check_integer BARRIER_CHECK_TIMEOUT_SEC "$timeout" 60 1200
[ -z "${KUBE_APISERVER_ADDRESS:-}${KUBECONFIG:-}" ] ||
    log "KUBE_APISERVER_ADDRESS and KUBECONFIG are ignored; requests go to the launcher"
[ -n "${LAUNCHER_RENDEZVOUS:-}" ] || fail 1 "LAUNCHER_RENDEZVOUS is not set; this is not a pod of the launcher"

work_dir=${PWD%/}/.$program
token=${LAUNCHER_TOKEN:-}
init_http_client "$LAUNCHER_RENDEZVOUS"
start=$(date +%s)
remaining=$timeout
while :; do
    wait=$remaining
    [ "$wait" -le 300 ] || wait=300
    [ "$wait" -ge 0 ] || wait=0
    http_get "$LAUNCHER_RENDEZVOUS?format=framework.json,injector.sh&task=$FC_TASKROLE_NAME/$FC_TASK_INDEX&wait=$wait" \
        "$((wait + 15))"
    set_message
    remaining=$((timeout - ($(date +%s) - start)))
    pause=1
    case $http_code in
    200) break ;;
    202 | 204) [ "$remaining" -gt 0 ] || fail 201 "timed out after ${timeout}s: $message" ;;
    401 | 403 | 404 | 410) fail 210 "$message" ;;
    *)
        [ "$remaining" -gt 0 ] || fail 1 "timed out after ${timeout}s: $message"
        pause=$interval
        ;;
    esac
    log "$message"
    [ "$pause" -lt "$remaining" ] || pause=1
    sleep_with_jitter "$pause"
    remaining=$((timeout - ($(date +%s) - start)))
done

for directory in "$PWD" /mnt/frameworkbarrier; do
    [ -d "$directory" ] || continue
    write_file framework.json "$directory"
    write_file injector.sh "$directory"
done
