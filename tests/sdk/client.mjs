// tests/sdk/client.mjs - Bailey driven by the official TypeScript clients. Prints TAP.
//
//   node client.mjs v1|v2-legacy|v2-auto|v2-modern MODULES_DIR COMMAND [ARG…]
//
// v1 is the 1.x SDK; v2 the 2.x client in each of its negotiation modes.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [kind, modules, command, ...args] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));

async function open() {
  const env = { ...process.env };
  if (kind === 'v1') {
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
    const client = new Client({ name: 'bailey-test', version: '1' });
    await client.connect(new StdioClientTransport({ command, args, env }));
    return client;
  }
  const { Client } = await load('@modelcontextprotocol/client');
  const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
  const mode = { 'v2-legacy': 'legacy', 'v2-auto': 'auto', 'v2-modern': { pin: '2026-07-28' } }[kind];
  const client = new Client({ name: 'bailey-test', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(new StdioClientTransport({ command, args, env }));
  return client;
}

let count = 0;
let failed = 0;
async function check(name, fn) {
  count += 1;
  try {
    await fn();
    console.log(`ok ${count} - ${kind}: ${name}`);
  } catch (e) {
    failed += 1;
    console.log(`not ok ${count} - ${kind}: ${name}`);
    console.log(String(e.stack ?? e).replace(/^/gm, '# '));
  }
}

const client = await open();
const call = (name, arguments_, options) => client.callTool({ name, arguments: arguments_ }, ...(options ?? []));

await check('the three tools are listed with schemas', async () => {
  const { tools } = await client.listTools();
  const names = tools.map((t) => t.name).sort();
  assert.deepEqual(names, ['check_sandbox_health', 'execute_code', 'execute_sandboxed_command']);
  for (const t of tools) {
    assert.equal(t.inputSchema.type, 'object');
    assert.equal(t.outputSchema.type, 'object');
  }
});
await check('the era is the one asked for', async () => {
  const version = client.getNegotiatedProtocolVersion?.() ?? client.transport?.protocolVersion;
  if (kind === 'v2-auto' || kind === 'v2-modern') assert.equal(version, '2026-07-28');
  else if (version !== undefined) assert.equal(version, '2025-11-25');
});
for (const [language, code] of [
  ['python', 'print(6 * 7)'],
  ['node', 'console.log(6 * 7)'],
  ['bash', 'echo $((6 * 7))'],
]) {
  await check(`execute_code ${language}`, async () => {
    const r = await call('execute_code', { language, code });
    assert.equal(r.structuredContent.status, 'ok');
    assert.equal(r.structuredContent.stdout, '42\n');
    assert.equal(r.structuredContent.exit_code, 0);
    assert.deepEqual(JSON.parse(r.content[0].text), r.structuredContent);
  });
}
await check('execute_sandboxed_command passes an exit code and stderr', async () => {
  const r = await call('execute_sandboxed_command', { command: 'echo oops >&2; exit 3' });
  assert.equal(r.structuredContent.status, 'nonzero');
  assert.equal(r.structuredContent.exit_code, 3);
  assert.equal(r.structuredContent.stderr, 'oops\n');
  assert.ok(!r.isError);
});
await check('check_sandbox_health', async () => {
  const r = await call('check_sandbox_health', {});
  assert.equal(r.structuredContent.status, 'ok');
});
await check('a bad argument is a tool error that names it', async () => {
  const r = await call('execute_code', { language: 'cobol', code: '' });
  assert.equal(r.isError, true);
  assert.match(r.content[0].text, /language/);
});
await check('an unknown tool is refused', async () => {
  await assert.rejects(call('no_such_tool', {}), /-32602|Unknown tool/);
});
await check('progress arrives before the answer', async () => {
  const seen = [];
  const options = { onprogress: (p) => seen.push(p) };
  const params = { name: 'execute_code', arguments: { language: 'python', code: 'print("early", flush=True)\nimport time\ntime.sleep(0.4)' } };
  const r = kind === 'v1' ? await client.callTool(params, undefined, options) : await client.callTool(params, options);
  assert.equal(r.structuredContent.status, 'ok');
  assert.ok(seen.length >= 1);
  assert.ok(seen.some((p) => (p.message ?? '').includes('early')));
});
await check('an aborted call frees the client at once and the next call works', async () => {
  const abort = new AbortController();
  const params = { name: 'execute_code', arguments: { language: 'bash', code: 'sleep 30' } };
  const options = { signal: abort.signal };
  const pending = kind === 'v1' ? client.callTool(params, undefined, options) : client.callTool(params, options);
  setTimeout(() => abort.abort(), 300);
  await assert.rejects(pending);
  const r = await call('execute_code', { language: 'bash', code: 'echo next' });
  assert.equal(r.structuredContent.stdout, 'next\n');
});
await client.close();
console.log(`1..${count}`);
process.exit(failed === 0 ? 0 : 1);
