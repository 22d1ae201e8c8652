// The panel of settings: what is in its fields, kept over a reload, and which field is at fault.

import { byId, showWhen } from './dom.js';
import { SCHEMA, TOOLS } from './examples.js';
import { parseSchema, parseTools } from './request.js';
import { keepSettings, loadSettings } from './store.js';

const CHECKS = { tools: parseTools, schema: parseSchema };
// How the API calls what a field of the panel fills in.
const FIELD_OF = { response_format: 'schema', max_completion_tokens: 'max_tokens', chat_template_kwargs: 'thinking' };

export class Settings {
  constructor() {
    this.form = byId('settings-form');
    this.fill(loadSettings());
    this.form.addEventListener('input', (event) => this.changed(event.target));
    this.form.addEventListener('submit', (event) => event.preventDefault());
    this.form.addEventListener('reset', () => setTimeout(() => this.fields().forEach((field) => this.changed(field))));
    byId('tools-example').addEventListener('click', () => this.fill({ tools: TOOLS }));
    byId('schema-example').addEventListener('click', () => this.fill({ format: 'json_schema', schema: SCHEMA }));
  }

  fields() {
    return [...this.form.elements].filter((field) => field.name);
  }

  values() {
    return Object.fromEntries(this.fields().map((field) => [field.name, field.value]));
  }

  fill(values) {
    for (const field of this.fields()) {
      if (typeof values[field.name] === 'string') {
        field.value = values[field.name];
        this.changed(field);
        if (field.value) reveal(field);
      }
    }
  }

  changed(field) {
    field.removeAttribute('aria-invalid');
    this.check(field);
    keepSettings(this.values());
  }

  // A box of JSON says at once what is wrong in it.
  check(field) {
    const check = CHECKS[field.name];
    if (!check) return;
    const place = byId(`${field.name}-problem`);
    try {
      check(field.value);
      place.textContent = '';
    } catch (problem) {
      place.textContent = problem.message;
      field.setAttribute('aria-invalid', 'true');
    }
    showWhen(place, place.textContent);
  }

  // Marks the field that the server or the request's author found wrong: 'tools[0].function' is 'tools'.
  blame(path) {
    const root = /^\w+/.exec(path)?.[0] ?? '';
    const field = this.form.elements[FIELD_OF[root] ?? root];
    if (!field || !field.name) return;
    field.setAttribute('aria-invalid', 'true');
    reveal(field);
  }
}

function reveal(field) {
  for (let at = field.closest('details'); at; at = at.parentElement.closest('details')) at.open = true;
}
