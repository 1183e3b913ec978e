# shellcheck shell=bash
# The bash that stays: evaluates what guest-init sends, in its own shell, and keeps what that
# leaves (guest/eval.c writes, this reads). guest/launch.c has the loop that calls this, on the
# one line of bash -c, so that messages and LINENO count the code's own lines.
#
# Descriptor 3 brings evaluations, each ten digits of length and the code; the answer is e, the
# exit status and a NUL. The code runs with that descriptor closed. What it changes of the shell
# stays; options that would make these functions fail, print or export are put aside between
# evaluations and set again on the code's first line. Where set -e would end the shell, it ends
# the evaluation, unless the code has an ERR trap of its own. A shell that ends, by exit or
# set -u, has ended: the next evaluation finds a new one.
exec 199<&3 3<&-
_bailey_set='' _bailey_going='' _bailey_stop='' _bailey_status=0

# ERR fires where set -e would have its say, and before it has.
set -E
trap '_bailey_status=$?
	if [[ $- == *e* || -n $_bailey_stop ]]; then
		if ((BASH_SUBSHELL)); then exit $_bailey_status; fi
		_bailey_stop=1
		set +e
		if ((${#FUNCNAME[@]})); then return $_bailey_status; fi
		continue 1000
	fi' ERR

_bailey_next() {
	# Code that was stopped, or said continue outside a loop, comes here first.
	[[ -z $_bailey_going ]] || _bailey_done 0
	local IFS='' LC_ALL=C length
	builtin read -r -N 10 -u 199 length || return 1
	builtin read -r -N "$((10#$length))" -u 199 _bailey_code || return 1
	_bailey_going=1
	# The status is kept inside: the code's last command may fail without an error.
	_bailey_code="$_bailey_set$_bailey_code

{ _bailey_status=\$?; } 2>/dev/null"
}

_bailey_done() {
	[[ $1 -eq 0 ]] || _bailey_status=2
	_bailey_set=$-${_bailey_stop:+e}
	builtin set +aefuvx
	builtin export -n _bailey_status _bailey_set _bailey_going _bailey_stop
	_bailey_set=${_bailey_set//[!aefuvx]/}
	_bailey_set=${_bailey_set:+"builtin set -$_bailey_set; "}
	_bailey_going='' _bailey_stop=''
	builtin printf 'e%d\0' "$_bailey_status" >&199
}
