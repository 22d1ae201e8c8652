// An answer on the page: thought, text, calls of tools, what went wrong, and what it cost.

import { button, canCopy, copy, count, el, fitHeight, plural, showWhen } from './dom.js';
import { MarkdownView } from './markdown.js';

const ENDINGS = {
  length: 'cut at the most tokens',
  stopped: 'stopped',
  abort: 'aborted',
};

export class AnswerView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.thought = el('div', { class: 'markdown', dir: 'auto' });
    this.thoughtTitle = el('summary');
    this.thoughtBox = el('details', { class: 'thought' }, this.thoughtTitle, this.thought);
    this.text = el('div', { class: 'markdown', dir: 'auto' });
    this.calls = el('form', { class: 'calls' });
    this.calls.addEventListener('submit', (event) => this.sendResults(event));
    this.problem = el('p', { class: 'problem' });
    this.figures = el('p', { class: 'note figures-line' });
    this.copy = button('Copy', () => copy(this.message.content, this.copy), { class: 'quiet small' });
    this.buttons = el('div', { class: 'actions' }, this.copy,
      button('Try again', () => actions.retry(), { class: 'quiet small retry' }));
    this.element = el('article', { class: 'message answer' }, el('h2', { class: 'unseen' }, 'The model'), this.thoughtBox,
      this.text, this.calls, this.problem, el('footer', {}, this.figures, this.buttons));
    this.thoughtView = new MarkdownView(this.thought);
    this.textView = new MarkdownView(this.text);
    this.callsShown = '';
    this.update();
  }

  update() {
    const { content, reasoning, finish, problem, figures } = this.message;
    const isOver = Boolean(finish || problem);
    this.element.classList.toggle('arriving', !isOver);
    this.element.classList.toggle('waiting', !isOver && !content && !reasoning && !this.message.calls.length);
    showWhen(this.thoughtBox, reasoning);
    this.thoughtTitle.textContent = thoughtTitle(this.message, isOver);
    this.thoughtView.show(reasoning);
    this.textView.show(content);
    this.showCalls(isOver);
    this.problem.textContent = problem ?? '';
    showWhen(this.problem, problem);
    showWhen(this.copy, content && canCopy());
    this.figures.textContent = figuresLine(finish, figures);
  }

  showCalls(isOver) {
    const { calls } = this.message;
    showWhen(this.calls, calls.length);
    const shown = JSON.stringify([calls, isOver]);
    if (shown === this.callsShown) return;
    this.callsShown = shown;
    this.calls.replaceChildren(...calls.map((call) => this.callCard(call, isOver)));
    if (isOver && calls.length > 0) {
      this.calls.append(el('div', { class: 'row end call-answer' },
        el('button', { type: 'submit', class: 'primary small' }, calls.length > 1 ? 'Send the results' : 'Send the result')));
    }
  }

  callCard(call, isOver) {
    const box = el('textarea', { rows: '1', dir: 'auto', placeholder: 'What the function returns, in any form' });
    box.addEventListener('input', () => fitHeight(box));
    box.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.calls.requestSubmit();
      }
    });
    return el('section', { class: 'call', role: 'group', 'aria-label': `Call of ${call.name}` },
      el('h3', {}, 'Calls ', el('code', {}, call.name)),
      el('pre', { tabindex: '0', role: 'group', 'aria-label': `Arguments of ${call.name}` },
        el('code', {}, isOver ? pretty(call.arguments) : call.arguments)),
      isOver && el('label', { class: 'call-answer' }, 'Result', box));
  }

  sendResults(event) {
    event.preventDefault();
    this.actions.answerCalls([...this.calls.querySelectorAll('textarea')].map((box) => box.value));
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function thoughtTitle({ content, calls, figures }, isOver) {
  if (!isOver && !content && !calls.length) return 'Thinking …';
  const seconds = figures.thoughtSeconds;
  return seconds >= 0.1 ? `Thought for ${seconds.toFixed(1)} seconds` : 'Thought';
}

function figuresLine(finish, { prompt, cached, completion, perSecond, firstSeconds }) {
  if (prompt === undefined) return ENDINGS[finish] ?? '';
  const parts = [
    `${plural(prompt, 'prompt token')}${cached ? ` (${count(cached)} cached)` : ''}`,
    plural(completion, 'token'),
    perSecond !== undefined && `${perSecond >= 100 ? count(perSecond) : perSecond.toFixed(1)} tokens/s`,
    firstSeconds !== undefined && `first after ${firstSeconds.toFixed(2)} s`,
    ENDINGS[finish],
  ];
  return parts.filter(Boolean).join(' · ');
}
