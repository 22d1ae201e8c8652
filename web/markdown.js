// The Markdown that models write, as DOM nodes: text is only ever put into text nodes, and what is not known stays
// text. Images are links, so that an answer makes the page ask nobody for anything.

import { el, button, copy, canCopy } from './dom.js';
import { inlines } from './markdown_inline.js';

const DEPTH_MAX = 6;
const LIST_ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])( +|$)/;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

// Shows a text that grows: blocks that have not changed keep their nodes, and with them the reader's selection.
export class MarkdownView {
  constructor(container) {
    this.container = container;
    this.sources = [];
  }

  show(text) {
    const blocks = blocksOf(text.replaceAll('\r\n', '\n').split('\n'));
    let same = 0;
    while (same < blocks.length && this.sources[same] === blocks[same].source) same += 1;
    while (this.container.childNodes.length > same) this.container.lastChild.remove();
    for (const block of blocks.slice(same)) this.container.append(render(block, 0));
    this.sources = blocks.map((block) => block.source);
  }
}

// Consecutive blocks of lines: {kind, lines, source} and what the kind needs beside.
function blocksOf(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (lines[at].trim() === '') {
      at += 1;
      continue;
    }
    const block = blockAt(lines, at);
    // The kind belongs to the source: a paragraph becomes a table when its second line comes.
    block.source = `${block.kind}\n${lines.slice(at, block.end).join('\n')}`;
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

function blockAt(lines, at) {
  const line = lines[at];
  if (FENCE.test(line)) return fenceAt(lines, at);
  if (headingLevel(line) > 0) return { kind: `h${headingLevel(line)}`, lines: [headingText(line)], end: at + 1 };
  if (isRule(line)) return { kind: 'hr', lines: [], end: at + 1 };
  if (/^ {0,3}>/.test(line)) return quoteAt(lines, at);
  if (LIST_ITEM.test(line)) return listAt(lines, at);
  if (isTableAt(lines, at)) return tableAt(lines, at);
  let end = at + 1;
  while (end < lines.length && !interruptsParagraph(lines, end)) end += 1;
  return { kind: 'p', lines: lines.slice(at, end), end };
}

function interruptsParagraph(lines, at) {
  const line = lines[at];
  return line.trim() === '' || FENCE.test(line) || headingLevel(line) > 0 || isRule(line) || /^ {0,3}>/.test(line)
    || LIST_ITEM.test(line) || isTableAt(lines, at);
}

function headingLevel(line) {
  const marks = /^ {0,3}(#{1,6})(?: |$)/.exec(line);
  return marks ? marks[1].length : 0;
}

function headingText(line) {
  let text = line.trim().replace(/^#+/, '').trim();
  let end = text.length;
  while (end > 0 && text[end - 1] === '#') end -= 1;
  if (end === 0 || text[end - 1] === ' ') text = text.slice(0, end).trim();
  return text;
}

function isRule(line) {
  const marks = line.length > 200 ? '' : line.replaceAll(' ', '');
  return marks.length >= 3 && ['-', '*', '_'].includes(marks[0]) && marks === marks[0].repeat(marks.length);
}

// An unclosed fence goes on to the end, as it does while an answer arrives.
function fenceAt(lines, at) {
  const fence = FENCE.exec(lines[at])[1];
  const language = lines[at].trim().slice(fence.length).trim().split(' ')[0].slice(0, 40);
  let end = at + 1;
  while (end < lines.length && !closesFence(lines[end], fence)) end += 1;
  return { kind: 'pre', language, lines: lines.slice(at + 1, end), end: Math.min(end + 1, lines.length) };
}

function closesFence(line, fence) {
  const mark = line.trim();
  return mark.length >= fence.length && mark.length < 200 && mark === fence[0].repeat(mark.length);
}

function quoteAt(lines, at) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  return { kind: 'blockquote', lines: lines.slice(at, end).map((line) => line.replace(/^ {0,3}> ?/, '')), end };
}

function listAt(lines, at) {
  const ordered = /\d/.test(LIST_ITEM.exec(lines[at])[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const mark = LIST_ITEM.exec(lines[end]);
    if (!mark || /\d/.test(mark[2]) !== ordered || isRule(lines[end])) break;
    const indent = mark[0].trimEnd().length + 1;
    const item = [lines[end].slice(mark[0].length)];
    end += 1;
    while (end < lines.length && belongsToItem(lines, end, indent, mark[1].length)) {
      item.push(lines[end].slice(Math.min(indent, lines[end].length - lines[end].trimStart().length)));
      end += 1;
    }
    items.push(item);
    if (end < lines.length && lines[end].trim() === '' && LIST_ITEM.test(lines[end + 1] ?? '')) end += 1;
  }
  const start = ordered ? Number.parseInt(LIST_ITEM.exec(lines[at])[2], 10) : 1;
  return { kind: ordered ? 'ol' : 'ul', start, items, end };
}

function belongsToItem(lines, at, indent, markIndent) {
  const line = lines[at];
  const depth = line.length - line.trimStart().length;
  if (line.trim() === '') {
    const next = lines[at + 1] ?? '';
    return next.trim() !== '' && next.length - next.trimStart().length >= Math.min(indent, 2)
      && !(LIST_ITEM.test(next) && LIST_ITEM.exec(next)[1].length <= markIndent);
  }
  if (LIST_ITEM.test(line)) return depth > markIndent + 1;
  return depth >= Math.min(indent, 2) || (!interruptsParagraph(lines, at) && lines[at - 1].trim() !== '');
}

function isTableAt(lines, at) {
  const rule = lines[at + 1] ?? '';
  return lines[at].includes('|') && rule.length < 1000 && rule.includes('|') && rule.includes('-')
    && /^[ |:-]+$/.test(rule);
}

function tableAt(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|') && lines[end].trim() !== '') end += 1;
  return { kind: 'table', lines: [lines[at], ...lines.slice(at + 2, end)], end };
}

function cellsOf(line) {
  const cells = line.trim().replace(/^\|/, '').replace(/\|$/, '').split('|');
  return cells.slice(0, 50).map((cell) => cell.trim());
}

function render(block, depth) {
  switch (block.kind) {
    case 'pre': return renderCode(block);
    case 'hr': return el('hr');
    case 'p': return el('p', {}, ...inlines(block.lines.join('\n')));
    case 'table': return renderTable(block);
    case 'blockquote': return el('blockquote', {}, ...renderInside(block.lines, depth));
    case 'ul':
    case 'ol':
      return el(block.kind, { start: block.start === 1 ? null : block.start },
        ...block.items.map((item) => el('li', {}, ...renderInside(item, depth))));
    default: {
      // The page's own headings are the first three levels.
      const level = Math.min(6, Number(block.kind[1]) + 2);
      return el(`h${level}`, { class: `said-${block.kind}` }, ...inlines(block.lines[0]));
    }
  }
}

function renderInside(lines, depth) {
  if (depth >= DEPTH_MAX) return [lines.join('\n')];
  const blocks = blocksOf(lines);
  const tight = blocks.length > 0 && blocks[0].kind === 'p' && !lines.some((line, i) => line.trim() === ''
    && i > 0 && i < lines.length - 1);
  return blocks.flatMap((block, i) => (tight && i === 0 ? inlines(block.lines.join('\n')) : [render(block, depth + 1)]));
}

function renderCode(block) {
  const text = block.lines.join('\n');
  const head = el('div', { class: 'code-head' }, el('span', {}, block.language));
  if (canCopy()) {
    head.append(button('Copy', (event) => copy(text, event.currentTarget), { class: 'quiet small' }));
  }
  const label = block.language ? `Code, ${block.language}` : 'Code';
  return el('div', { class: 'code-block' }, head,
    el('pre', { tabindex: '0', role: 'group', 'aria-label': label }, el('code', {}, text)));
}

function renderTable(block) {
  const [head, ...rows] = block.lines.map(cellsOf);
  const row = (cells, name) => el('tr', {}, ...cells.map((cell) => el(name, {}, ...inlines(cell))));
  return el('div', { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Table' }, el('table', {},
    el('thead', {}, row(head, 'th')), el('tbody', {}, ...rows.map((cells) => row(cells, 'td')))));
}
