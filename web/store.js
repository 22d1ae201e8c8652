// Chats and settings over a reload, in the browser's local storage: bounded, and never trusted to be what was written.

const CHAT = 'pome.chat.';
const SETTINGS = 'pome.settings';
const CURRENT = 'pome.current';
export const CHATS_MAX = 40;
const CHARACTERS_MAX = 2_000_000; // of all chats; browsers stop at about five million

// A browser that keeps nothing throws at the mention of its storage.
function read(storage, key) {
  try {
    return JSON.parse(window[storage].getItem(key));
  } catch {
    return null;
  }
}

function write(storage, key, value) {
  try {
    window[storage].setItem(key, value);
    return true;
  } catch {
    return false; // full, or not allowed here
  }
}

const isText = (value) => typeof value === 'string';

function isMessage(message) {
  return message !== null && typeof message === 'object' && isText(message.content)
    && ['user', 'assistant', 'tool'].includes(message.role)
    && (message.calls === undefined || (Array.isArray(message.calls)
      && message.calls.every((call) => call && isText(call.id) && isText(call.name) && isText(call.arguments))));
}

function isChat(chat) {
  return chat !== null && typeof chat === 'object' && isText(chat.id) && isText(chat.title)
    && Number.isFinite(chat.updated) && Array.isArray(chat.messages) && chat.messages.every(isMessage);
}

// An answer that a reload cut has no ending of its own.
function restored(message) {
  if (message.role !== 'assistant') return message;
  const { content, reasoning, calls, finish, figures, problem } = message;
  return {
    role: 'assistant',
    content,
    reasoning: isText(reasoning) ? reasoning : '',
    calls: calls ?? [],
    finish: isText(finish) && finish ? finish : 'stopped',
    figures: Object.fromEntries(Object.entries(figures ?? {}).filter(([, value]) => Number.isFinite(value))),
    problem: isText(problem) ? problem : undefined,
  };
}

function chatKeys() {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(CHAT));
  } catch {
    return [];
  }
}

export const newChat = () => ({ id: crypto.getRandomValues(new Uint32Array(2)).join('-'), title: '', updated: 0, messages: [] });

// Newest first.
export function listChats() {
  return chatKeys().map((key) => read('localStorage', key)).filter(isChat).sort((a, b) => b.updated - a.updated);
}

export function loadChat(id) {
  const chat = read('localStorage', CHAT + id);
  return isChat(chat) ? { ...chat, messages: chat.messages.map(restored) } : null;
}

// Makes room by removing the oldest others. False when the chat cannot be kept.
export function saveChat(chat) {
  const text = JSON.stringify(chat);
  if (text.length > CHARACTERS_MAX) return false;
  const others = listChats().filter((other) => other.id !== chat.id);
  let total = text.length;
  others.forEach((other, index) => {
    total += JSON.stringify(other).length;
    if (index >= CHATS_MAX - 1 || total > CHARACTERS_MAX) removeChat(other.id);
  });
  while (!write('localStorage', CHAT + chat.id, text)) {
    const oldest = listChats().filter((other) => other.id !== chat.id).pop();
    if (!oldest) return false;
    removeChat(oldest.id);
  }
  return true;
}

export const removeChat = (id) => localStorage.removeItem(CHAT + id);
export const removeAllChats = () => chatKeys().forEach((key) => localStorage.removeItem(key));

// Which chat this tab shows; a new tab begins a new one.
export const keepCurrent = (id) => write('sessionStorage', CURRENT, JSON.stringify(id));
export function currentChat() {
  const id = read('sessionStorage', CURRENT);
  return (isText(id) && loadChat(id)) || null;
}

export const keepSettings = (settings) => write('localStorage', SETTINGS, JSON.stringify(settings));
export function loadSettings() {
  const settings = read('localStorage', SETTINGS);
  const entries = Object.entries(settings !== null && typeof settings === 'object' ? settings : {});
  return Object.fromEntries(entries.filter(([, value]) => isText(value)));
}
