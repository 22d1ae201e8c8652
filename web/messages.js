// The conversation on the page: one view a message.

import { AnswerView } from './answer_view.js';
import { button, el, fitHeight } from './dom.js';

// `actions`: retry(), edit(message, text), answerCalls(texts).
export class MessagesView {
  constructor(container, actions) {
    this.container = container;
    this.scroller = container.parentElement;
    this.actions = actions;
    this.views = new Map();
    this.pending = new Set();
    this.follows = true;
    this.scroller.addEventListener('scroll', () => { this.follows = this.isAtEnd(); this.onscroll?.(); });
  }

  show(messages) {
    this.container.replaceChildren();
    this.views.clear();
    messages.forEach((message) => this.add(message));
    this.follows = true;
    this.scrollToEnd();
  }

  add(message) {
    const view = this.viewOf(message);
    this.views.set(message, view);
    this.container.append(view.element);
  }

  viewOf(message) {
    if (message.role === 'assistant') return new AnswerView(message, this.actions);
    if (message.role === 'tool') return new ResultView(message);
    return new QuestionView(message, this.actions);
  }

  setBusy(isBusy) {
    this.container.classList.toggle('busy', isBusy);
    this.container.setAttribute('aria-busy', String(isBusy));
  }

  // Chunks come faster than frames.
  update(message) {
    if (this.pending.size === 0) requestAnimationFrame(() => this.flush());
    this.pending.add(message);
  }

  flush() {
    this.pending.forEach((message) => this.views.get(message)?.update());
    this.pending.clear();
    if (this.follows) this.scrollToEnd();
  }

  isAtEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < 48;
  }

  scrollToEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }
}

class QuestionView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.element = el('article', { class: 'message question' });
    this.showText();
  }

  showText() {
    this.element.replaceChildren(
      el('h2', { class: 'unseen' }, 'You'),
      el('p', { class: 'said', dir: 'auto' }, this.message.content),
      el('div', { class: 'actions' }, button('Edit', () => this.showEditor(), { class: 'quiet small edit' })),
    );
  }

  showEditor() {
    const box = el('textarea', { 'aria-label': 'Edit your message', dir: 'auto' });
    box.value = this.message.content;
    const send = () => box.value.trim() && this.actions.edit(this.message, box.value);
    const cancel = () => {
      this.showText();
      this.element.querySelector('.edit').focus();
    };
    box.addEventListener('input', () => fitHeight(box));
    box.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      } else if (event.key === 'Escape') {
        event.stopPropagation();
        cancel();
      }
    });
    this.element.replaceChildren(
      el('h2', { class: 'unseen' }, 'You'),
      box,
      el('div', { class: 'row end' }, button('Cancel', cancel, { class: 'quiet small' }),
        button('Send again', send, { class: 'primary small' })),
    );
    fitHeight(box);
    box.focus();
  }

  update() {}
}

class ResultView {
  constructor(message) {
    this.element = el('article', { class: 'message result' },
      el('h2', { class: 'who' }, `Result of ${message.name}`),
      el('pre', { class: 'said', dir: 'auto', tabindex: '0', role: 'group', 'aria-label': `Result of ${message.name}` },
        message.content));
  }

  update() {}
}
