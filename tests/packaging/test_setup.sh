#!/bin/bash
# What a person meets when something is missing: quickstart, the engine script and the image
# recipe each end with one clear line on stderr and a non-zero status. The machine is only
# pretended to be broken: fake programs stand before the real ones in PATH.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source=tests/lib/tap.sh
. "$top/tests/lib/tap.sh"
work=$(mktemp -d -t bailey-setup.XXXXXX)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
# Logs that failures leave for a person to read, too.
mkdir "$work/tmp"
export TMPDIR=$work/tmp
unset DOCKER_HOST DOCKER_TLS_VERIFY DOCKER_CERT_PATH BAILEY_ENGINE_RUN BAILEY_ENGINE_DATA
mkdir "$work/bin"

fake() { # NAME, script on stdin
	{ echo '#!/bin/bash' && cat; } >"$work/bin/$1"
	chmod 755 "$work/bin/$1"
}
unfake() {
	rm -f "$work/bin"/*
}

# The command must fail; its stderr must hold exactly one line that is not a quoted log line.
refuses() { # DESC REGEX COMMAND...
	local desc=$1 regex=$2 code=0 text lines
	shift 2
	env PATH="$work/bin:$PATH" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
	text=$(grep -v '^      | ' "$work/err") || text=
	lines=$(grep -c . <<<"$text") || true
	if [ "$code" -ne 0 ] && [ "$lines" -eq 1 ] && grep -qE -- "$regex" <<<"$text"; then
		tap_ok 0 "$desc"
	else
		tap_ok 1 "$desc"
		tap_note "status $code, stderr: $(cat "$work/err")"
		tap_note "wanted one line: $regex"
	fi
}

as_nobody() {
	if [ "$(id -u)" -eq 0 ]; then echo "runuser -u nobody --"; fi
}

# --- anybody ---
for script in packaging/quickstart packaging/engine tests/run tests/releases tests/vm/run; do
	# Asked what it is, a script says so, and does nothing.
	tap_like "$script --help" "$(PATH="$work/bin:$PATH" timeout 20 "$top/$script" --help 2>&1)" "^  (sudo )?$script"
done
refuses "vm/run: unknown option" 'there is no --quick \(see --help\)' "$top/tests/vm/run" --quick
refuses "quickstart: unknown argument" 'takes no argument' "$top/packaging/quickstart" now
refuses "engine: unknown command" 'usage: packaging/engine' "$top/packaging/engine" dance
refuses "image: unknown recipe" "no recipe 'nope' \(there are: full slim\)" "$top/sandbox-profiles/image/build" nope
refuses "image: no path as a recipe" "no recipe" "$top/sandbox-profiles/image/build" ../image/slim
refuses "image: bad tag" 'is not REPO:TAG' "$top/sandbox-profiles/image/build" --tag 'A B' slim
refuses "image: no socket" 'no engine: there is no socket' \
	env DOCKER_HOST=unix:///nonexistent/docker.sock "$top/sandbox-profiles/image/build" slim
refuses "image: unsupported DOCKER_HOST" 'is not supported' \
	env DOCKER_HOST=ssh://host "$top/sandbox-profiles/image/build" slim
refuses "image: TLS without certificates" 'cannot read' \
	env DOCKER_HOST=tcp://127.0.0.1:1 DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=/nonexistent "$top/sandbox-profiles/image/build" slim
refuses "image: nothing listens" 'no engine answers at tcp://127.0.0.1:1' \
	env DOCKER_HOST=tcp://127.0.0.1:1 "$top/sandbox-profiles/image/build" slim
refuses "image: TLS is what DOCKER_TLS_VERIFY says" 'no engine answers at tcp://127.0.0.1:1' \
	env DOCKER_HOST=tcp://127.0.0.1:1 DOCKER_CERT_PATH=/nonexistent "$top/sandbox-profiles/image/build" slim
# Ports as the supervisor takes them where none is said.
url() { # DOCKER_HOST [NAME=VALUE]
	# shellcheck disable=SC2016 # another shell's
	env DOCKER_HOST="$1" "${2:-NOTHING=}" bash -c '. "$0/packaging/lib/common.sh"; . "$0/packaging/lib/engine-api.sh"
		engine_address; echo "$ENGINE_URL"' "$top"
}
touch "$work/cert.pem"
tap_is "engine: tcp without a port" "$(url tcp://host)" http://host:2375
tap_is "engine: tcp with a port and a slash" "$(url tcp://host:1/)" http://host:1
tap_is "engine: IPv6 without a port" "$(url 'tcp://[::1]')" 'http://[::1]:2375'
tap_is "engine: IPv6 with a port" "$(url 'tcp://[::1]:1')" 'http://[::1]:1'
tap_is "engine: TLS without a port" "$(DOCKER_CERT_PATH=$work url tcp://host DOCKER_TLS_VERIFY=1)" https://host:2376
tap_like "image: --hash" "$("$top/sandbox-profiles/image/build" --hash slim)" '^[0-9a-f]{32}$'

# --- a recipe that adds to another ---
mkdir -p "$work/tree/packaging" "$work/tree/sandbox-profiles"
cp -r "$top/packaging/lib" "$work/tree/packaging/"
cp -r "$top/sandbox-profiles/image" "$work/tree/sandbox-profiles/"
image=$work/tree/sandbox-profiles/image
full=$("$image/build" --hash full) slim=$("$image/build" --hash slim)
echo '# more' >>"$image/slim/packages"
tap_true "image: full's recipe holds slim's" [ "$full" != "$("$image/build" --hash full)" ]
slim_now=$("$image/build" --hash slim)
echo '# more' >>"$image/full/packages"
tap_is "image: slim's recipe holds nothing of full's" "$("$image/build" --hash slim)" "$slim_now"
tap_true "image: full's recipe is not slim's" [ "$full" != "$slim" ]
echo 'no such' >"$image/full/base"
refuses "image: a base that is none" "adds to 'no such', which is no recipe" "$image/build" --hash full
echo full >"$image/full/base"
refuses "image: a recipe that adds to itself" 'adds to more than three others' "$image/build" --hash full

# shellcheck disable=SC2046 # words of a command
if [ "$(id -u)" -eq 0 ] && ! runuser -u nobody -- test -x "$top/packaging/quickstart"; then
	tap_skip "quickstart: no root" "this clone cannot be read by another user"
else
	refuses "quickstart: no root" 'needs root; run it as root or through sudo' $(as_nobody) "$top/packaging/quickstart"
	refuses "engine: no root" 'needs root' $(as_nobody) "$top/packaging/engine" start
fi

# --- an engine that is something else, and one that refuses the import ---
serve() { # SOCKET RECIPE: a server that answers like an engine holding an image of RECIPE
	python3 - "$1" "$2" <<-'PY' &
		import http.server, json, os, socketserver, sys
		path, recipe = sys.argv[1:]
		class Handler(http.server.BaseHTTPRequestHandler):
		    protocol_version = "HTTP/1.1"
		    def address_string(self):
		        return "unix"
		    def log_message(self, *args):
		        pass
		    def answer(self, code, body):
		        self.send_response(code)
		        self.send_header("Content-Length", str(len(body)))
		        self.end_headers()
		        self.wfile.write(body)
		    def do_GET(self):
		        if self.path == "/_ping":
		            self.answer(200, b"OK" if recipe != "garbage" else b"hello")
		        elif self.path.startswith("/images/bailey/sandbox:slim/json"):
		            self.answer(200, json.dumps({"Config": {"Labels": {"bailey.image.recipe": recipe}}},
		                                        separators=(",", ":")).encode())
		        else:
		            self.answer(404, b"{}")
		    def do_POST(self):
		        # Chunked or counted: read it away, then fail in the stream as the engine does.
		        if self.headers.get("Expect"):
		            self.send_response_only(100); self.end_headers()
		        self.rfile.read(int(self.headers.get("Content-Length") or 0))
		        self.answer(200, b'{"status":"reading"}\r\n{"errorDetail":{"message":"write /x: no space left on device"},"error":"write /x: no space left on device"}\r\n')
		class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
		    daemon_threads = True
		    def get_request(self):
		        request, _ = super().get_request()
		        return request, ("unix", 0)
		Server(path, Handler).serve_forever()
	PY
	SERVER=$!
	local i
	for ((i = 0; i < 100; i++)); do
		[ ! -S "$1" ] || break
		sleep 0.05
	done
}
stop_server() {
	kill "$SERVER" 2>/dev/null || true
	wait "$SERVER" 2>/dev/null || true
}
hash=$("$top/sandbox-profiles/image/build" --hash slim)
serve "$work/garbage.sock" garbage
refuses "image: not an engine" 'is not a Docker engine' \
	env DOCKER_HOST="unix://$work/garbage.sock" "$top/sandbox-profiles/image/build" slim
stop_server
serve "$work/have.sock" "$hash"
fake mmdebstrap <<<'echo "must not be called" >&2; exit 1'
out=$(env PATH="$work/bin:$PATH" DOCKER_HOST="unix://$work/have.sock" "$top/sandbox-profiles/image/build" slim 2>&1) || true
tap_like "image: there already" "$out" "^image: bailey/sandbox:slim is there \(recipe $hash\)$"
stop_server
serve "$work/old.sock" 00000000000000000000000000000000
export DOCKER_HOST="unix://$work/old.sock"
fake mmdebstrap <<<'echo "E: could not resolve the mirror: Temporary failure in name resolution" >&2; exit 1'
refuses "image: no network" 'no network: the package mirrors' env BAILEY_IMAGE_MIRROR=http://mirror.example "$top/sandbox-profiles/image/build" slim
fake mmdebstrap <<<'echo "E: cannot write: No space left on device" >&2; exit 1'
refuses "image: disk full while it is made" 'no disk space left' env BAILEY_IMAGE_MIRROR=http://mirror.example "$top/sandbox-profiles/image/build" slim
refuses "image: not enough space to begin" 'no disk space: building the image needs' \
	env BAILEY_FREE_MB=10 "$top/sandbox-profiles/image/build" slim
# The real program's last arguments are the suite, the target and "-" for the sources on stdin.
fake mmdebstrap <<'SH'
args=("$@")
cat >"${0%/bin/*}/sources"
printf '%s\n' "$@" >"${0%/bin/*}/arguments"
tar -cf "${args[-2]}" -T /dev/null
SH
refuses "image: the engine's disk is full" 'import: no disk space left' \
	env BAILEY_IMAGE_MIRROR=http://mirror.example "$top/sandbox-profiles/image/build" slim
hooks() {
	grep -o 'hook=.*/customize$' "$work/arguments" | sed 's,.*/image/,,' | tr '\n' ' '
}
tap_is "image: slim's last step" "$(hooks)" "slim/customize "
tap_true "image: slim's packages" grep -qE '^--include=python3,nodejs,.*tzdata$' "$work/arguments"
refuses "image: full, the engine's disk is full" 'import: no disk space left' \
	env BAILEY_IMAGE_MB=100 BAILEY_IMAGE_MIRROR=http://mirror.example "$top/sandbox-profiles/image/build" full
