// The page: puts the parts together and listens to the keyboard.

import { hasKey, keepKey } from './api.js';
import { showChats } from './chat_list.js';
import { Conversation } from './conversation.js';
import { byId, count, el, fitHeight, showWhen } from './dom.js';
import { BEGINNINGS } from './examples.js';
import { askForKey, prepareKeyDialog } from './key_dialog.js';
import { MessagesView } from './messages.js';
import { Panels } from './panels.js';
import { ServerView } from './server.js';
import { Settings } from './settings.js';
import { currentChat, keepCurrent, loadChat, newChat, removeAllChats, removeChat } from './store.js';

const prompt = byId('prompt');
const panels = new Panels();
const settings = new Settings();
prepareKeyDialog();

const view = new MessagesView(byId('messages'), {
  retry: () => { conversation.retry(); prompt.focus(); },
  edit: (message, text) => { conversation.edit(message, text); prompt.focus(); },
  answerCalls: (texts) => { conversation.answerCalls(texts); prompt.focus(); },
});
view.onscroll = () => showWhen(byId('to-end'), !view.isAtEnd());

const server = new ServerView(() => showContextUse());
const conversation = new Conversation({
  settings,
  view,
  modelName: () => server.model?.served_model_name ?? '',
  askForKey: async (signal) => {
    const given = await askForKey(signal);
    server.keyChanged();
    changed();
    return given;
  },
  announce,
  changed,
});

// For screen readers: what happens, and a finished answer once, never its tokens.
function announce(text) {
  byId('said').textContent = text.length > 2000 ? `${text.slice(0, 2000)} …` : text;
}

function changed() {
  const { isBusy, chat } = conversation;
  const hadFocus = document.activeElement === byId('send') || document.activeElement === byId('stop');
  showWhen(byId('send'), !isBusy);
  showWhen(byId('stop'), isBusy);
  if (hadFocus) prompt.focus();
  byId('messages').classList.toggle('empty', chat.messages.length === 0);
  if (chat.messages.length === 0) showBeginnings();
  keepCurrent(chat.id);
  showChats(chat.id, { open: openChat, remove: forgetChat });
  showWhen(byId('forget-key'), hasKey());
  showContextUse();
}

function showBeginnings() {
  const beginning = (offer) => el('button', { type: 'button', class: 'beginning', onclick: () => begin(offer) },
    el('strong', {}, offer.title), el('span', {}, offer.prompt));
  byId('messages').replaceChildren(el('div', { class: 'welcome' },
    el('h2', {}, 'What shall the model do?'),
    el('ul', {}, ...BEGINNINGS.map((offer) => el('li', {}, beginning(offer))))));
}

function begin(beginning) {
  settings.fill(beginning.settings ?? {});
  send(beginning.prompt);
  prompt.focus();
}

function send(text) {
  if (conversation.isBusy || !text.trim()) return;
  if (conversation.chat.messages.length === 0) byId('messages').replaceChildren();
  conversation.send(text);
}

function showContextUse() {
  const figures = conversation.chat.messages.filter((message) => message.figures?.prompt).at(-1)?.figures;
  const size = server.model?.context_length;
  byId('context-use').textContent = figures && size
    ? `${count(figures.prompt + figures.completion)} of ${count(size)} tokens` : '';
}

function openChat(id) {
  conversation.open((id && loadChat(id)) || newChat());
  panels.uncover();
  prompt.focus();
}

function forgetChat(id) {
  if (id === conversation.chat.id) conversation.forget();
  removeChat(id);
  if (id === conversation.chat.id) openChat(null);
  changed();
  byId('new-chat').focus();
}

byId('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  if (conversation.isBusy) return;
  send(prompt.value);
  prompt.value = '';
  fitHeight(prompt);
});
prompt.addEventListener('input', () => fitHeight(prompt));
prompt.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId('composer').requestSubmit();
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && conversation.isBusy && !byId('key-dialog').open) conversation.stop();
});
byId('stop').addEventListener('click', () => conversation.stop());
byId('to-end').addEventListener('click', () => { view.follows = true; view.scrollToEnd(); prompt.focus(); });
byId('new-chat').addEventListener('click', () => openChat(null));
byId('forget-chats').addEventListener('click', () => {
  conversation.forget();
  removeAllChats();
  openChat(null);
});
byId('forget-key').addEventListener('click', () => { keepKey(''); changed(); byId('new-chat').focus(); });
window.addEventListener('pagehide', () => conversation.isBusy && conversation.keep(conversation.chat));

conversation.open(currentChat() ?? newChat());
server.start();
prompt.focus();
