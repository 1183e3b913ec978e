'use strict';
/*
 * Preloaded into every node the guest starts (guest/launch.c), before main.js.
 *
 * With BAILEY_WAIT it holds a starting node until it is given a run: what no run can influence
 * is done first, then it waits on descriptor 3 for the message guest/prestart.c writes: four
 * bytes of length, then items that each end in a NUL: the number of arguments, the arguments,
 * NAME=value for each variable.
 *
 * Both ways it leaves nothing of itself: no execArgv (child_process.fork would inherit it), no
 * module in the cache. What stays is require as a global, so that a file with import, export or
 * top-level await, which node runs as a module, can still call it.
 */
const { isMainThread } = require('worker_threads');

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
  delete process.env.BAILEY_WAIT;
  // Each of these is made at first use; a run finds them made.
  void process.stdout;
  void process.stderr;
  void process.stdin;
  fs.writeSync(3, 'r');
  const items = readAll(fs);
  fs.closeSync(3);
  const count = Number(items[0]);
  process.argv.push(...items.slice(1, 1 + count));
  for (const item of items.slice(1 + count)) {
    const at = item.indexOf('=');
    process.env[item.slice(0, at)] = item.slice(at + 1);
  }
}

function provide() {
  const { createRequire } = require('module');
  Object.defineProperty(globalThis, 'require', {
    value: createRequire(process.cwd() + '/main.js'),
    configurable: true,
    enumerable: false,
    writable: true,
  });
}

process.execArgv.length = 0;
delete require.cache[__filename];
if (isMainThread) { // a worker preloads what its process did
  provide();
  if (process.env.BAILEY_WAIT) wait();
}
