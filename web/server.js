// The live view: whether the server answers, which model it has, and what it is busy with.

import { getHealth, getJson, getMetrics } from './api.js';
import { byId, bytes, count, el, fact, showWhen } from './dom.js';

const EVERY_MS = 2000;
const STATES = {
  ok: 'Ready',
  starting: 'The model is being loaded …',
  draining: 'Shutting down',
  stuck: 'Stuck in a step',
  away: 'Not reachable',
};

export class ServerView {
  constructor(onModel) {
    this.onModel = onModel;
    this.model = null;
    this.state = '';
    this.polling = false;
    this.hasMetrics = true;
    this.wantsKey = false; // what the key is needed for waits until one is given
  }

  start() {
    this.poll();
    setInterval(() => this.poll(), EVERY_MS);
    document.addEventListener('visibilitychange', () => this.poll());
  }

  async poll() {
    if (document.hidden || this.polling) return;
    this.polling = true;
    try {
      const health = await getHealth();
      this.showState(health.status ?? 'away');
      if (health.status === 'ok' && !this.model && !this.wantsKey) await this.askForModel();
      if (health.status !== 'starting' && !byId('chats').hidden) await this.showFigures(health);
    } catch {
      this.showState('away');
    }
    this.polling = false;
  }

  showState(state) {
    if (state === this.state) return;
    // Another model may stand behind the address after a restart.
    if (state === 'away' || state === 'starting') {
      this.model = null;
      this.hasMetrics = true;
    }
    this.state = state;
    byId('health').dataset.state = state;
    byId('health-text').textContent = STATES[state] ?? state;
  }

  keyChanged() {
    this.wantsKey = false;
    this.poll();
  }

  // Until a key is given the page works without the name.
  async askForModel() {
    try {
      this.model = await getJson('/get_model_info');
    } catch (error) {
      this.wantsKey = error.kind === 'key';
      return;
    }
    byId('model-name').textContent = this.model.served_model_name;
    this.onModel(this.model);
  }

  async showFigures(health) {
    const metrics = this.hasMetrics ? await getMetrics().catch((error) => this.noMetrics(error)) : null;
    const value = (name) => metrics?.get(name)?.[0]?.value ?? 0;
    const facts = [fact('Running', count(health.running)), fact('Waiting', count(health.waiting))];
    if (metrics) {
      facts.push(fact('Output', `${value('sglang:gen_throughput').toFixed(1)} tokens/s`));
      facts.push(...cacheFacts(value), ...memoryFacts(metrics));
    }
    byId('figures').replaceChildren(...facts);
    showWhen(byId('figures-note'), !metrics);
    byId('figures-note').textContent = metrics ? '' : 'The server tells no more: it runs without metrics.';
    showMemoryItems(metrics);
  }

  noMetrics(error) {
    this.hasMetrics = error.kind !== 'absent';
    return null;
  }
}

function cacheFacts(value) {
  const size = value('sglang:max_total_num_tokens');
  const used = value('sglang:num_used_tokens');
  const kept = value('pome:kv_cached_tokens');
  const facts = [fact('Prefix hits', `${Math.round(100 * value('sglang:cache_hit_rate'))} %`)];
  if (size > 0) {
    facts.unshift(fact('KV cache', bar([[used, 'used'], [kept, 'kept']], size),
      `${count(used)} used and ${count(kept)} kept of ${count(size)} tokens`));
  }
  return facts;
}

function memoryFacts(metrics) {
  const whole = (name) => metrics.get(name)?.find((sample) => sample.labels.item === 'process')?.value;
  const measured = whole('pome:memory_measured_bytes');
  const planned = whole('pome:memory_planned_bytes');
  if (measured === undefined) return [];
  if (!planned) return [fact('Memory', bytes(measured))];
  return [fact('Memory', bar([[measured, 'used']], planned), `${bytes(measured)} of ${bytes(planned)} planned`)];
}

function showMemoryItems(metrics) {
  const of = (name) => new Map((metrics?.get(name) ?? []).map((sample) => [sample.labels.item, sample.value]));
  const planned = of('pome:memory_planned_bytes');
  const measured = of('pome:memory_measured_bytes');
  const items = [...new Set([...planned.keys(), ...measured.keys()])].filter((item) => item !== 'process');
  showWhen(byId('memory'), items.length > 0);
  byId('memory-items').replaceChildren(...items.map((item) => fact(item, [
    measured.has(item) && bytes(measured.get(item)),
    planned.has(item) && `${bytes(planned.get(item))} planned`,
  ].filter(Boolean).join(', '))));
}

// Parts of a whole; the figures beside it say the same in words.
function bar(parts, whole) {
  const strip = el('span', { class: 'bar-strip', 'aria-hidden': 'true' });
  for (const [amount, name] of parts) {
    const part = el('span', { class: `bar-${name}` });
    part.style.width = `${Math.min(100, (100 * amount) / whole)}%`;
    strip.append(part);
  }
  return strip;
}
