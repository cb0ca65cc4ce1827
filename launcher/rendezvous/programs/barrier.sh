#!/bin/sh
# Waits until every task of this attempt has its address; does what FrameworkController's barrier does.
#
# Writes framework.json and injector.sh to the working directory, and to /mnt/frameworkbarrier where there is one.
# Instead of reading the Framework again and again it asks the launcher once. In its environment, beside what every pod
# of the launcher's has (LAUNCHER_RENDEZVOUS, LAUNCHER_TOKEN, LAUNCHER_CA, FC_FRAMEWORK_NAME and the like):
#
#   BARRIER_CHECK_INTERVAL_SEC  at least 5, 10 if nothing is said: how long until it asks again after a failure
#   BARRIER_CHECK_TIMEOUT_SEC   60 to 1200, 600 if nothing is said: when it gives up
#   KUBE_APISERVER_ADDRESS, KUBECONFIG  not needed: the launcher itself is asked, without an account of the cluster
#
# It ends with 0 when all is written; 201 when the time was up; 210 when there is no such Framework or attempt, or the
# environment is wrong; 1 when nobody answered in time or something cannot be written.

me=barrier
. http_request.sh

# Ends the program unless $2, the value of the variable $1, is a whole number from $3 to $4.
whole_number() {
    case $2 in
    '' | *[!0-9]*) fail 210 "$1: '$2' is not a whole number" ;;
    esac
    [ "${#2}" -le 9 ] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] || fail 210 "$1: $2 is not from $3 to $4"
}

interval=${BARRIER_CHECK_INTERVAL_SEC-10}
timeout=${BARRIER_CHECK_TIMEOUT_SEC-600}
[ -n "${FC_FRAMEWORK_NAME:-}" ] || fail 210 "FC_FRAMEWORK_NAME is not set"
whole_number BARRIER_CHECK_INTERVAL_SEC "$interval" 5 999999999
whole_number BARRIER_CHECK_TIMEOUT_SEC "$timeout" 60 1200
[ -z "${KUBE_APISERVER_ADDRESS:-}${KUBECONFIG:-}" ] ||
    say "the launcher is asked; KUBE_APISERVER_ADDRESS and KUBECONFIG are not needed"
[ -n "${LAUNCHER_RENDEZVOUS:-}" ] || fail 1 "LAUNCHER_RENDEZVOUS is not set: this is no pod of the launcher's"

scratch=${PWD%/}/.$me
token=${LAUNCHER_TOKEN:-}
prepare_to_ask "$LAUNCHER_RENDEZVOUS"
began=$(date +%s)
left=$timeout
while :; do
    poll=$left
    [ "$poll" -le 300 ] || poll=300
    [ "$poll" -ge 0 ] || poll=0
    ask "$LAUNCHER_RENDEZVOUS?format=framework.json,injector.sh&task=$FC_TASKROLE_NAME/$FC_TASK_INDEX&wait=$poll" \
        "$((poll + 15))"
    hear
    left=$((timeout - ($(date +%s) - began)))
    pause=1
    case $code in
    200) break ;;
    202 | 204) [ "$left" -gt 0 ] || fail 201 "gave up after $timeout s: $told" ;;
    401 | 403 | 404 | 410) fail 210 "$told" ;;
    *)
        [ "$left" -gt 0 ] || fail 1 "gave up after $timeout s: $told"
        pause=$interval
        ;;
    esac
    say "$told"
    [ "$pause" -lt "$left" ] || pause=1
    rest "$pause"
    left=$((timeout - ($(date +%s) - began)))
done

for directory in "$PWD" /mnt/frameworkbarrier; do
    [ -d "$directory" ] || continue
    put framework.json "$directory"
    put injector.sh "$directory"
done
