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
		if [ -n "${DOCKER_TLS_VERIFY:-}${DOCKER_CERT_PATH:-}" ]; then
			local certs=${DOCKER_CERT_PATH:-$HOME/.docker}
			[ -r "$certs/cert.pem" ] || die "DOCKER_CERT_PATH: cannot read $certs/cert.pem"
			ENGINE_CURL+=(--cert "$certs/cert.pem" --key "$certs/key.pem")
			if [ -n "${DOCKER_TLS_VERIFY:-}" ]; then
				ENGINE_CURL+=(--cacert "$certs/ca.pem")
			else
				ENGINE_CURL+=(--insecure)
			fi
			ENGINE_URL=https://${host#tcp://}
		else
			ENGINE_URL=http://${host#tcp://}
		fi
		;;
	*) die "DOCKER_HOST=$host is not supported; use unix:///path or tcp://host:port" ;;
	esac
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
	local out
	engine_address
	if ! out=$("${ENGINE_CURL[@]}" -m 10 "$ENGINE_URL/_ping" 2>&1); then
		die "no engine answers at ${DOCKER_HOST:-unix://$ENGINE_DEFAULT_SOCKET} (${out#curl: }); start one with packaging/engine start, or set DOCKER_HOST"
	fi
	[ "$out" = OK ] || die "what answers at ${DOCKER_HOST:-unix://$ENGINE_DEFAULT_SOCKET} is not a Docker engine"
}
