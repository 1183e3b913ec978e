'use strict';
/*
 * The node that stays: evaluates what guest-init sends and keeps what that leaves (guest/eval.c
 * writes, this reads). Descriptor 3 brings evaluations, each ten digits of length and the code;
 * the answer is records that each end in a NUL: v and the value as util.inspect shows it, at
 * last e and the exit code.
 *
 * The code is evaluated by the engine's own REPL mode, in the main realm: let, const and class
 * may be declared again, await stands at top level. Its debugger interface is the only way to
 * that mode. Timers go on after the evaluation that set them, as in node's REPL.
 */
const { Session } = require('inspector');
const Module = require('module');
const net = require('net');
const path = require('path');
const util = require('util');
const vm = require('vm');

const HEADER = 10;
const VALUE_MAX = 65536;
const BASE = path.join(process.cwd(), '[eval]');

const later = setImmediate;
const session = new Session();
const control = new net.Socket({ fd: 3, readable: true, writable: true });
const holder = { value: undefined }; // where the debugger interface puts a value
let holderId;
let count = 0;
let going = null; // the evaluation there is no answer to yet

// ---- what the code sees ----

function makeGlobals() {
  const main = new Module(BASE, null);
  main.filename = BASE;
  main.paths = Module._nodeModulePaths(process.cwd());
  delete require.cache[__filename];
  process.argv.length = 1;
  process.execArgv.length = 0;
  process.mainModule = main;
  const importer = new Module(BASE, null);
  importer.filename = BASE;
  importer.paths = main.paths;
  importer._compile('module.exports = (name, options) => import(name, options);', BASE);
  const define = (name, value) => Object.defineProperty(globalThis, name, {
    value, configurable: true, enumerable: false, writable: true,
  });
  define('require', Module.createRequire(BASE));
  define('module', main);
  define('exports', main.exports);
  define('__filename', '[eval]');
  define('__dirname', '.');
  define('__import', importer.exports);
  for (const name of Module.builtinModules) {
    if (/^_|[/:]/.test(name) || name in globalThis) continue;
    Object.defineProperty(globalThis, name, {
      configurable: true, enumerable: false,
      get: () => { const found = require(name); define(name, found); return found; },
      set: (value) => define(name, value),
    });
  }
}

/* The REPL mode knows no import. Outside strings, templates and comments import() calls our own,
 * and an import statement becomes the declaration of what it names. */
const WORDS = new RegExp([
  /\/\/[^\n]*|\/\*[^]*?\*\//, /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[^]|[^`\\])*`/,
  /(?<![.\w$])import(?=\s*\()/, /(?<![.\w$])import\b(?:([\w$*\s,{}]+?)\bfrom)?\s*('[^'\n]+'|"[^"\n]+")/,
].map((part) => part.source).join('|'), 'g');

function declaration(names, from) {
  const module = `await __import(${from})`;
  const [, first] = /^\s*([\w$]+)/.exec(names) ?? [];
  const [, all] = /\*\s*as\s+([\w$]+)/.exec(names) ?? [];
  const [, some = ''] = /\{([^}]*)\}/.exec(names) ?? [];
  const pairs = some.split(',').filter((name) => name.trim()).map((name) => name.replace(/\sas\s/, ':'));
  if (first) pairs.unshift(`default: ${first}`);
  if (!all) return `const {${pairs.join(', ')}} = ${module}`;
  return `const ${all} = ${module}${pairs.length ? `, {${pairs.join(', ')}} = ${all}` : ''}`;
}

function replaceImport(found, names, from) {
  if (found === 'import') return '__import';
  if (from === undefined) return found;
  return names === undefined ? `void await __import(${from})` : declaration(names, from);
}

