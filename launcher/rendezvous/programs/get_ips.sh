#!/bin/bash
# Sets worker_hosts and ps_hosts to the addresses of the nodes that run the tasks of these roles: source get_ips.sh
#
# It waits until all are known. Each list is in the order of the tasks, with commas between, such as
# 10.0.0.1:46866,10.0.0.2:46866; without a port the addresses stand alone. In its environment, all of it optional:
#
#   worker_tasknum, ps_tasknum   how many tasks there are; in a pod of the launcher's that is known
#   worker_port, ps_port         what comes behind each address
#   framework_name               whose tasks, where no FC_FRAMEWORK_NAME says it
#   LAUNCHER_RENDEZVOUS, LAUNCHER_TOKEN, LAUNCHER_CA
#                                the launcher's own way to tell, which every pod of its has
#   LAUNCHER_API, KUBE_APISERVER_ADDRESS
#                                without it: where pods can be listed without showing who asks, such as a launcher on
#                                this machine or `kubectl proxy`; http://127.0.0.1:8001 if nothing is said
#   LAUNCHER_TIMEOUT             seconds after which it gives up, 600 if nothing is said
#
# Every other role that has a ROLE_tasknum gets its ROLE_hosts as well. Fails with 201 when the time was up, with 210 when
# the launcher does not know this attempt any more, else with 1; it has said why then.

# In a shell of its own: of all its variables only those two are left.
_get_ips() (
    me=get_ips.sh
. http_request.sh
    timeout=${LAUNCHER_TIMEOUT:-600}
    began=$(date +%s)
    scratch=$(mktemp -d) || fail 1 "there is no room for a few files"
    roles=$(env | sed -n 's/^\([a-z0-9]*\)_tasknum=[0-9][0-9]*$/\1/p' | sort -u)
    [ -n "$roles" ] || fail 1 "worker_tasknum and ps_tasknum are not set: how many tasks are there?"

    # Sets $value to that of the variable $1.
    value_of() {
        eval "value=\${$1:-}"
    }

    # Of lines INDEX ADDRESS: the first $2 addresses in order, each with the port of role $1; nothing if one is missing.
    listed() {
        value_of "$1_port"
        sort -n -u -k 1,1 | sed -n "1,$2{s/^[0-9]* //;p;}" | {
            list=
            number=0
            while read -r address; do
                case $address in *:*) address=${value:+[}$address${value:+]} ;; esac
                list=$list${list:+,}$address${value:+:$value}
                number=$((number + 1))
            done
            [ "$number" -lt "$2" ] || echo "$list"
        }
    }

    # INDEX ADDRESS of each task of role $1, out of the launcher's answer.
    told_by_launcher() {
        sed -n 's/.*"'"$1"'":\[\([^]]*\)\].*/\1/p' "$scratch/answer" | sed 'y/}/\n/' |
            sed -n 's/.*"index":\([0-9]*\).*"hostIP":"\([^"]*\)".*/\1 \2/p'
    }

    # The same, out of a list of pods. What a user wrote cannot look like a field: its quotes have a backslash.
    told_by_pods() {
        sed 'y/,{}/\n\n\n/' "$scratch/answer" |
            sed -n -e 's/^ *"FC_TASK_INDEX": *"\([0-9]*\)".*/index \1/p' \
                -e 's/^ *"hostIP": *"\([^"]*\)".*/address \1/p' | {
            index=
            while read -r what value; do
                case $what in
                index) index=$value ;;
                address) echo "$index $value" ;;
                esac
            done
        }
    }

    # Waits a little, as long as there is time; $1 says what for.
    wait_for() {
        [ "$(($(date +%s) - began))" -lt "$timeout" ] || fail "$2" "gave up after $timeout s: $1"
        [ "${said:-}" = "$1" ] || say "$1"
        said=$1
        rest "$pause"
        [ "$pause" -ge 8 ] || pause=$((pause * 2))
    }

    ask_launcher() {
        token=${LAUNCHER_TOKEN:-}
        prepare_to_ask "$LAUNCHER_RENDEZVOUS"
        who=
        [ -z "${FC_TASKROLE_NAME:-}" ] || who="&task=$FC_TASKROLE_NAME/${FC_TASK_INDEX:-0}"
        pause=1
        while :; do
            left=$((timeout - ($(date +%s) - began)))
            [ "$left" -le 300 ] || left=300
            [ "$left" -ge 0 ] || left=0
            ask "$LAUNCHER_RENDEZVOUS?format=hosts.json$who&wait=$left" "$((left + 15))"
            hear
            case $code in
            200) break ;;
            202 | 204) pause=1 && wait_for "$told" 201 ;;
            401 | 403 | 404 | 410) fail 210 "$told" ;;
            000 | 429 | 5??) wait_for "$told" 1 ;;
            *) fail 1 "$told" ;;
            esac
        done
        for role in $roles; do
            value_of "${role}_tasknum"
            list=$(told_by_launcher "$role" | listed "$role" "$value")
            if [ -z "$list" ] && [ "$value" != 0 ]; then
                grep -q "\"$role\":\[" "$scratch/answer" ||
                    fail 1 "there is no role $role, or it starts only after this one: ${role}_tasknum is $value"
                fail 1 "${role}_tasknum is $value, but there are not so many tasks"
            fi
            echo "${role}_hosts=$list"
        done
    }

    ask_for_pods() {
        token=
        server=${LAUNCHER_API:-${KUBE_APISERVER_ADDRESS:-http://127.0.0.1:8001}}
        name=${FC_FRAMEWORK_NAME:-${framework_name:-}}
        [ -n "$name" ] || fail 1 "framework_name is not set: whose tasks are they?"
        where="FC_FRAMEWORK_NAME%3D$name${FC_FRAMEWORK_ATTEMPT_ID:+%2CFC_FRAMEWORK_ATTEMPT_ID%3D$FC_FRAMEWORK_ATTEMPT_ID}"
        pods="$server/api/v1/namespaces/${FC_FRAMEWORK_NAMESPACE:-default}/pods?pretty=false&labelSelector=$where"
        prepare_to_ask "$server"
        for role in $roles; do
            value_of "${role}_tasknum"
            number=$value
            list=
            pause=1
            until [ "$number" = 0 ] || [ -n "$list" ]; do
                ask "$pods%2CFC_TASKROLE_NAME%3D$role" 30
                hear
                case $code in
                200) list=$(told_by_pods | listed "$role" "$number") ;;
                000 | 429 | 5??) ;;
                *) fail 1 "$server: $told" ;;
                esac
                [ "$code" = 200 ] || wait_for "$server: $told" 1
                [ -n "$list" ] || [ "$code" != 200 ] ||
                    wait_for "not all $number tasks of role $role have an address yet" 201
            done
            echo "${role}_hosts=$list"
        done
    }

    if [ -n "${LAUNCHER_RENDEZVOUS:-}" ]; then
        ask_launcher
    else
        ask_for_pods
    fi
)

_get_ips_found=$(_get_ips) || {
    _get_ips_status=$?
    # Sourced, it fails; run, it ends.
    return "$_get_ips_status" 2>/dev/null || exit "$_get_ips_status"
}
while read -r _get_ips_line; do
    export "${_get_ips_line?}"
done <<END
$_get_ips_found
END
unset _get_ips_found _get_ips_line
unset -f _get_ips
