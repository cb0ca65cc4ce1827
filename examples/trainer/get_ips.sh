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
# Asking the launcher with what the image has: curl, python3 or wget.
#
# The caller sets $me (who speaks), $scratch (a directory that only it can read) and $token (empty: none is shown).
# After `ask URL SECONDS`, $code is the HTTP status of the answer, 000 when there was none; the answer is in the file
# $scratch/answer, and $scratch/error says what went wrong. No token stands on a command line, but where busybox's wget
# is all there is.

say() {
    echo "$me: $*" >&2
}

fail() {
    status=$1
    shift
    say "$*"
    exit "$status"
}

# Sets $asker to who can ask at the URL $1, and writes what it needs to $scratch.
prepare_to_ask() {
    mkdir -p "$scratch" && chmod 700 "$scratch" || fail 1 "cannot write to $scratch"
    trap 'rm -rf "$scratch"' EXIT
    # Some shells keep what they hand on to others in files.
    TMPDIR=$scratch
    # A shell hears a signal only between two commands, so whatever takes long runs beside it.
    child=
    trap 'kill $child 2>/dev/null; exit 143' TERM
    trap 'kill $child 2>/dev/null; exit 130' INT
    if [ -n "${LAUNCHER_CA:-}" ]; then
        printf '%s\n' "$LAUNCHER_CA" >"$scratch/ca" || fail 1 "cannot write to $scratch"
    fi
    if command -v curl >/dev/null 2>&1; then
        asker=curl
    elif command -v python3 >/dev/null 2>&1; then
        asker=python3
    elif ! command -v wget >/dev/null 2>&1; then
        fail 1 "this image has none of curl, python3 and wget to ask the launcher with: use one that has"
    elif wget --version 2>/dev/null | grep -q 'GNU Wget '; then
        asker=wget
        printf '%s\n' "${token:+header = Authorization: Bearer $token}" >"$scratch/wgetrc"
    else
        asker=busybox
        case $1 in
        https:*) fail 1 "the wget of this image cannot check a certificate: use one with curl, python3 or GNU's wget" ;;
        esac
        [ -z "$token" ] || say "there is only a wget here that takes the token of this attempt on its command line"
    fi
}

ask() {
    code=000
    : >"$scratch/code"
    : >"$scratch/answer"
    "ask_$asker" "$1" "$2" </dev/null >"$scratch/code" 2>"$scratch/error" &
    child=$!
    if wait "$child"; then
        read -r code <"$scratch/code" || code=000
    fi
    child=
}

ask_curl() {
    header=
    authority=
    packed=
    [ -z "$token" ] || header="header = \"Authorization: Bearer $token\""
    [ -z "${LAUNCHER_CA:-}" ] || authority="cacert = \"$scratch/ca\""
    # Of thousands of tasks, an answer is far shorter when it is packed.
    case $(curl --version 2>/dev/null) in *libz*) packed=compressed ;; esac
    exec curl -q -K - <<END
url = "$1"
max-time = $2
output = "$scratch/answer"
write-out = "%{http_code}\n"
noproxy = "*"
silent
show-error
$header
$authority
$packed
END
}

ask_python3() {
    ask_token=$token exec python3 -c '
import os, sys
from urllib import error, request

url, seconds, file = sys.argv[1:]
handlers = [request.ProxyHandler({})]
if url.startswith("https:"):
    import ssl

    context = ssl.create_default_context(cadata=os.environ.get("LAUNCHER_CA") or None)
    handlers.append(request.HTTPSHandler(context=context))
token = os.environ["ask_token"]
headers = {"Authorization": "Bearer " + token} if token else {}
try:
    import gzip

    headers["Accept-Encoding"] = "gzip"
except ImportError:
    pass
question = request.Request(url, headers=headers)
try:
    try:
        answer = request.build_opener(*handlers).open(question, timeout=float(seconds))
    except error.HTTPError as refusal:
        answer = refusal
    text = answer.read()
    if answer.headers.get("Content-Encoding") == "gzip":
        text = gzip.decompress(text)
    with open(file, "wb") as output:
        output.write(text)
except Exception as trouble:
    sys.exit(str(getattr(trouble, "reason", trouble)))
print(answer.getcode())
' "$1" "$2" "$scratch/answer"
}

ask_wget() {
    export WGETRC="$scratch/wgetrc"
    wget -nv --no-proxy -t 1 -T "$2" --content-on-error ${LAUNCHER_CA:+"--ca-certificate=$scratch/ca"} \
        -O "$scratch/answer" "$1" 2>"$scratch/words" &
    hear_wget "$!"
}

ask_busybox() {
    limit=
    option=
    if wget --help 2>&1 | grep -q -e '-T SEC'; then
        option="-T $2"
    elif timeout 5 true 2>/dev/null; then
        limit="timeout $2"
    fi
    # shellcheck disable=SC2086 # these two are words, or nothing
    $limit wget -Y off $option ${token:+--header "Authorization: Bearer $token"} \
        -O "$scratch/answer" "$1" 2>"$scratch/words" &
    hear_wget "$!"
}

# Prints the status that wget, the process $1, keeps to itself. A good answer that asks for patience is empty, or says
# who is missing; a bad one is told as `ERROR 403: Forbidden` or `HTTP/1.1 403 Forbidden`.
hear_wget() {
    trap 'kill "$1" 2>/dev/null; exit 143' TERM
    if ! wait "$1"; then
        cat "$scratch/words" >&2
        sed -n -e 's/.*ERROR \([1-5][0-9][0-9]\)[: ].*/\1/p' -e 's/.*HTTP\/1\.[01] \([1-5][0-9][0-9]\) .*/\1/p' \
            "$scratch/words"
    elif [ ! -s "$scratch/answer" ] || grep -q '^{.*"missing":\[' "$scratch/answer"; then
        echo 202
    else
        echo 200
    fi
}

# Sets $told to one line about the last question: what the launcher said, or why nobody did.
hear() {
    if [ "$code" = 000 ]; then
        told=$(sed -n '/./{p;q;}' "$scratch/error")
        told="the launcher cannot be reached${told:+ ($told)}"
    else
        told=$(sed -n -e "s/\\\\\"/'/g" -e 's/.*"message": *"\([^"]*\)".*/\1/p' "$scratch/answer")
        told=${told:-the launcher answers $code}
    fi
}

# About $1 seconds, and a little more by chance: those who wait together do not come back together.
rest() {
    read -r chance 2>/dev/null </proc/sys/kernel/random/uuid || chance=0
    sleep "$(($1 + 0x${chance%%-*} % ($1 + 1)))" &
    child=$!
    wait "$child"
    child=
}

# The file $1 of an answer in which every file begins with a line `==> NAME <==`.
part() {
    sed -n "/^==> $1 <==\$/,/^==> .* <==\$/{/^==> .* <==\$/!p;}" "$scratch/answer"
}

# Puts that file into the directory $2: whole, or not at all.
put() {
    mode=644
    case $1 in *.sh) mode=755 ;; esac
    [ ! -d "$2/$1" ] && part "$1" >"$2/.$1.new" && chmod "$mode" "$2/.$1.new" && mv -f "$2/.$1.new" "$2/$1" ||
        fail 1 "cannot write $2/$1"
}
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
