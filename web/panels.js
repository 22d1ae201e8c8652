// The two panels: beside the conversation where there is room, over it on narrow screens.

import { byId } from './dom.js';

const WIDE = window.matchMedia('(min-width: 68rem)');

class Panel {
  constructor(name, onshow) {
    this.panel = byId(name);
    this.toggle = byId(`${name}-toggle`);
    this.onshow = onshow;
    this.toggle.addEventListener('click', () => this.show(this.panel.hidden, true));
    this.panel.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && !WIDE.matches) {
        event.stopPropagation();
        this.show(false, true);
      }
    });
  }

  // `byHand`: the keyboard's focus follows.
  show(isShown, byHand = false) {
    this.panel.hidden = !isShown;
    this.toggle.setAttribute('aria-expanded', String(isShown));
    const covers = isShown && !WIDE.matches;
    this.onshow(this, covers);
    if (covers && byHand) this.panel.querySelector('button, summary').focus();
    if (!isShown && byHand) this.toggle.focus();
  }
}

export class Panels {
  constructor() {
    const onshow = (shown, covers) => {
      if (covers) this.all.filter((panel) => panel !== shown).forEach((panel) => panel.show(false));
      byId('main').inert = !WIDE.matches && this.all.some((panel) => !panel.panel.hidden);
    };
    this.all = ['chats', 'settings'].map((name) => new Panel(name, onshow));
    WIDE.addEventListener('change', () => this.fit());
    this.fit();
  }

  fit() {
    this.all.forEach((panel) => panel.show(WIDE.matches));
  }

  // After a choice on a narrow screen the conversation is what counts.
  uncover() {
    if (!WIDE.matches) this.all.forEach((panel) => panel.show(false));
  }
}
