// A conversation: what is sent, how an answer ends, and what is kept.

import { Arriving, newAnswer } from './answer.js';
import { streamChat } from './api.js';
import { Problem } from './problems.js';
import { requestBody } from './request.js';
import { newChat, saveChat } from './store.js';

const KEEP_MS = 2000; // a reload in mid-answer loses no more

// `surroundings`: settings, view, modelName(), askForKey(), announce(text), changed().
export class Conversation {
  constructor(surroundings) {
    Object.assign(this, surroundings);
    this.chat = newChat();
    this.running = null; // the AbortController of the answer that arrives
  }

  get isBusy() {
    return this.running !== null;
  }

  open(chat) {
    this.stop();
    this.chat = chat;
    this.view.show(chat.messages);
    this.changed();
  }

  send(text) {
    if (this.isBusy || !text.trim()) return;
    const title = text.trim().split('\n')[0];
    this.chat.title ||= title.length > 60 ? `${title.slice(0, 59)}…` : title;
    this.append({ role: 'user', content: text });
    this.answer();
  }

  // The last answer anew.
  retry() {
    if (this.isBusy) return;
    const last = this.chat.messages.at(-1);
    if (last?.role === 'assistant') this.cutFrom(last);
    this.answer();
  }

  edit(message, text) {
    if (this.isBusy) return;
    this.cutFrom(message);
    if (this.chat.messages.length === 0) this.chat.title = '';
    this.send(text);
  }

  answerCalls(texts) {
    const last = this.chat.messages.at(-1);
    if (this.isBusy || !last?.calls?.length) return;
    last.calls.forEach((call, i) => this.append({ role: 'tool', call: call.id, name: call.name, content: texts[i] ?? '' }));
    this.answer();
  }

  stop() {
    this.running?.abort();
  }

  // What still arrives is not kept.
  forget() {
    this.stop();
    this.chat.isForgotten = true;
  }

  append(message) {
    this.chat.messages.push(message);
    this.view.add(message);
  }

  cutFrom(message) {
    this.chat.messages.length = this.chat.messages.indexOf(message);
    this.view.show(this.chat.messages);
  }

  async answer() {
    const { chat } = this;
    const answer = newAnswer();
    const running = new AbortController();
    this.running = running;
    this.append(answer);
    this.view.follows = true;
    this.view.update(answer);
    this.busyChanged('The model answers.');
    try {
      await this.run(chat, answer, running.signal);
      answer.finish ||= 'stop';
      this.announce(answer.calls.length > 0 ? 'The model calls a tool.' : answer.content || 'The answer is empty.');
    } catch (error) {
      this.note(answer, error);
    }
    // Another chat may have been opened, and asked, meanwhile.
    if (this.running === running) this.running = null;
    this.keep(chat);
    this.view.update(answer);
    this.busyChanged();
  }

  busyChanged(words) {
    this.view.setBusy(this.isBusy);
    if (words) this.announce(words);
    this.changed();
  }

  async run(chat, answer, signal) {
    const body = requestBody(this.settings.values(), chat.messages.slice(0, -1), this.modelName());
    this.keep(chat);
    let keptAt = performance.now();
    for (;;) {
      const arriving = new Arriving(answer);
      try {
        await streamChat(body, signal, (chunk) => {
          arriving.take(chunk);
          this.view.update(answer);
          if (performance.now() - keptAt > KEEP_MS) {
            keptAt = performance.now();
            this.keep(chat);
          }
        });
        return;
      } catch (error) {
        if (error.kind !== 'key' || !(await this.askForKey(signal))) throw error;
      }
    }
  }

  note(answer, error) {
    if (error.name === 'AbortError') {
      answer.finish = 'stopped';
      this.announce('Stopped.');
      return;
    }
    if (!(error instanceof Problem)) console.error(error);
    answer.problem = error instanceof Problem ? error.message : `The page made a mistake: ${error.message}.`;
    this.announce(answer.problem);
    if (error.field) this.settings.blame(error.field);
  }

  keep(chat) {
    if (chat.isForgotten) return;
    chat.updated = Date.now();
    if (!saveChat(chat)) this.announce('This chat is too long to be kept over a reload.');
  }
}
