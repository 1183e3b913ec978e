#!/bin/bash
# Shell and Python of the tree: they parse, shellcheck has nothing to say, C is formatted.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source=tests/lib/tap.sh
. "$top/tests/lib/tap.sh"
cd "$top"

list_files() {
	git -c safe.directory="$top" ls-files -co --exclude-standard 2>/dev/null ||
		find . -path ./.git -prune -o -path ./build -prune -o -type f -print | sed 's,^\./,,'
}
shell=()
python=()
c=()
while read -r f; do
	[[ -f $f && $f != tests/fuzz/corpus/* ]] || continue
	case $f in
	*.py) python+=("$f") ;;
	*.c | *.h) c+=("$f") ;;
	*)
		read -r first <"$f" || true
		case $first in
		'#!'*bash* | '#!'*/sh* | '# shellcheck shell='*) shell+=("$f") ;;
		'#!'*python3*) python+=("$f") ;;
		esac
		;;
	esac
done < <(list_files 2>/dev/null | tr -d '\0')

if command -v shellcheck >/dev/null; then
	# SC2016 warns of "$" in single quotes: text for another shell has it on purpose.
	tap_true "shellcheck: ${#shell[@]} scripts" shellcheck -x -e SC2016 "${shell[@]}"
else
	tap_skip "shellcheck" "shellcheck is not installed"
fi
no_errexit=()
for f in "${shell[@]}"; do
	# Sourced parts inherit it.
	case $(head -n 1 "$f") in
	'#!'*bash*) grep -q '^set -euo pipefail$' "$f" || no_errexit+=("$f") ;;
	esac
done
tap_is "bash scripts set -euo pipefail" "${no_errexit[*]:-}" ""
parse='import ast, sys
for name in sys.argv[1:]:
    ast.parse(open(name, encoding="utf-8").read(), name)'
tap_true "python parses: ${#python[@]} files" python3 -c "$parse" "${python[@]}"
if [ ! -f .clang-format ] || [ ${#c[@]} -eq 0 ]; then
	tap_skip "clang-format" "there is no .clang-format or no C yet"
elif ! command -v clang-format >/dev/null; then
	tap_skip "clang-format" "clang-format is not installed"
else
	# Another version formats differently; the one .clang-format was written for decides.
	out=$(clang-format --dry-run -Werror "${c[@]}" 2>&1 | grep -E 'error:' | cut -d: -f1 | sort | uniq -c) || true
	tap_is "clang-format: ${#c[@]} files" "$out" ""
fi
tap_done
