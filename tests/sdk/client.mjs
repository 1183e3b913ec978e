// tests/sdk/client.mjs - Bailey driven by the official TypeScript clients. Prints TAP.
//
//   node client.mjs v1|v2-legacy|v2-auto|v2-modern MODULES_DIR stdio COMMAND [ARG…]
//   node client.mjs v1|v2-legacy|v2-auto|v2-modern MODULES_DIR http URL     (BAILEY_TOKEN)
//
// v1 is the 1.x SDK; v2 the 2.x client in each of its negotiation modes.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [kind, modules, way, command, ...args] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));

async function transport(stdio, http) {
  if (way === 'stdio') {
    const { StdioClientTransport } = await load(stdio);
    return new StdioClientTransport({ command, args, env: { ...process.env } });
  }
  const { StreamableHTTPClientTransport } = await load(http);
  const headers = { Authorization: `Bearer ${process.env.BAILEY_TOKEN}` };
  return new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } });
}

async function open() {
  if (kind === 'v1') {
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    const client = new Client({ name: 'bailey-test', version: '1' });
    await client.connect(await transport('@modelcontextprotocol/sdk/client/stdio.js',
      '@modelcontextprotocol/sdk/client/streamableHttp.js'));
    return client;
  }
  const { Client } = await load('@modelcontextprotocol/client');
  const mode = { 'v2-legacy': 'legacy', 'v2-auto': 'auto', 'v2-modern': { pin: '2026-07-28' } }[kind];
  const client = new Client({ name: 'bailey-test', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(await transport('@modelcontextprotocol/client/stdio', '@modelcontextprotocol/client'));
  return client;
}

let count = 0;
let failed = 0;
async function check(name, fn) {
  count += 1;
  try {
    await fn();
    console.log(`ok ${count} - ${kind} ${way}: ${name}`);
  } catch (e) {
    failed += 1;
    console.log(`not ok ${count} - ${kind} ${way}: ${name}`);
    console.log(String(e.stack ?? e).replace(/^/gm, '# '));
  }
}

const client = await open();
const called = new Set(); // tools that have done something
const call = async (name, arguments_) => {
  const r = await client.callTool({ name, arguments: arguments_ });
  if (!r.isError) called.add(name);
  return r;
};

const TOOLS = ['check_sandbox_health', 'container_create_sandbox', 'container_destroy_sandbox', 'container_exec_command',
  'container_list_files', 'container_list_sandboxes', 'container_read_file', 'container_write_file', 'execute_code',
  'execute_sandboxed_command', 'inspect_logs', 'sandbox_eval'];
await check('every tool is listed with schemas', async () => {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((t) => t.name).sort(), TOOLS);
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
await check('a sandbox that stays: every tool', async () => {
  const good = async (name, arguments_) => {
    const r = await call(name, arguments_);
    assert.ok(!r.isError, JSON.stringify(r));
    return r.structuredContent;
  };
  const { sandbox_id } = await good('container_create_sandbox', {});
  assert.match(sandbox_id, /^[0-9a-f]{32}$/);
  await good('container_write_file', { sandbox_id, path: 'd/f.txt', content: 'first line\n' });
  await good('container_write_file', { sandbox_id, path: 'd/f.txt', content: Buffer.from('second\n').toString('base64'), encoding: 'base64', append: true });
  assert.equal((await good('container_exec_command', { sandbox_id, command: 'cat d/f.txt' })).stdout, 'first line\nsecond\n');
  assert.equal((await good('container_read_file', { sandbox_id, path: 'd/f.txt', offset: 6, length: 4 })).content, 'line');
  assert.deepEqual((await good('container_list_files', { sandbox_id, path: 'd' })).entries.map((e) => e.path), ['f.txt']);
  await good('sandbox_eval', { sandbox_id, language: 'python', code: 'x = 41' });
  assert.equal((await good('sandbox_eval', { sandbox_id, language: 'python', code: 'x + 1' })).value, '42');
  const { run_id } = await good('container_exec_command', { sandbox_id, argv: ['sh', '-c', 'echo in the background'], background: true });
  let log;
  do log = await good('inspect_logs', { run_id }); while (log.status === 'running');
  assert.equal(log.data, 'in the background\n');
  const { sandboxes } = await good('container_list_sandboxes', {});
  assert.ok(sandboxes.some((s) => s.sandbox_id === sandbox_id));
  assert.equal((await good('docker_exec', { container: sandbox_id, command: 'cat d/f.txt | wc -l' })).stdout, '2\n');
  await good('container_destroy_sandbox', { sandbox_id });
  const r = await call('container_exec_command', { sandbox_id, command: 'true' });
  assert.equal(r.isError, true);
  assert.equal(r.structuredContent.status, 'not_found');
});
await check('an id that can be none is not_found in a form the client takes, whatever the tool', async () => {
  for (const [name, more] of Object.entries({
    container_exec_command: { command: 'true' }, container_read_file: { path: 'f' }, container_write_file: { path: 'f', content: '' },
    container_list_files: {}, container_destroy_sandbox: {}, sandbox_eval: { language: 'node', code: '1' }, inspect_logs: {},
  })) {
    const r = await call(name, { sandbox_id: '../x', ...more });
    assert.deepEqual([r.isError, r.structuredContent.status], [true, 'not_found'], name);
  }
});
await check('an image a run leaves is an image block', async () => {
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
  const r = await call('execute_code', { language: 'bash', code: 'mkdir artifacts; base64 -d >artifacts/dot.png', stdin: png, artifacts: ['artifacts'] });
  assert.deepEqual(r.content.filter((c) => c.type === 'image').map((c) => [c.mimeType, c.data]), [['image/png', png]]);
});
await check('resources and prompts', async () => {
  const run = await call('execute_code', { language: 'bash', code: 'echo kept' });
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.ok(resourceTemplates.length >= 2);
  const template = resourceTemplates.find((t) => t.uriTemplate.includes('run_id'));
  const uri = template.uriTemplate.replace(/\{run_id\}/, run.structuredContent.run_id).replace(/\{[^}]*\}/g, 'stdout');
  const { contents } = await client.readResource({ uri });
  assert.equal(contents[0].text, 'kept\n');
  const { prompts } = await client.listPrompts();
  assert.ok(prompts.length >= 1);
  const { messages } = await client.getPrompt({ name: prompts[0].name });
  assert.ok(messages[0].content.text.length > 100);
  await assert.rejects(client.readResource({ uri: uri.replace(run.structuredContent.run_id, '0'.repeat(32)) }));
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
await check('every tool was called, by its other names too', async () => {
  assert.equal((await call('execute_python_code', { code_string: 'print(7)' })).structuredContent.stdout, '7\n');
  assert.equal((await call('docker_run', { command: 'echo 8' })).structuredContent.stdout, '8\n');
  assert.deepEqual([...called].sort(), [...TOOLS, 'docker_exec', 'docker_run', 'execute_python_code'].sort());
});
await client.close();
console.log(`1..${count}`);
process.exit(failed === 0 ? 0 : 1);
