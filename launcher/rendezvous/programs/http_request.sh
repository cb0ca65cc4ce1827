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
