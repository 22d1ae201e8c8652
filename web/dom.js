// Elements without markup: children that are strings become text nodes, so nothing is ever parsed as HTML.

export const byId = (id) => document.getElementById(id);

export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

export function button(text, onclick, attributes = {}) {
  return el('button', { type: 'button', onclick, ...attributes }, text);
}

// A term and what it is, for <dl>.
export const fact = (name, ...value) => el('div', {}, el('dt', {}, name), el('dd', {}, ...value));

export function showWhen(node, condition) {
  node.hidden = !condition;
}

// A text box that is as high as its text, up to the bound that the style sheet sets.
export function fitHeight(box) {
  box.style.height = 'auto';
  box.style.height = `${box.scrollHeight + box.offsetHeight - box.clientHeight}px`;
}

export async function copy(text, control) {
  const label = control.textContent;
  try {
    await navigator.clipboard.writeText(text);
    control.textContent = 'Copied';
  } catch {
    control.textContent = 'Not allowed';
  }
  setTimeout(() => { control.textContent = label; }, 1500);
}

// Browsers offer the clipboard to pages of this machine and to https alone.
export const canCopy = () => Boolean(navigator.clipboard);

export const count = (number) => Math.round(number).toLocaleString('en');

export function bytes(number) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${number >= 100 || unit === 0 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? '' : 's'}`;