tap_is "image: full's last steps, slim's behind it" "$(hooks)" "full/customize slim/customize "
tap_true "image: full's packages, slim's too" \
	grep -qE '^--include=git,.*python3-matplotlib,.*,nodejs,.*tzdata$' "$work/arguments"
tap_is "image: sources name the mirror asked for" "$(cat "$work/sources")" "deb http://mirror.example trixie main"
# An engine elsewhere: the image carries the guest, which the build of the release made.
copy=$work/clone
mkdir -p "$copy/packaging" "$copy/sandbox-profiles"
cp -r "$top/packaging/lib" "$copy/packaging/"
cp -r "$top/sandbox-profiles/image" "$copy/sandbox-profiles/"
fake curl <<SH
for word; do case \$word in https://host:2376/_ping) echo OK && exit ;; esac; done
exit 22
SH
away=(env DOCKER_HOST=tcp://host DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$work" BAILEY_IMAGE_MIRROR=http://mirror.example)
refuses "image: an engine elsewhere, and no guest for it" 'needs Bailey.s guest in it; build the release first, or name its directory with --guest' \
	"${away[@]}" "$copy/sandbox-profiles/image/build" slim
guest() {
	grep -o 'hook=copy-in .*' "$work/arguments" || true
}
mkdir -p "$copy/build/release/share/box"
touch "$copy/build/release/share/box/init"
rm "$work/arguments"
refuses "image: an engine elsewhere" 'import: ' "${away[@]}" "$copy/sandbox-profiles/image/build" slim
tap_is "image: the guest is in it" "$(guest)" "hook=copy-in $copy/build/release/share/box/. /.bailey"
mkdir -p "$work/share/box"
touch "$work/share/box/init"
mv "$copy" "$work/share/scripts"
refuses "image: an engine elsewhere, by the built recipe" 'import: ' "${away[@]}" "$work/share/scripts/sandbox-profiles/image/build" slim
tap_is "image: the built guest is in it" "$(guest)" "hook=copy-in $work/share/box/. /.bailey"
stop_server
unset DOCKER_HOST
unfake
tap_is "image: no temporary files stay" "$(find "$TMPDIR" -name 'bailey-image.*')" ""

# --- root only: what would install or start something ---
if [ "$(id -u)" -ne 0 ]; then
	tap_skip "quickstart and engine as root" "not root"
	tap_done
fi
fake dpkg-query <<<'exit 1'
refuses "quickstart: no disk space" 'no disk space: installing the packages needs' \
	env BAILEY_FREE_MB=10 "$top/packaging/quickstart"
fake apt-get <<<'echo "Err:1 http://mirror.example trixie InRelease  Temporary failure resolving" >&2; exit 100'
refuses "quickstart: no network" 'apt-get update failed: no network' "$top/packaging/quickstart"
fake apt-get <<<'case "$*" in *update*) exit 0 ;; esac; echo "E: Could not get lock /var/lib/dpkg/lock-frontend" >&2; exit 100'
fake apt-cache <<<'echo "  Candidate: 1"'
refuses "quickstart: package manager busy" 'another package manager is running' "$top/packaging/quickstart"
fake mmdebstrap <<<'echo "E: no such suite" >&2; exit 1'
code=0
out=$(env PATH="$work/bin:$PATH" "$top/tests/releases" bookworm 2>&1) || code=$?
tap_is "releases: a root that cannot be made, its status" "$code" 1
tap_is "releases: a root that cannot be made, its count" "$(tail -n 1 <<<"$out")" "0 passed, 1 failed, 0 skipped"
unfake
refuses "quickstart: DOCKER_HOST without an engine" 'no engine: there is no socket .*; DOCKER_HOST names it: correct it, or unset it' \
	env DOCKER_HOST="unix://$work/none.sock" "$top/packaging/quickstart"
export BAILEY_ENGINE_RUN=$work/engine BAILEY_ENGINE_DATA=$work/data
refuses "engine: group does not exist" 'group no-such-group does not exist' \
	env BAILEY_ENGINE_GROUP=no-such-group "$top/packaging/engine" start
refuses "engine: no disk space" "no disk space: the engine's data root needs" \
	env BAILEY_FREE_MB=10 "$top/packaging/engine" start
fake containerd <<'SH'
# Stands in for the real one: makes the socket it is asked for, and waits.
# python3 itself: a script of that name in front of it would lose the name that is given here.
exec -a "containerd --config ${2:?}" "$(python3 -c 'import sys; print(sys.executable)')" -c '
import re, signal, socket, sys
path = re.search(r"address = \"([^\"]+)\"", open(sys.argv[1]).read()).group(1)
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(); signal.pause()' "$2"
SH
fake dockerd <<<'echo "time=now level=fatal msg=\"failed to start daemon: Devices cgroup is not mounted\"" >&2; exit 1'
refuses "engine: dockerd gives up" 'dockerd did not start: failed to start daemon: Devices cgroup is not mounted' \
	"$top/packaging/engine" start
tap_is "engine: nothing of it is left running" "$(grep -l -a -- "$work/[e]ngine" /proc/[0-9]*/cmdline 2>/dev/null | grep -v "/$$/" || true)" ""
unfake
tap_like "engine: status when stopped" "$("$top/packaging/engine" status 2>&1 || true)" 'not running'
tap_true "engine: stop when stopped" "$top/packaging/engine" stop
tap_done
