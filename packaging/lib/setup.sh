# shellcheck shell=bash
# Steps quickstart and tests/run share: engine, image, build. Sourced after common.sh,
# packages.sh and engine-api.sh.

# Compiles one preset as the clone's owner. Quiet; a failure shows the compiler's last words,
# and is returned: one preset that does not build need not end everything.
build_preset() { # PRESET [cmake argument...]
	local preset=$1 log
	shift
	local dir=$BAILEY_TOP/build/$preset
	as_owner test -x "$BAILEY_TOP" ||
		die "$(tree_owner) owns this clone but cannot reach $BAILEY_TOP: move it, or give it to root with chown -R"
	# The first writer of build/ must be the owner of the clone, or its user cannot build.
	as_owner mkdir -p "$dir"
	log=$(mktemp -t "bailey-build-$preset.XXXXXX")
	(
		cd "$BAILEY_TOP"
		# Two builds in one directory at once would spoil it.
		as_owner touch "$dir/.lock"
		exec 8<"$dir/.lock"
		flock 8
		# A compiler's message is longer than apt's.
		export BAILEY_LOG_LINES=40
		run_logged "$log" "configuring preset $preset" as_owner cmake --preset "$preset" "$@"
		run_logged "$log" "building preset $preset" as_owner cmake --build "$dir"
		rm -f "$log"
	) || return 1
}

# docker.io is only wanted where there is no engine of any kind.
engine_packages() {
	local list=
	have dockerd && have containerd && have runc || list=$PACKAGES_ENGINE
	echo "$list"
}

# The private engine of packaging/engine. Sets DOCKER_HOST.
private_engine_start() {
	local out
	out=$("$BAILEY_TOP/packaging/engine" start 2>&1) || {
		echo "$out" | tail -n 1 >&2
		exit 1
	}
	export DOCKER_HOST="unix://${BAILEY_ENGINE_RUN:-/run/bailey-engine}/docker.sock"
	step_note "$out"
}

image_setup() { # NAME
	"$BAILEY_TOP/sandbox-profiles/image/build" "$1" | sed 's/^/      /'
}
