'use strict';
/*
 * Preloaded into every node the guest starts (guest/launch.c), before main.js: gives a global
 * require, so that a file with import, export or top-level await, which node runs as a module,
 * can call it too. Leaves nothing else of itself: no execArgv, which child_process.fork and
 * workers would inherit, and no module in the cache.
 */
process.execArgv.length = 0;
delete require.cache[__filename];

if (require('worker_threads').isMainThread) {
  Object.defineProperty(globalThis, 'require', {
    value: require('module').createRequire(process.argv[1]),
    configurable: true,
    enumerable: false,
    writable: true,
  });
}
