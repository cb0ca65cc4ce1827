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
