# shellcheck shell=bash
# Where this machine's apt gets its packages, for roots of another release made by mmdebstrap.
# Sourced after common.sh.

# apt's sources of this machine, restricted to its own Debian archive and moved to SUITE.
# Both formats become one-line entries; third-party archives (any other suite) are left out.
debian_sources() { # SUITE
	local suite=$1
	if [ -n "${BAILEY_IMAGE_MIRROR:-}" ]; then
		echo "deb $BAILEY_IMAGE_MIRROR $suite main"
		return
	fi
	local id codename
	id=$(sed -n 's/^ID=//p' /etc/os-release | tr -d '"')
	codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release | tr -d '"')
	[ "$id" = debian ] || return 0
	{
		cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
			sed -n -E 's/^[[:space:]]*deb[[:space:]]+(\[[^]]*\][[:space:]]+)?([^[:space:]]+)[[:space:]]+([^[:space:]]+)[[:space:]].*/\2 \3/p'
		local f
		for f in /etc/apt/sources.list.d/*.sources; do
			[ ! -f "$f" ] || deb822_entries <"$f"
		done
	} | awk -v code="$codename" -v suite="$suite" '
		{
			base = $2; kind = ""
			if (match(base, /-(updates|security)$/)) {
				kind = substr(base, RSTART); base = substr(base, 1, RSTART - 1)
			}
			if (base == code || base == suite || base ~ /^(stable|testing|oldstable|sid|unstable)$/)
				if (!seen[$1 kind]++) print "deb", $1, suite kind, "main"
		}'
}

# Stanzas of "Types/URIs/Suites/Enabled" -> "URI SUITE" lines.
deb822_entries() {
	awk '
		function flush(  i, j, u, s, n, m) {
			if (types ~ /(^| )deb( |$)/ && enabled !~ /^no/) {
				n = split(uris, u, " "); m = split(suites, s, " ")
				for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print u[i], s[j]
			}
			types = uris = suites = enabled = key = ""
		}
		/^#/ { next }
		/^[[:space:]]*$/ { flush(); next }
		{
			line = $0
			if (line !~ /^[[:space:]]/) {
				key = tolower(line); sub(/:.*/, "", key); sub(/^[^:]*:[[:space:]]*/, "", line)
			}
			if (key == "types") types = types " " line
			else if (key == "uris") uris = uris " " line
			else if (key == "suites") suites = suites " " line
			else if (key == "enabled") enabled = enabled line
		}
		END { flush() }'
}

# Proxy and certificate settings of this machine's apt, for the fetch only: what is
# made must not keep them.
apt_settings() {
	apt-config dump 2>/dev/null |
		grep -E '^Acquire::(http|https)::(Proxy|CaInfo|CAInfo|Verify-Peer|Verify-Host|Proxy-Auto-Detect)|^Acquire::(http|https)::Proxy::' || true
	[ ! -r /etc/apt/auth.conf ] || echo 'Dir::Etc::netrc "/etc/apt/auth.conf";'
	[ ! -d /etc/apt/auth.conf.d ] || echo 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d";'
	echo 'APT::Install-Recommends "false";'
	echo 'Acquire::Languages "none";'
	echo 'Acquire::Retries "3";'
}
