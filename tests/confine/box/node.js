// What Node programs do every day, under the container profile. Run as node -.
const assert = require('assert');
const { execSync, spawn } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const net = require('net');
const os = require('os');
const { Worker } = require('worker_threads');

const seen = (start) => new Promise(start);

const tests = [
  async () => assert.equal(execSync('echo x').toString(), 'x\n'),
  async () => assert.ok(os.cpus().length > 0),
  async () => assert.ok(os.networkInterfaces().lo),
  async () => assert.equal(await seen((done) => {
    new Worker('require("worker_threads").parentPort.postMessage(7)', { eval: true }).on('message', done);
  }), 7),
  async () => assert.equal((await seen((done) => crypto.scrypt('a', 'b', 32, (_e, key) => done(key)))).length, 32),
  async () => assert.equal(await seen((done) => {
    const server = http.createServer((_request, response) => response.end('ok')).listen(0, '127.0.0.1', () => {
      http.get({ port: server.address().port, host: '127.0.0.1' }, (response) => {
        response.on('data', (data) => { server.close(); done(String(data)); });
      });
    });
  }), 'ok'),
  async () => assert.equal(await seen((done) => {
    const server = net.createServer((socket) => socket.end('u')).listen('s.sock', () => {
      net.connect('s.sock').on('data', (data) => { server.close(); done(String(data)); });
    });
  }), 'u'),
  async () => {
    await fs.promises.writeFile('q', '1');
    assert.ok((await fs.promises.readdir('.')).includes('q'));
  },
  async () => seen((done) => {
    const watch = fs.watch('.', () => { watch.close(); done(); });
    setTimeout(() => fs.writeFileSync('z', '1'), 10);
  }),
  async () => assert.equal(await seen((done) => {
    spawn(process.execPath, ['-e', 'process.send(5)'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
      .on('message', done);
  }), 5),
  async () => WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])),
  async () => os.setPriority(5),
  async () => assert.throws(() => os.setPriority(1, 19), /EPERM|permitted|permission/),
];

(async () => {
  for (const test of tests) await test();
  console.log('all well');
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
