// Asks for the API key when the server wants one.

import { hasKey, keepKey } from './api.js';
import { byId } from './dom.js';

// True when a key was given. `signal` ends the question.
export function askForKey(signal) {
  const dialog = byId('key-dialog');
  const box = byId('key');
  byId('key-problem').textContent = hasKey() ? 'The server does not know the key that was sent.' : '';
  box.value = '';
  return new Promise((resolve) => {
    const close = () => dialog.close('');
    const onclose = () => {
      signal?.removeEventListener('abort', close);
      const given = dialog.returnValue === 'use' ? box.value.trim() : '';
      if (given) keepKey(given);
      box.value = '';
      resolve(Boolean(given));
    };
    signal?.addEventListener('abort', close, { once: true });
    dialog.addEventListener('close', onclose, { once: true });
    dialog.returnValue = '';
    dialog.showModal();
    box.focus();
  });
}

export function prepareKeyDialog() {
  const dialog = byId('key-dialog');
  byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    dialog.close('use');
  });
  byId('key-cancel').addEventListener('click', () => dialog.close(''));
}