function prepare(code) {
  let text = code;
  if (text.includes('import')) {
    text = text.replace(WORDS, replaceImport);
  }
  if (/^\s*\{/.test(text) && !/;\s*$/.test(text)) {
    try { // an object rather than a block, where it can be both
      new vm.Script(`async () => (${text}\n)`);
      text = `(${text}\n)`;
    } catch { /* a block */ }
  }
  return text;
}

// ---- the debugger interface ----

function post(method, params) {
  let answer;
  session.post(method, params, (error, result) => {
    if (error) throw new Error(`${method}: ${error.message}`);
    answer = result;
  });
  return answer;
}

/* The value itself behind what the interface tells of it. */
function realValue(told) {
  if (told.type === 'undefined') return undefined;
  if (told.objectId === undefined && told.unserializableValue === undefined) return told.value;
  const { objectId, unserializableValue } = told;
  post('Runtime.callFunctionOn', {
    objectId: holderId,
    functionDeclaration: 'function (value) { this.value = value; }',
    arguments: [objectId === undefined ? { unserializableValue } : { objectId }],
  });
  const value = holder.value;
  holder.value = undefined;
  return value;
}

// ---- one evaluation ----

/* Errors with the lines of this file cut off. */
function describe(error) {
  if (!util.types.isNativeError(error)) return util.inspect(error);
  const text = util.inspect(error);
  const at = text.search(/\n {4}at (?:[^\n]*\()?node:(?:internal\/)?(?:inspector|util\/inspector)/);
  if (at === -1) return text;
  const rest = text.slice(at + 1).split('\n');
  const skip = rest.findIndex((line) => !/^ {4}at /.test(line));
  return text.slice(0, at) + (skip === -1 ? '' : `\n${rest.slice(skip).join('\n')}`);
}

function report(error, where = '') {
  let text;
  try {
    text = describe(error);
  } catch (failure) {
    text = `(an error whose description failed: ${typeof failure})`;
  }
  process.stderr.write(`${where}Uncaught ${text}\n`);
}

/* A syntax error has no frame that shows where. */
function syntaxPlace(code, details) {
  const line = code.split('\n')[details.lineNumber];
  if (line === undefined || line.length > 1000) return '';
  return `eval-${count}:${details.lineNumber + 1}\n${line}\n${' '.repeat(details.columnNumber)}^\n\n`;
}

function valueRecord(value) {
  const data = Buffer.from(util.inspect(value).replaceAll('\0', '\\x00'));
  if (data.length <= VALUE_MAX) return `v${data}\0`;
  const head = data.toString('utf8', 0, VALUE_MAX).replace(/\ufffd+$/, '');
  return `v${head}\n... (the first ${VALUE_MAX} of ${data.length} bytes)\0`;
}

function drained(stream, then) {
  if (stream.writableLength === 0 || stream.destroyed) then();
  else stream.write('', () => then());
}

/* A turn later: a rejection nobody handles is told only then. */
function finish(mine, record, code) {
  if (mine !== going || mine.over) return;
  mine.over = true;
  mine.code = code;
  later(() => drained(process.stdout, () => drained(process.stderr, () => {
    going = null;
    control.write(`${record}e${mine.code}\0`);
  })));
}

function fail(mine, error, where) {
  report(error, where);
  finish(mine, '', 1);
}

function onResult(mine, code, failure, answer) {
  try {
    if (failure) return fail(mine, failure);
    const value = realValue(answer.exceptionDetails ? answer.exceptionDetails.exception : answer.result);
    session.post('Runtime.releaseObjectGroup', { objectGroup: 'eval' });
    session.post('Runtime.discardConsoleEntries');
    if (mine.over) return undefined; // it has failed in another way
    if (answer.exceptionDetails) {
      const atCompile = value instanceof SyntaxError && !/\n {4}at eval-/.test(value.stack);
      return fail(mine, value, atCompile ? syntaxPlace(code, answer.exceptionDetails) : '');
    }
    return finish(mine, value === undefined ? '' : valueRecord(value), 0);
  } catch (error) { // the value's own inspection
    return fail(mine, error);
  }
}

function evaluate(code) {
  const mine = { over: false, code: 0 };
  going = mine;
  count += 1;
  session.post('Runtime.evaluate', {
    expression: `${prepare(code)}\n//# sourceURL=eval-${count}`,
    replMode: true,
    objectGroup: 'eval',
  }, (failure, answer) => onResult(mine, code, failure, answer));
}

function onUncaught(error) {
  if (going === null) report(error);
  else if (going.over) { report(error); going.code = 1; } else fail(going, error);
}

// ---- start ----

function listen() {
  let data = Buffer.alloc(0);
  control.on('data', (part) => {
    data = data.length === 0 ? part : Buffer.concat([data, part]);
    if (data.length < HEADER) return;
    const need = HEADER + Number(data.toString('latin1', 0, HEADER));
    if (data.length < need) return;
    const code = data.toString('utf8', HEADER, need);
    data = data.subarray(need);
    evaluate(code);
  });
  control.on('error', () => process.reallyExit(0));
  control.on('end', () => process.reallyExit(0));
}

session.connect();
globalThis.__holder = holder;
holderId = post('Runtime.evaluate', { expression: '__holder' }).result.objectId;
delete globalThis.__holder;
makeGlobals();
// Blocking, as a child that shares them expects, and so that nothing is lost at process.exit().
for (const stream of [process.stdout, process.stderr]) {
  if (stream._handle && stream._handle.setBlocking) stream._handle.setBlocking(true);
}
process.on('uncaughtException', onUncaught);
process.on('unhandledRejection', onUncaught);
listen();
