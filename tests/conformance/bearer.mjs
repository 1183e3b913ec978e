// tests/conformance/bearer.mjs - preloaded into the conformance suite, which knows no static
// tokens: adds the Authorization header to each of its HTTP requests that has none.
//
//   BAILEY_TOKEN=… node --import ./bearer.mjs …
//
// fetch and undici's request() share one dispatcher, whichever copy of undici made it; some
// scenarios use node's own http.request instead, to send headers that fetch would not.
import http from 'node:http';
import { syncBuiltinESMExports } from 'node:module';

const token = process.env.BAILEY_TOKEN;
const key = Symbol.for('undici.globalDispatcher.1');

await fetch('data:,'); // makes the built-in dispatcher
const inner = globalThis[key];

function withToken(headers) {
  if (headers == null) return { authorization: `Bearer ${token}` };
  if (Array.isArray(headers)) {
    const names = Array.isArray(headers[0]) ? headers.map((h) => h[0]) : headers.filter((_, i) => i % 2 === 0);
    if (names.some((n) => String(n).toLowerCase() === 'authorization')) return headers;
    return Array.isArray(headers[0])
      ? [...headers, ['authorization', `Bearer ${token}`]]
      : [...headers, 'authorization', `Bearer ${token}`];
  }
  if (typeof headers[Symbol.iterator] === 'function') return withToken([...headers]);
  if (Object.keys(headers).some((n) => n.toLowerCase() === 'authorization')) return headers;
  return { ...headers, authorization: `Bearer ${token}` };
}

const request = http.request;
http.request = (...args) => {
  const at = args.findIndex((a) => a !== null && typeof a === 'object' && !(a instanceof URL));
  if (at === -1) args.splice(1, 0, { headers: withToken(null) });
  else args[at] = { ...args[at], headers: withToken(args[at].headers) };
  return request(...args);
};
syncBuiltinESMExports();

globalThis[key] = new Proxy(inner, {
  get(target, name) {
    if (name === 'dispatch')
      return (options, handler) =>
        target.dispatch({ ...options, headers: withToken(options.headers) }, handler);
    const value = target[name];
    return typeof value === 'function' ? value.bind(target) : value;
  },
});
