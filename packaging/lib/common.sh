# shellcheck shell=bash
# Shared by packaging/quickstart, packaging/engine, tests/run and the image recipe:
# progress lines, one-line errors, and small checks. Sourced, never run.

BAILEY_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
BAILEY_PROG=${BAILEY_PROG:-$(basename "$0")}

# Every failure a person can cause ends in exactly one line that says what to do.
die() {
	printf '%s: error: %s\n' "$BAILEY_PROG" "$*" >&2
	exit 1
}

warn() {
	printf '%s: %s\n' "$BAILEY_PROG" "$*" >&2
}

now_ms() {
	local t=${EPOCHREALTIME/[.,]/}
	printf '%s\n' "${t%???}"
}

secs() { # MILLISECONDS -> "1.2 s"
	printf '%d.%d s' $(($1 / 1000)) $(($1 % 1000 / 100))
}

# Progress: step_begin prints what starts, step_end how long it took. A long step may
# call step_note in between. Lines stay whole when output goes to a file.
STEP_NO=0
STEP_TOTAL=${STEP_TOTAL:-0}
STEP_START=0
step_begin() {
	STEP_NO=$((STEP_NO + 1))
	STEP_START=$(now_ms)
	if [ "$STEP_TOTAL" -gt 0 ]; then
		printf '[%d/%d] %s\n' "$STEP_NO" "$STEP_TOTAL" "$1"
	else
		printf '[%d] %s\n' "$STEP_NO" "$1"
	fi
}
step_note() {
	printf '      %s\n' "$*"
}
step_end() { # [text]
	printf '      %s (%s)\n' "${1:-done}" "$(secs $(($(now_ms) - STEP_START)))"
}

# -h and --help print the comment at a script's head.
help_asked() { # ARG...
	case ${1:-} in
	-h | --help)
		sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
		exit 0
		;;
	esac
}

have() {
	command -v "$1" >/dev/null 2>&1
}

is_root() {
	[ "$(id -u)" -eq 0 ]
}

need_root() { # what for
	is_root || die "$1 needs root; run it as root or through sudo"
}

# The directory itself may not exist yet: ask for its nearest existing parent.
free_mb() { # DIR
	local d=$1
	while [ ! -e "$d" ]; do d=$(dirname "$d"); done
	df -Pm "$d" | awk 'NR == 2 { print $4 }'
}

need_space() { # DIR MB what for
	local mb
	mb=$(free_mb "$1")
	# BAILEY_FREE_MB lets a test say "the disk is full" without filling one.
	mb=${BAILEY_FREE_MB:-$mb}
	[ "$mb" -ge "$2" ] || die "no disk space: $3 needs $2 MB on $1, $mb MB are free"
}

# Turn a tool's log into the one line that matters.
explain_log() { # LOGFILE fallback-text
	local log=$1
	if grep -qiE 'no space left on device|not enough free space' "$log"; then
		echo "no disk space left"
	elif grep -qiE 'could not resolve|temporary failure|unable to connect|connection (timed out|refused|failed)|failed to fetch|network is unreachable' "$log"; then
		echo "no network: the package mirrors of this machine cannot be reached"
	elif grep -qiE 'could not get lock|unable to acquire the dpkg' "$log"; then
		echo "another package manager is running; try again when it has finished"
	else
		echo "$2"
	fi
}

# Run a command quietly; on failure show the end of its log and leave by one clear line.
run_logged() { # LOGFILE what CMD...
	local log=$1 what=$2
	shift 2
	if ! "$@" >"$log" 2>&1 </dev/null; then
		tail -n "${BAILEY_LOG_LINES:-15}" "$log" | cut -c1-300 | sed 's/^/      | /' >&2
		local first
		first=$(grep -m 1 -E '(^E: |: (fatal )?error: |^CMake Error)' "$log" | cut -c1-200) || true
		die "$what failed: $(explain_log "$log" "${first:+$first; }all of it is in $log")"
	fi
}

# A clone made by a plain user stays theirs: whatever writes into it runs as its owner.
tree_owner() {
	stat -c %U "$BAILEY_TOP"
}

as_owner() { # CMD...
	local owner
	owner=$(tree_owner)
	if ! is_root || [ "$owner" = root ] || [ "$owner" = UNKNOWN ]; then
		"$@"
	else
		runuser -u "$owner" -- env HOME="$(getent passwd "$owner" | cut -d: -f6)" "$@"
	fi
}
