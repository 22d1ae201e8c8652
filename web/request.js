// A chat and the settings as the body of POST /v1/chat/completions.

import { Problem } from './problems.js';

const NUMBERS = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'repetition_penalty', 'presence_penalty',
  'frequency_penalty', 'seed'];

export function requestBody(settings, messages, model) {
  const body = {
    model: model || undefined,
    messages: wireMessages(settings.system, messages),
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
    ...numbersOf(settings),
  };
  const stop = (settings.stop ?? '').split('\n').filter(Boolean).map((line) => line.replaceAll('\\n', '\n'));
  if (stop.length > 0) body.stop = stop;
  if (settings.thinking) body.chat_template_kwargs = { enable_thinking: settings.thinking === 'on' };
  const tools = parseTools(settings.tools);
  if (tools.length > 0) {
    body.tools = tools;
    if (settings.tool_choice) body.tool_choice = settings.tool_choice;
  }
  const format = responseFormat(settings);
  if (format) body.response_format = format;
  return body;
}

function numbersOf(settings) {
  const numbers = {};
  for (const name of NUMBERS) {
    const text = (settings[name] ?? '').trim().replace(',', '.');
    if (!text) continue;
    const number = Number(text);
    if (!Number.isFinite(number)) throw new Problem(`“${text}” is no number.`, { field: name });
    if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
      throw new Problem(`${text} is larger than a browser’s whole numbers.`, { field: name });
    }
    numbers[name] = number;
  }
  return numbers;
}

// The array of tools that a text holds; one tool alone will do.
export function parseTools(text) {
  const value = parseJson(text, 'tools');
  if (value === null) return [];
  const tools = Array.isArray(value) ? value : [value];
  if (!tools.every((tool) => tool !== null && typeof tool === 'object')) {
    throw new Problem('Tools are objects in an array: [{"type": "function", "function": {…}}].', { field: 'tools' });
  }
  return tools.map((tool) => (tool.type === undefined && tool.name ? { type: 'function', function: tool } : tool));
}

export function parseSchema(text) {
  const schema = parseJson(text, 'schema');
  if (schema !== null && (typeof schema !== 'object' || Array.isArray(schema))) {
    throw new Problem('A JSON schema is an object: {"type": "object", …}.', { field: 'schema' });
  }
  return schema;
}

function responseFormat(settings) {
  if (settings.format === 'json_object') return { type: 'json_object' };
  if (settings.format !== 'json_schema') return null;
  const schema = parseSchema(settings.schema);
  if (schema === null) throw new Problem('There is no JSON schema yet: paste one, or take the example.', { field: 'schema' });
  return { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } };
}

function parseJson(text, field) {
  if (!text || !text.trim()) return null;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Problem(`This is not JSON yet. ${error.message}.`, { field });
  }
}

function wireMessages(system, messages) {
  const wire = system && system.trim() ? [{ role: 'system', content: system }] : [];
  for (const message of messages) {
    if (message.role === 'user') wire.push({ role: 'user', content: message.content });
    if (message.role === 'tool') wire.push({ role: 'tool', tool_call_id: message.call, content: message.content });
    if (message.role === 'assistant' && (message.content || message.calls?.length)) wire.push(wireAnswer(message));
  }
  return wire;
}

function wireAnswer(message) {
  const wire = { role: 'assistant', content: message.content };
  if (message.reasoning) wire.reasoning_content = message.reasoning;
  if (message.calls?.length) {
    wire.tool_calls = message.calls.map(({ id, name, arguments: given }) => (
      { id, type: 'function', function: { name, arguments: given } }));
  }
  return wire;
}
