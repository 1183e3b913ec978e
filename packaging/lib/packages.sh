# shellcheck shell=bash
# Distribution packages by purpose. "a|b" takes the first name this release knows.
# Sourced after common.sh.
# shellcheck disable=SC2034 # the lists are for whoever sources this

# What a release build, the image and the demonstration need.
PACKAGES_BUILD="gcc libc6-dev binutils cmake ninja-build pkg-config|pkgconf musl-tools
	libevent-dev libmsgpack-c-dev|libmsgpack-dev libcurl4-openssl-dev libcjson-dev
	libseccomp-dev python3 curl ca-certificates"
PACKAGES_IMAGE="mmdebstrap debian-archive-keyring"
PACKAGES_ENGINE="docker.io containerd runc"
# What tests/run needs on top.
PACKAGES_TEST="libcmocka-dev clang clang-tidy clang-format libclang-rt-dev@clang cppcheck
	valgrind shellcheck scdoc ccache git util-linux procps openssl stunnel4"

# What the official MCP clients are installed with. npm may also come with another nodejs.
PACKAGES_SDK="python3-venv"
PACKAGES_NPM="npm"

package_known() {
	local policy
	policy=$(apt-cache policy "$1" 2>/dev/null) || return 1
	[[ $policy == *"Candidate: "* && $policy != *"Candidate: (none)"* ]]
}

package_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# One word of a list -> the package name to ask for.
package_resolve() {
	local word=$1 name
	if [ "$word" = libclang-rt-dev@clang ]; then
		# The sanitizer runtime is named after the compiler's version.
		name=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
		echo "libclang-rt-${name:-14}-dev"
		return
	fi
	local -a names
	IFS='|' read -ra names <<<"$word"
	for name in "${names[@]}"; do
		if package_installed "$name"; then
			echo "$name"
			return
		fi
	done
	for name in "${names[@]}"; do
		if package_known "$name"; then
			echo "$name"
			return
		fi
	done
	echo "${names[-1]}"
}

packages_missing() { # LIST -> names, one a line
	local word name
	for word in $1; do
		name=$(package_resolve "$word")
		package_installed "$name" || echo "$name"
	done
}

# Installs what is missing; touches neither apt nor the network when nothing is.
packages_install() { # LIST
	local log missing
	if ! have apt-get || ! have dpkg-query; then
		die "no apt on this machine; install the packages listed in packaging/lib/packages.sh by hand"
	fi
	missing=$(packages_missing "$1")
	[ -n "$missing" ] || { step_end "all there"; return 0; }
	need_root "installing $(wc -w <<<"$missing") distribution packages (first: $(head -n 1 <<<"$missing"))"
	need_space /usr "${BAILEY_PACKAGES_MB:-2500}" "installing the packages"
	log=$(mktemp -t bailey-apt.XXXXXX)
	step_note "fetching package lists"
	run_logged "$log" "apt-get update" apt-get -q -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 update
	# Names may resolve differently once the lists are fresh. A mirror that cannot be
	# reached only warns, so look whether the names are known at all.
	missing=$(packages_missing "$1")
	local name
	for name in $missing; do
		package_known "$name" ||
			die "$(explain_log "$log" "package $name is not known to this machine's apt mirrors")"
	done
	step_note "installing $(wc -w <<<"$missing"): $(echo "$missing" | tr '\n' ' ' | cut -c1-90)"
	# shellcheck disable=SC2086 # a list of names
	run_logged "$log" "apt-get install" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
		-o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 \
		install --no-install-recommends $missing
	rm -f "$log"
	step_end "installed"
}
