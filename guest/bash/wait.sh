# shellcheck shell=bash
# Holds a starting bash until it is given its run (guest/prestart.c writes, this reads).
#
# bash reads this file before it opens main.sh, because BASH_ENV names it. What is left of it when
# the run starts: nothing a script can see but an empty list for its own arguments in BASH_ARGC,
# which bash otherwise makes when it is first asked for. The one name used is the one that goes.
unset BASH_ENV
printf r >&3
IFS= read -r -u 3 BASH_ENV || exit 0 # no run will come
unset BASH_ENV
exec 3<&-
SECONDS=0
: bash # $_ of a start: its own first word
