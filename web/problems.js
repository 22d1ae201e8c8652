// What went wrong, as a sentence for people.

export class Problem extends Error {
  // `field`: the request field at fault; `seconds`: when to try again; `kind`: 'key' asks for the API key, 'absent' is a 404.
  constructor(sentence, { field = '', seconds = 0, kind = '' } = {}) {
    super(sentence);
    this.field = field;
    this.seconds = seconds;
    this.kind = kind;
  }
}

export const unreachable = () => new Problem(
  'The server cannot be reached. Is pome still running there?', { kind: 'network' });

export const brokenOff = () => new Problem(
  'The connection to the server broke off in mid-answer. What had arrived is kept.', { kind: 'network' });

export async function problemOf(response) {
  const seconds = Number(response.headers.get('Retry-After')) || 0;
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // A proxy's page, or nothing: the status has to do.
  }
  return problemFrom(response.status, error, seconds);
}

// An error body of the API; one inside a stream has no status of its own.
export function problemFrom(status, error, seconds = 0) {
  const said = sentence(error.message ?? '');
  const field = typeof error.param === 'string' ? error.param : '';
  const later = seconds > 0 ? ` Try again in ${seconds} second${seconds === 1 ? '' : 's'}.` : ' Try again in a moment.';
  switch (status) {
    case 400: return new Problem(refusal(said, field), { field });
    case 401: return new Problem('This server wants an API key.', { kind: 'key' });
    case 403: return new Problem(`The server does not let this page in. ${said}`);
    case 404: return new Problem(said || 'The server does not know this address.', { field, kind: 'absent' });
    case 413: return new Problem(`The request is too long. ${said}`);
    case 429: return new Problem(`The server is busy with as many requests as it takes.${later}`, { seconds });
    case 499: return new Problem('The request was cancelled.');
    case 503: return new Problem(
      /loading/.test(said) ? `The model is still being loaded.${later}` : `The server is not available. ${said}${later}`,
      { seconds: seconds || 1 });
    case undefined: return new Problem(`The answer ended with an error. ${said}`);
    default: return new Problem(`The server answered with an error (${status}). ${said}`);
  }
}

function refusal(said, field) {
  if (!field) return `The server refused the request. ${said}`;
  // The message often begins with the field's name in quotes.
  const rest = said.replace(new RegExp(`^['‘]?${field.replace(/[^\w]/g, '\\$&')}['’]?[:.]?\\s*`, 'i'), '');
  return `The server refused the field “${field}”: ${rest || said}`;
}

function sentence(message) {
  const text = String(message).slice(0, 600).trim();
  if (!text) return '';
  const first = text[0].toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
