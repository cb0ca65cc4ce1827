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
# HTTP GET requests with a tool of the image: curl, python3 or wget.
#
# The program that includes this file sets $program (its name in messages), $work_dir (a directory that only it can
# read) and $token (a bearer token; empty: none). After `http_get URL SECONDS`, $http_code is the HTTP status of the
# response, 000 if there was none; $work_dir/response is the body, and $work_dir/error the output of the tool. The token
# is not on a command line, except with the wget of busybox.

log() {
    echo "$program: $*" >&2
}

# Prints a message and exits with status $1.
fail() {
    status=$1
    shift
    log "$*"
    exit "$status"
}

# Sets $http_client to the tool for requests to the URL $1, and writes its configuration to $work_dir.
init_http_client() {
    mkdir -p "$work_dir" && chmod 700 "$work_dir" || fail 1 "cannot write to $work_dir"
    trap 'rm -rf "$work_dir"' EXIT
    # Some shells store here-documents in files.
    TMPDIR=$work_dir
    # A shell handles signals between two commands only, so long commands run in the background.
    child=
    trap 'kill $child 2>/dev/null; exit 143' TERM
    trap 'kill $child 2>/dev/null; exit 130' INT
    if [ -n "${LAUNCHER_CA:-}" ]; then
        printf '%s\n' "$LAUNCHER_CA" >"$work_dir/ca" || fail 1 "cannot write to $work_dir"
    fi
    if command -v curl >/dev/null 2>&1; then
        http_client=curl
    elif command -v python3 >/dev/null 2>&1; then
        http_client=python3
    elif ! command -v wget >/dev/null 2>&1; then
        fail 1 "the image has none of curl, python3 and wget; use an image with one of them"
    elif wget --version 2>/dev/null | grep -q 'GNU Wget '; then
        http_client=wget
        printf '%s\n' "${token:+header = Authorization: Bearer $token}" >"$work_dir/wgetrc"
    else
        http_client=busybox
        case $1 in
        https:*) fail 1 "the wget of the image does not verify certificates; use curl, python3 or GNU wget" ;;
        esac
        [ -z "$token" ] || log "the wget of the image shows the token of this attempt on its command line"
    fi
}

# Sends a request to the URL $1 with a limit of $2 seconds.
http_get() {
    http_code=000
    : >"$work_dir/status"
    : >"$work_dir/response"
    "http_get_$http_client" "$1" "$2" </dev/null >"$work_dir/status" 2>"$work_dir/error" &
    child=$!
    if wait "$child"; then
        read -r http_code <"$work_dir/status" || http_code=000
    fi
    child=
}

http_get_curl() {
    header=
    ca=
    compressed=
    [ -z "$token" ] || header="header = \"Authorization: Bearer $token\""
    [ -z "${LAUNCHER_CA:-}" ] || ca="cacert = \"$work_dir/ca\""
    # The response for thousands of tasks is much smaller when it is compressed.
    case $(curl --version 2>/dev/null) in *libz*) compressed=compressed ;; esac
    exec curl -q -K - <<END
url = "$1"
max-time = $2
output = "$work_dir/response"
write-out = "%{http_code}\n"
noproxy = "*"
silent
show-error
$header
$ca
$compressed
END
}

http_get_python3() {
    http_token=$token exec python3 -c '
import os, sys
from urllib import error, request

url, seconds, path = sys.argv[1:]
handlers = [request.ProxyHandler({})]
if url.startswith("https:"):
    import ssl

    context = ssl.create_default_context(cadata=os.environ.get("LAUNCHER_CA") or None)
    handlers.append(request.HTTPSHandler(context=context))
token = os.environ["http_token"]
headers = {"Authorization": "Bearer " + token} if token else {}
try:
    import gzip

    headers["Accept-Encoding"] = "gzip"
except ImportError:
    pass
try:
    try:
        opener = request.build_opener(*handlers)
        response = opener.open(request.Request(url, headers=headers), timeout=float(seconds))
    except error.HTTPError as failure:
        response = failure
    body = response.read()
    if response.headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    with open(path, "wb") as file:
        file.write(body)
except Exception as failure:
    sys.exit(str(getattr(failure, "reason", failure)))
print(response.getcode())
' "$1" "$2" "$work_dir/response"
}

http_get_wget() {
    export WGETRC="$work_dir/wgetrc"
    wget -nv --no-proxy -t 1 -T "$2" --content-on-error ${LAUNCHER_CA:+"--ca-certificate=$work_dir/ca"} \
        -O "$work_dir/response" "$1" 2>"$work_dir/output" &
    print_wget_status "$!"
}

http_get_busybox() {
    limit=
    option=
    if wget --help 2>&1 | grep -q -e '-T SEC'; then
        option="-T $2"
    elif timeout 5 true 2>/dev/null; then
        limit="timeout $2"
    fi
    # shellcheck disable=SC2086 # both are split into words
    $limit wget -Y off $option ${token:+--header "Authorization: Bearer $token"} \
        -O "$work_dir/response" "$1" 2>"$work_dir/output" &
    print_wget_status "$!"
}

# Prints the HTTP status of the request of wget, the process $1. wget reports the status of an error only, as
# `ERROR 403: Forbidden` or `HTTP/1.1 403 Forbidden`. A 202 has an empty body, or one that lists missing tasks.
print_wget_status() {
    trap 'kill "$1" 2>/dev/null; exit 143' TERM
    if ! wait "$1"; then
        cat "$work_dir/output" >&2
        sed -n -e 's/.*ERROR \([1-5][0-9][0-9]\)[: ].*/\1/p' -e 's/.*HTTP\/1\.[01] \([1-5][0-9][0-9]\) .*/\1/p' \
            "$work_dir/output"
    elif [ ! -s "$work_dir/response" ] || grep -q '^{.*"missing":\[' "$work_dir/response"; then
        echo 202
    else
        echo 200
    fi
}

# Sets $message to one line about the last request: the message in the response, or the error.
set_message() {
    if [ "$http_code" = 000 ]; then
        message=$(sed -n '/./{p;q;}' "$work_dir/error")
        message="the launcher cannot be reached${message:+ ($message)}"
    else
        message=$(sed -n -e "s/\\\\\"/'/g" -e 's/.*"message": *"\([^"]*\)".*/\1/p' "$work_dir/response")
        [ -n "$message" ] || message="the launcher returned HTTP status $http_code"
    fi
}

# Sleeps for $1 seconds to twice as long, so that the pods do not send their requests at the same time.
sleep_with_jitter() {
    read -r random 2>/dev/null </proc/sys/kernel/random/uuid || random=0
    sleep "$(($1 + 0x${random%%-*} % ($1 + 1)))" &
    child=$!
    wait "$child"
    child=
}

# Prints the file $1 of a response in which every file follows a line `==> NAME <==`.
print_file() {
    sed -n "/^==> $1 <==\$/,/^==> .* <==\$/{/^==> .* <==\$/!p;}" "$work_dir/response"
}

# Writes the file $1 of the response to the directory $2, atomically.
write_file() {
    mode=644
    case $1 in *.sh) mode=755 ;; esac
    [ ! -d "$2/$1" ] && print_file "$1" >"$2/.$1.new" && chmod "$mode" "$2/.$1.new" &&
        mv -f "$2/.$1.new" "$2/$1" || fail 1 "cannot write $2/$1"
}
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
