// The list of kept chats.

import { button, byId, el, showWhen } from './dom.js';
import { listChats } from './store.js';

export function showChats(currentId, { open, remove }) {
  const chats = listChats();
  byId('chat-list').replaceChildren(...chats.map((chat) => {
    const title = chat.title || 'Untitled';
    return el('li', { class: chat.id === currentId ? 'current' : null },
      button(title, () => open(chat.id), { class: 'quiet title', 'aria-current': chat.id === currentId ? 'true' : null }),
      button('×', () => remove(chat.id), { class: 'quiet square remove', 'aria-label': `Delete the chat “${title}”` }));
  }));
  showWhen(byId('forget-chats'), chats.length > 0);
}
