'use strict';
/*
 * Preloaded instead of hook.js into the node that waits in its sandbox: does what hook.js does,
 * then whatever of a start no run can influence, and holds node until descriptor 3 brings the
 * run (guest/prestart.c): four bytes of length, then items that each end in a NUL: the number
 * of arguments, the arguments, NAME=value for each variable.
 *
 * The time it waited is none of the run's for process.uptime(). performance counts from the start
 * of the process: marks, events and observers do so inside node, and now() has to agree with them.
 */
function readAll(fs) {
  let message = Buffer.alloc(0);
  let need = 4;
  const part = Buffer.allocUnsafe(65536);
  while (message.length < need) {
    const n = fs.readSync(3, part, 0, part.length, null);
    if (n === 0) process.reallyExit(0); // no run will come
    message = Buffer.concat([message, part.subarray(0, n)]);
    if (message.length >= 4) need = 4 + message.readUInt32LE(0);
  }
  return message.toString('utf8', 4, need - 1).split('\0');
}

function wait() {
  const fs = require('fs');
  // Made at first use; a run finds them made. Not stdin: that would make its pipe non-blocking.
  void process.stdout;
  void process.stderr;
  fs.writeSync(3, 'r');
  const { uptime } = process;
  const before = uptime();
  const items = readAll(fs);
  fs.closeSync(3);
  const waited = uptime() - before;
  process.uptime = { uptime: () => uptime() - waited }.uptime;
  const count = Number(items[0]);
  process.argv.push(...items.slice(1, 1 + count));
  for (const item of items.slice(1 + count)) {
    const at = item.indexOf('=');
    process.env[item.slice(0, at)] = item.slice(at + 1);
  }
}

require('./hook.js');
delete require.cache[__filename];
if (require('worker_threads').isMainThread) wait(); // a worker preloads what its process did
