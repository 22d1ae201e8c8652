// Requests to the server that the page came from, and to nobody else.

import { Problem, brokenOff, problemFrom, problemOf, unreachable } from './problems.js';

const KEY = 'pome.key';

// The API key lives as long as the tab; where the browser keeps nothing, as long as the page.
let key = '';
try {
  key = sessionStorage.getItem(KEY) ?? '';
} catch {
  // Then it is asked for again.
}
export const hasKey = () => key !== '';
export function keepKey(given) {
  key = given;
  try {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Kept in `key`.
  }
}

function headers(more = {}) {
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

async function ask(path, options = {}) {
  try {
    return await fetch(path, { cache: 'no-store', credentials: 'omit', redirect: 'error', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw unreachable();
  }
}

export async function getJson(path) {
  const response = await ask(path, { headers: headers() });
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

const LOOK_MS = 8000; // a server that does not answer for so long is not there

// /health says what it has to say with 503, too.
export async function getHealth() {
  const response = await ask('/health', { signal: AbortSignal.timeout(LOOK_MS) });
  return response.json();
}

export async function getMetrics() {
  const response = await ask('/metrics', { signal: AbortSignal.timeout(LOOK_MS) });
  if (!response.ok) throw await problemOf(response);
  return parseMetrics(await response.text());
}

// Prometheus' text: name to the list of {labels, value}.
export function parseMetrics(text) {
  const families = new Map();
  for (const line of text.split('\n')) {
    const parts = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!parts || line.startsWith('#')) continue;
    const labels = {};
    for (const [, name, value] of (parts[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    const samples = families.get(parts[1]) ?? [];
    samples.push({ labels, value: Number(parts[3]) });
    families.set(parts[1], samples);
  }
  return families;
}

// Calls `onChunk` with each chunk of a streamed chat; returns when [DONE] has come.
export async function streamChat(body, signal, onChunk) {
  const response = await ask('/v1/chat/completions', {
    method: 'POST',
    headers: headers({ 'Content-Type': 'application/json' }),
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await problemOf(response);
  for await (const data of events(response.body)) {
    if (data === '[DONE]') return;
    const chunk = parseChunk(data);
    if (chunk.error) throw problemFrom(undefined, chunk.error);
    onChunk(chunk);
  }
  throw brokenOff();
}

function parseChunk(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new Problem('The server sent something that is no JSON.');
  }
}

// The data of server-sent events, however the bytes were cut.
async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let waiting = '';
  try {
    for (;;) {
      const { done, value } = await read(reader);
      if (done) return;
      waiting += decoder.decode(value, { stream: true });
      const whole = waiting.split(/\r?\n\r?\n/);
      waiting = whole.pop();
      for (const event of whole) {
        const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'));
        if (lines.length > 0) yield lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n');
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function read(reader) {
  try {
    return await reader.read();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw brokenOff();
  }
}
