# shellcheck shell=bash
# Talks to the engine DOCKER_HOST names, with curl alone: unix sockets and tcp with the
# TLS variables. Sourced after common.sh.

ENGINE_DEFAULT_SOCKET=/var/run/docker.sock

# Sets ENGINE_CURL (array) and ENGINE_URL.
engine_address() {
	local host=${DOCKER_HOST:-unix://$ENGINE_DEFAULT_SOCKET}
	ENGINE_CURL=(curl -sS)
	case $host in
	unix://*)
		ENGINE_CURL+=(--unix-socket "${host#unix://}")
		# curl wants a host name; no packet ever goes there.
		ENGINE_URL=http://engine
		;;
	tcp://*)
		# As the supervisor reads them (supervisor/engine_env.c).
		local at=${host#tcp://} port=2375 scheme=http
		if [ -n "${DOCKER_TLS_VERIFY:-}" ]; then
			local certs=${DOCKER_CERT_PATH:-$HOME/.docker}
			[ -r "$certs/cert.pem" ] || die "DOCKER_CERT_PATH: cannot read $certs/cert.pem"
			ENGINE_CURL+=(--cert "$certs/cert.pem" --key "$certs/key.pem" --cacert "$certs/ca.pem")
			port=2376 scheme=https
		fi
		at=${at%/}
		[[ $at == *:* && $at != *"]" ]] || at+=:$port
		ENGINE_URL=$scheme://$at
		;;
	*) die "DOCKER_HOST=$host is not supported; use unix:///path or tcp://host:port" ;;
	esac
}

# On another machine, as far as anybody here can tell: nothing can be mounted from this one.
engine_remote() {
	[[ ${DOCKER_HOST:-} == tcp://* ]]
}

engine_answers() {
	engine_address
	[ "$("${ENGINE_CURL[@]}" -f -m 5 "$ENGINE_URL/_ping" 2>/dev/null)" = OK ]
}

engine_get() { # PATH -> body; fails on an HTTP error
	engine_address
	"${ENGINE_CURL[@]}" -f -m 30 "$ENGINE_URL$1" 2>/dev/null
}

# Leaves with one line that says why, if the engine cannot be used.
engine_required() {
	local out host=${DOCKER_HOST:-unix://$ENGINE_DEFAULT_SOCKET} sock
	local hint="start one with 'packaging/engine start' as root, or set DOCKER_HOST"
	[ -z "${DOCKER_HOST:-}" ] || hint="DOCKER_HOST names it: correct it, or unset it"
	engine_address
	if [[ $host == unix://* ]]; then
		sock=${host#unix://}
		[ -S "$sock" ] || die "no engine: there is no socket $sock; $hint"
		[ -w "$sock" ] ||
			die "no engine: $(id -un) may not use $sock, which belongs to group $(stat -Lc %G "$sock"); join it and log in again"
	fi
	if ! out=$("${ENGINE_CURL[@]}" -m 10 "$ENGINE_URL/_ping" 2>&1); then
		die "no engine answers at $host ($(tail -n 1 <<<"$out" | sed -E 's/^curl: \([0-9]+\) //')); $hint"
	fi
	[ "$out" = OK ] || die "what answers at $host is not a Docker engine"
}
