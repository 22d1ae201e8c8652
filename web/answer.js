// One answer as it arrives: chunks in, a message and its figures out.

export const newAnswer = () => ({ role: 'assistant', content: '', reasoning: '', calls: [], finish: '', figures: {} });

export class Arriving {
  constructor(answer, now = () => performance.now()) {
    this.answer = answer;
    this.now = now;
    this.began = now();
    this.first = 0;
    this.last = 0;
    this.thoughtUntil = 0;
  }

  take(chunk) {
    const choice = chunk.choices?.[0];
    const delta = choice?.delta ?? {};
    if (delta.content || delta.reasoning_content || delta.tool_calls) this.stamp(delta);
    this.answer.content += delta.content ?? '';
    this.answer.reasoning += delta.reasoning_content ?? '';
    for (const piece of delta.tool_calls ?? []) this.takeCall(piece);
    if (choice?.finish_reason) this.answer.finish = choice.finish_reason;
    if (chunk.usage) this.count(chunk.usage);
  }

  takeCall(piece) {
    const calls = this.answer.calls;
    const index = Number.isInteger(piece.index) && piece.index <= calls.length ? piece.index : calls.length;
    calls[index] ??= { id: '', name: '', arguments: '' };
    calls[index].id ||= piece.id ?? '';
    calls[index].name += piece.function?.name ?? '';
    calls[index].arguments += piece.function?.arguments ?? '';
  }

  stamp(delta) {
    this.last = this.now();
    this.first ||= this.last;
    if (delta.reasoning_content) this.thoughtUntil = this.last;
    const figures = this.answer.figures;
    figures.firstSeconds = (this.first - this.began) / 1000;
    if (this.thoughtUntil) figures.thoughtSeconds = (this.thoughtUntil - this.first) / 1000;
  }

  count(usage) {
    const figures = this.answer.figures;
    figures.prompt = usage.prompt_tokens;
    figures.cached = usage.prompt_tokens_details?.cached_tokens;
    figures.completion = usage.completion_tokens;
    const seconds = (this.last - this.first) / 1000;
    // The first token came with the prompt's work, so it is not counted.
    if (seconds > 0.02 && figures.completion > 1) figures.perSecond = (figures.completion - 1) / seconds;
  }
}
