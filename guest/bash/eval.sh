# shellcheck shell=bash
# The bash that stays: evaluates what guest-init sends, in its own shell, and keeps what that
# leaves (guest/eval.c writes, this reads). guest/launch.c has the loop that calls this, on the
# one line of bash -c, so that messages and LINENO count the code's own lines.
#
# Descriptor 3 brings evaluations, each ten digits of length and the code; the answer is e, the
# exit status and a NUL. Code that is whole gets a line that keeps its status; code that could take
# that line in (a here-document without its end, a function without its body) gets none. The code
# runs with that descriptor closed. What it changes of the shell stays; options that would make
# these functions fail, print or export are put aside between evaluations and set again on the
# code's first line. Where set -e would end the shell, it ends the evaluation, unless the code has
# an ERR trap of its own. A shell that ends, by exit or set -u, or that has closed both its outputs,
# has ended: the next evaluation finds a new one.
exec 199<&3 3<&-
_bailey_set='' _bailey_going='' _bailey_stop='' _bailey_due='' _bailey_status=0

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
	local IFS='' LC_ALL=C length open='' close=''
	builtin read -r -N 10 -u 199 length || return 1
	builtin read -r -N "$((10#$length))" -u 199 _bailey_code || return 1
	_bailey_going=1
	# A function of it is read to its end and not run. What opens more than it closes is not read
	# at all: an open $( ends the shell that reads it, and here its message would not be seen.
	_bailey_part=1
	if [[ $_bailey_code == *\(* && ${#_bailey_code} -lt 65536 ]]; then
		open=${_bailey_code//[!(]/} close=${_bailey_code//[!)]/}
	fi
	if ((${#open} <= ${#close})) && builtin eval "_bailey_whole() { if :; then case a in a) :
$_bailey_code

;; esac; fi; }" 199>&-; then
		builtin unset -f _bailey_whole
		# The status is kept inside: the code's last command may fail without an error.
		_bailey_part='' _bailey_code+="

{ _bailey_status=\$?; } 2>/dev/null"
	fi
	_bailey_code=$_bailey_set$_bailey_code
}

_bailey_done() {
	[[ -n $_bailey_going ]] || return 0
	if [[ $1 -ne 0 || ( -n $_bailey_part && -z $_bailey_stop ) ]]; then _bailey_status=$1; fi
	_bailey_set=$-${_bailey_stop:+e}
	builtin set +aefuvx
	builtin export -n _bailey_status _bailey_set _bailey_going _bailey_stop _bailey_part
	_bailey_set=${_bailey_set//[!aefuvx]/}
	_bailey_set=${_bailey_set:+"builtin set -$_bailey_set; "}
	_bailey_going='' _bailey_stop='' _bailey_due=1
}

# Nothing that it says could be heard any more: then it has ended, and that is said.
_bailey_answer() {
	[[ -n $_bailey_due ]] || return 0
	_bailey_due=''
	[[ -e /dev/fd/1 || -e /dev/fd/2 ]] || builtin exit "$_bailey_status"
	builtin printf 'e%d\0' "$_bailey_status" 2>/dev/null >&199
}
