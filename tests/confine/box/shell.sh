# What shell scripts do every day, under the container profile. Run as bash -s.
# shellcheck shell=bash
set -euo pipefail
cd /tmp
[ "$(echo one two | tr ' ' '\n' | sort -r | head -n 1)" = two ]
mkdir -p a/b && touch a/b/c && cp -a a d && mv d e && ln -s e f && rm -r e
mkfifo pipe && (echo through >pipe &) && [ "$(cat pipe)" = through ]
[ "$(cat <(echo substituted))" = substituted ]
sleep 0.05 &
wait $!
trap 'caught=1' USR1
kill -USR1 $$
[ "${caught:-}" = 1 ]
ulimit -n 256
nice -n 3 true
timeout 5 true
sync
tar cf t.tar a && tar tf t.tar >/dev/null
[ "$(seq 1 100000 | wc -l)" = 100000 ]
df . >/dev/null
if unshare -Ur true 2>/dev/null; then exit 1; fi
if mount -t tmpfs none a 2>/dev/null; then exit 1; fi
if chroot / true 2>/dev/null; then exit 1; fi
if mknod device c 1 3 2>/dev/null; then exit 1; fi
echo "all well"
