// What stands inside a block: code, emphasis, links. Every search is bounded or remembered, so that hostile text costs
// time in proportion to its length.

import { el } from './dom.js';

const DEPTH_MAX = 8;
const LABEL_MAX = 1000;
const ADDRESS_MAX = 2000;
const SPECIAL = /[\\`*_~[!\n]|https?:\/\//g;
const ADDRESS = /https?:\/\/[^\s<>"'`\\^{}|]{1,2000}/y;
const TAG_OF = { '**': 'strong', __: 'strong', '*': 'em', _: 'em', '~~': 'del' };

export function inlines(text, depth = 0) {
  return new Reader(text, depth).read();
}

class Reader {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.nodes = [];
    this.plain = '';
    this.unclosed = new Set(); // marks that no later place closes
  }

  read() {
    let at = 0;
    while (at < this.text.length) {
      SPECIAL.lastIndex = at;
      const next = SPECIAL.exec(this.text);
      const stop = next ? next.index : this.text.length;
      this.plain += this.text.slice(at, stop);
      at = stop;
      if (next) {
        const after = this.special(at);
        if (after > at) {
          at = after;
        } else {
          this.plain += this.text[at];
          at += 1;
        }
      }
    }
    this.flush();
    return this.nodes;
  }

  flush() {
    if (this.plain) this.nodes.push(this.plain);
    this.plain = '';
  }

  push(node) {
    this.flush();
    this.nodes.push(node);
  }

  // Where what begins here ends; `at` where nothing begins.
  special(at) {
    switch (this.text[at]) {
      case '\n': this.push(el('br')); return at + 1;
      case '\\': return this.escape(at);
      case '`': return this.code(at);
      case '[': return this.link(at);
      case '!': return this.image(at);
      case 'h': return this.address(at);
      default: return this.emphasis(at);
    }
  }

  escape(at) {
    const next = this.text[at + 1];
    if (next === undefined || !'\\`*_{}[]()#+-.!~|<>'.includes(next)) return at;
    this.plain += next;
    return at + 2;
  }

  code(at) {
    let length = 1;
    while (this.text[at + length] === '`') length += 1;
    const mark = '`'.repeat(Math.min(length, 20));
    const begin = at + length;
    if (length > 20 || this.unclosed.has(mark)) return this.literal(at, length);
    let end = this.text.indexOf(mark, begin);
    while (end >= 0 && (this.text[end + length] === '`' || this.text[end - 1] === '`')) {
      while (this.text[end] === '`') end += 1;
      end = this.text.indexOf(mark, end);
    }
    if (end < 0) {
      this.unclosed.add(mark);
      return this.literal(at, length);
    }
    let inner = this.text.slice(begin, end);
    if (inner.length > 2 && inner.startsWith(' ') && inner.endsWith(' ')) inner = inner.slice(1, -1);
    this.push(el('code', {}, inner));
    return end + length;
  }

  literal(at, length) {
    this.plain += this.text.slice(at, at + length);
    return at + length;
  }

  emphasis(at) {
    const one = this.text[at];
    const two = this.text.slice(at, at + 2);
    const mark = TAG_OF[two] ? two : one;
    if (!TAG_OF[mark] || this.depth >= DEPTH_MAX || this.unclosed.has(mark)) return at;
    const begin = at + mark.length;
    if (isSpace(this.text[begin]) || (one === '_' && isWord(this.text[at - 1]))) return at;
    const end = this.closing(mark, begin);
    if (end < 0) {
      this.unclosed.add(mark);
      return this.literal(at, mark.length);
    }
    if (end === begin) return this.literal(at, 2 * mark.length);
    this.push(el(TAG_OF[mark], {}, ...inlines(this.text.slice(begin, end), this.depth + 1)));
    return end + mark.length;
  }

  closing(mark, begin) {
    for (let end = this.text.indexOf(mark, begin); end >= 0; end = this.text.indexOf(mark, end)) {
      const after = end + mark.length;
      const isRun = mark.length === 1 && this.text[after] === mark;
      if (!isRun && !isSpace(this.text[end - 1]) && (mark[0] !== '_' || !isWord(this.text[after]))) {
        // `***` closes the inner mark first.
        return mark.length === 2 && this.text[after] === mark[0] ? end + 1 : end;
      }
      end = after;
      while (isRun && this.text[end] === mark) end += 1;
    }
    return -1;
  }

  // Nothing is fetched for an answer: its images are links.
  image(at) {
    const end = this.text[at + 1] === '[' ? this.link(at + 1) : at + 1;
    return end > at + 1 ? end : at;
  }

  link(at) {
    const close = at + this.text.slice(at, at + LABEL_MAX).indexOf(']');
    if (this.depth >= DEPTH_MAX || close < at || this.text[close + 1] !== '(') return at;
    const begin = close + 2;
    const end = addressEnd(this.text, begin);
    const address = end < 0 ? null : safeAddress(this.text.slice(begin, end).trim().split(/\s/)[0]);
    if (!address) return at;
    // At that depth there are no links, so none stands in another.
    this.push(anchor(address, inlines(this.text.slice(at + 1, close) || address, DEPTH_MAX)));
    return end + 1;
  }

  address(at) {
    if (this.depth >= DEPTH_MAX || isWord(this.text[at - 1])) return at;
    ADDRESS.lastIndex = at;
    const match = ADDRESS.exec(this.text);
    if (!match) return at;
    let found = match[0];
    while (/[.,;:!?*_)\]]$/.test(found) && !(found.endsWith(')') && found.includes('('))) found = found.slice(0, -1);
    const address = safeAddress(found);
    if (!address) return at;
    this.push(anchor(address, [found]));
    return at + found.length;
  }
}

// The bracket that ends an address, with those inside in pairs.
function addressEnd(text, begin) {
  let open = 1;
  for (let at = begin; at < text.length && at < begin + ADDRESS_MAX; at += 1) {
    if (text[at] === '(') open += 1;
    if (text[at] === ')') open -= 1;
    if (open === 0) return at;
    if (text[at] === '\n') return -1;
  }
  return -1;
}

function safeAddress(text) {
  try {
    const address = new URL(text);
    return ['http:', 'https:'].includes(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}

function anchor(address, children) {
  return el('a', { href: address, target: '_blank', rel: 'noopener noreferrer' }, ...children);
}

const isSpace = (character) => character === undefined || /\s/.test(character);
const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
