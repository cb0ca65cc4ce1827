#!/bin/bash
# Sets worker_hosts and ps_hosts to the addresses of the nodes that run the tasks of these roles: source get_ips.sh
#
# It waits until all addresses are known. Each list is in the order of the tasks and separated by commas, for example
# 10.0.0.1:46866,10.0.0.2:46866; without a port it contains the addresses only. Environment, all optional:
#
#   worker_tasknum, ps_tasknum   the number of tasks; set in the pods of the launcher
#   worker_port, ps_port         the port that is appended to each address
#   framework_name               the name of the Framework, if FC_FRAMEWORK_NAME is not set
#   LAUNCHER_RENDEZVOUS, LAUNCHER_TOKEN, LAUNCHER_CA
#                                the rendezvous endpoint of the launcher; set in its pods
#   LAUNCHER_API, KUBE_APISERVER_ADDRESS
#                                without LAUNCHER_RENDEZVOUS: a server that lists pods without authentication, such as a
#                                launcher on this machine or `kubectl proxy`; by default http://127.0.0.1:8001
#   LAUNCHER_TIMEOUT             timeout in seconds, by default 600
#
# Every other role with a variable ROLE_tasknum also gets its ROLE_hosts. Returns 201 after the timeout, 210 if the
# attempt does not exist or has ended, and 1 after any other error, each with a message.

# Runs in a subshell, so that its variables and functions are not defined in the shell that sources this file.
_get_ips() (
    program=get_ips.sh
. http_request.sh
    timeout=${LAUNCHER_TIMEOUT:-600}
    start=$(date +%s)
    work_dir=$(mktemp -d) || fail 1 "cannot create a temporary directory"
    roles=$(env | sed -n 's/^\([a-z0-9]*\)_tasknum=[0-9][0-9]*$/\1/p' | sort -u)
    [ -n "$roles" ] || fail 1 "worker_tasknum and ps_tasknum are not set: set them to the number of tasks"

    # Sets $value to the value of the variable $1.
    get_variable() {
        eval "value=\${$1:-}"
    }

    # Reads lines of INDEX ADDRESS and prints the list of role $1 with $2 tasks; nothing if an address is missing.
    print_list() {
        get_variable "$1_port"
        sort -n -u -k 1,1 | sed -n "1,$2{s/^[0-9]* //;p;}" | {
            list=
            count=0
            while read -r address; do
                case $address in *:*) address=${value:+[}$address${value:+]} ;; esac
                list=$list${list:+,}$address${value:+:$value}
                count=$((count + 1))
            done
            [ "$count" -lt "$2" ] || echo "$list"
        }
    }

    # Prints INDEX ADDRESS of each task of role $1 in hosts.json.
    parse_hosts() {
        sed -n 's/.*"'"$1"'":\[\([^]]*\)\].*/\1/p' "$work_dir/response" | sed 'y/}/\n/' |
            sed -n 's/.*"index":\([0-9]*\).*"hostIP":"\([^"]*\)".*/\1 \2/p'
    }

    # Prints INDEX ADDRESS of each pod in a list. Text of users cannot look like a field: its quotes are escaped.
    parse_pods() {
        sed 'y/,{}/\n\n\n/' "$work_dir/response" |
            sed -n -e 's/^ *"FC_TASK_INDEX": *"\([0-9]*\)".*/index \1/p' \
                -e 's/^ *"hostIP": *"\([^"]*\)".*/address \1/p' | {
            index=
            while read -r field value; do
                case $field in
                index) index=$value ;;
                address) echo "$index $value" ;;
                esac
            done
        }
    }

    # Waits before the next request, with message $1. After the timeout, exits with status $2.
    wait_for_retry() {
        [ "$(($(date +%s) - start))" -lt "$timeout" ] || fail "$2" "timed out after ${timeout}s: $1"
        [ "${last_message:-}" = "$1" ] || log "$1"
        last_message=$1
        sleep_with_jitter "$pause"
        [ "$pause" -ge 8 ] || pause=$((pause * 2))
    }

    # Gets the addresses from the rendezvous endpoint.
    get_from_launcher() {
        token=${LAUNCHER_TOKEN:-}
        init_http_client "$LAUNCHER_RENDEZVOUS"
        task=
        [ -z "${FC_TASKROLE_NAME:-}" ] || task="&task=$FC_TASKROLE_NAME/${FC_TASK_INDEX:-0}"
        pause=1
        while :; do
            wait=$((timeout - ($(date +%s) - start)))
            [ "$wait" -le 300 ] || wait=300
            [ "$wait" -ge 0 ] || wait=0
            http_get "$LAUNCHER_RENDEZVOUS?format=hosts.json$task&wait=$wait" "$((wait + 15))"
            set_message
            case $http_code in
            200) break ;;
            202 | 204) pause=1 && wait_for_retry "$message" 201 ;;
            401 | 403 | 404 | 410) fail 210 "$message" ;;
            000 | 429 | 5??) wait_for_retry "$message" 1 ;;
            *) fail 1 "$message" ;;
            esac
        done
        for role in $roles; do
            get_variable "${role}_tasknum"
            list=$(parse_hosts "$role" | print_list "$role" "$value")
            if [ -z "$list" ] && [ "$value" != 0 ]; then
                grep -q "\"$role\":\[" "$work_dir/response" ||
                    fail 1 "${role}_tasknum is $value, but role $role does not exist or starts after this role"
                fail 1 "${role}_tasknum is $value, but role $role has fewer tasks"
            fi
            echo "${role}_hosts=$list"
        done
    }

    # Gets the addresses from lists of pods.
    get_from_pods() {
        token=
        server=${LAUNCHER_API:-${KUBE_APISERVER_ADDRESS:-http://127.0.0.1:8001}}
        name=${FC_FRAMEWORK_NAME:-${framework_name:-}}
        [ -n "$name" ] || fail 1 "framework_name is not set: set it to the name of the Framework"
        selector=FC_FRAMEWORK_NAME%3D$name
        selector=$selector${FC_FRAMEWORK_ATTEMPT_ID:+%2CFC_FRAMEWORK_ATTEMPT_ID%3D$FC_FRAMEWORK_ATTEMPT_ID}
        url="$server/api/v1/namespaces/${FC_FRAMEWORK_NAMESPACE:-default}/pods?pretty=false&labelSelector=$selector"
        init_http_client "$server"
        for role in $roles; do
            get_variable "${role}_tasknum"
            count=$value
            list=
            pause=1
            until [ "$count" = 0 ] || [ -n "$list" ]; do
                http_get "$url%2CFC_TASKROLE_NAME%3D$role" 30
                set_message
                case $http_code in
                200) list=$(parse_pods | print_list "$role" "$count") ;;
                000 | 429 | 5??) ;;
                *) fail 1 "$server: $message" ;;
                esac
                [ "$http_code" = 200 ] || wait_for_retry "$server: $message" 1
                [ -n "$list" ] || [ "$http_code" != 200 ] ||
                    wait_for_retry "not all $count tasks of role $role have an address" 201
            done
            echo "${role}_hosts=$list"
        done
    }

    if [ -n "${LAUNCHER_RENDEZVOUS:-}" ]; then
        get_from_launcher
    else
        get_from_pods
    fi
)

_get_ips_output=$(_get_ips) || {
    _get_ips_status=$?
    # A sourced script returns; one that is run exits.
    return "$_get_ips_status" 2>/dev/null || exit "$_get_ips_status"
}
while read -r _get_ips_line; do
    export "${_get_ips_line?}"
done <<END
$_get_ips_output
END
unset _get_ips_output _get_ips_line
unset -f _get_ips
