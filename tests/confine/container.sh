#!/bin/bash
# The container profile (sandbox-profiles/container/container.def) under a real engine: a
# probe that tries what must not work, and ordinary programs that must.
#
#   tests/confine/container.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
# shellcheck source=tests/lib/tap.sh
. "$here/../lib/tap.sh"

build=${1:?usage: container.sh BUILD_DIR}
image=${BAILEY_IMAGE:-bailey/sandbox:slim}
profile=$build/share/seccomp.json
name=bailey-test-profile-$$

command -v docker >/dev/null || tap_skip_all "no docker client"
docker version >/dev/null 2>&1 || tap_skip_all "no engine at ${DOCKER_HOST:-the usual socket}"
docker image inspect "$image" >/dev/null 2>&1 || tap_skip_all "no image $image"
trap 'docker rm -f "$name" >/dev/null 2>&1 || true' EXIT

# A sandbox as the broker makes it, as far as the profile is concerned; stdin is a file.
in_box() { # FILE COMMAND...
	local file=$1
	shift
	docker run --rm -i --name "$name" --network none --cap-drop ALL --read-only \
		--security-opt no-new-privileges --security-opt "seccomp=$profile" \
		--user 10001:10001 --pids-limit 128 --memory 512m --ulimit nofile=1024:2048 \
		--tmpfs /tmp:exec,uid=10001,gid=10001,mode=700 --workdir /tmp --env HOME=/tmp \
		"$image" "$@" <"$file"
}

# Each line of the probe is a point of ours.
output=$(in_box "$build/tests/box_probe" \
	bash -c 'cat >/tmp/probe && chmod +x /tmp/probe && exec /tmp/probe' 2>&1) || true
planned=$(sed -n 's/^1\.\.//p' <<<"$output")
points=0
while IFS= read -r line; do
	case $line in
	ok*) tap_ok 0 "probe: ${line#ok * - }" ;;
	"not ok"*) tap_ok 1 "probe: ${line#not ok * - }" ;;
	1..*) continue ;;
	*) tap_note "${line#\# }" && continue ;;
	esac
	points=$((points + 1))
done <<<"$output"
tap_is "the probe ran to its end" "$points" "${planned:-no plan}"

# New libraries try young calls first and fall back on ENOSYS alone.
if [ "$(docker info --format '{{.DefaultRuntime}}')" = runc ]; then
	tap_is "a call younger than the engine does not exist" "$(in_box /dev/null python3 -c \
		'import ctypes; c = ctypes.CDLL(None, use_errno=True); c.syscall(519); print(ctypes.get_errno())')" 38
else
	tap_skip "a call younger than the engine does not exist" "the engine's runtime is not runc"
fi

for program in python.py node.js shell.sh; do
	case $program in
	*.py) run=(python3 -) ;;
	*.js) run=(node -) ;;
	*.sh) run=(bash -s) ;;
	esac
	code=0
	output=$(in_box "$here/box/$program" "${run[@]}" 2>&1) || code=$?
	tap_is "ordinary program $program" "$code: $(tail -n 1 <<<"$output")" "0: all well"
	[ "$code" -eq 0 ] || tap_note "$output"
done
tap_done
