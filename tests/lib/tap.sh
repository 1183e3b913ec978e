# shellcheck shell=bash
# TAP for shell tests: source this, call the functions, end with tap_done.
#
#   tap_is DESC GOT WANTED         equal strings
#   tap_like DESC TEXT REGEX       TEXT matches an extended regex
#   tap_true DESC COMMAND...       the command succeeds
#   tap_false DESC COMMAND...      the command fails
#   tap_skip DESC REASON
#   tap_skip_all REASON            leaves: nothing here can run on this machine

TAP_N=0
TAP_FAILED=0

tap_ok() { # STATUS DESC
	TAP_N=$((TAP_N + 1))
	if [ "$1" -eq 0 ]; then
		printf 'ok %d - %s\n' "$TAP_N" "$2"
	else
		TAP_FAILED=$((TAP_FAILED + 1))
		printf 'not ok %d - %s\n' "$TAP_N" "$2"
	fi
}

# More about the point just printed.
tap_note() {
	printf '%s\n' "$*" | head -n 40 | cut -c1-500 | sed 's/^/# /'
}

tap_is() {
	if [ "$2" = "$3" ]; then
		tap_ok 0 "$1"
	else
		tap_ok 1 "$1"
		tap_note "got:    $2"
		tap_note "wanted: $3"
	fi
}

tap_like() {
	if grep -qE -- "$3" <<<"$2"; then
		tap_ok 0 "$1"
	else
		tap_ok 1 "$1"
		tap_note "text:   $2"
		tap_note "wanted: $3"
	fi
}

tap_true() {
	local desc=$1 out code=0
	shift
	out=$("$@" 2>&1) || code=$?
	tap_ok "$code" "$desc"
	[ "$code" -eq 0 ] || tap_note "exit $code: $out"
}

tap_false() {
	local desc=$1 out
	shift
	if out=$("$@" 2>&1); then
		tap_ok 1 "$desc"
		tap_note "succeeded: $out"
	else
		tap_ok 0 "$desc"
	fi
}

tap_skip() {
	TAP_N=$((TAP_N + 1))
	printf 'ok %d - %s # SKIP %s\n' "$TAP_N" "$1" "$2"
}

tap_skip_all() {
	printf '1..0 # SKIP %s\n' "$1"
	exit 0
}

tap_done() {
	printf '1..%d\n' "$TAP_N"
	[ "$TAP_FAILED" -eq 0 ] || exit 1
	exit 0
}
