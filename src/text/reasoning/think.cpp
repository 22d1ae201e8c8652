#include <algorithm>
#include <string>

#include "text/reasoning/styles.h"

namespace pome::text {
namespace {

enum class ThoughtEnd { closed, interrupted, by_output };

// Reads a thought up to and with its close, or up to what interrupts it.
Task<ThoughtEnd> read_thought(Reader& in, ReasoningSink& out, const ReasoningStyle& style) {
  std::string firsts(1, style.close[0]);
  if (!style.interrupt.empty()) {
    firsts += style.interrupt[0];
  }
  bool line_begins = true;
  while (true) {
    in.forget();
    const std::string_view arrived = in.arrived();
    const size_t plain = std::min(arrived.find_first_of(firsts), arrived.size());
    if (plain > 0) {
      line_begins = arrived[plain - 1] == '\n';
      out.reasoning(arrived.substr(0, plain));
      in.take(plain);
    }
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return ThoughtEnd::by_output;
    }
    const size_t start = in.position();
    const bool closed = co_await in.accept(style.close);
    if (closed) {
      co_return ThoughtEnd::closed;
    }
    if (!style.interrupt.empty() && (line_begins || !style.interrupt_begins_line)) {
      const bool interrupted = co_await in.accept(style.interrupt);
      if (interrupted) {
        in.rewind(start);
        co_return ThoughtEnd::interrupted;
      }
    }
    // More may have arrived than one byte that begins no mark.
    if (firsts.find(static_cast<char>(next)) != std::string::npos) {
      out.reasoning(in.arrived().substr(0, 1));
      in.take();
      line_begins = false;
    }
  }
}

// Marks and white space that stand between a thought and what follows, or at the very end, where
// models repeat them. Moves past them, and says whether the last mark opens.
Task<bool> pass_marks(Reader& in, const ReasoningStyle& style) {
  bool opens = false;
  while (true) {
    const size_t start = in.position();
    co_await in.skip_space();
    const bool closed = co_await in.accept(style.close);
    bool opened = false;
    if (!closed) {
      opened = co_await in.accept(style.open);
    }
    if (!closed && !opened) {
      in.rewind(start);
      co_return opens;
    }
    opens = opened;
  }
}

// The answer to its end. Marks in it are text, unless nothing comes after them.
Task<void> read_answer(Reader& in, ReasoningSink& out, const ReasoningStyle& style) {
  const std::string firsts = {style.close[0], style.open[0]};
  while (true) {
    in.forget();
    const std::string_view arrived = in.arrived();
    const size_t plain = std::min(arrived.find_first_of(firsts), arrived.size());
    out.content(arrived.substr(0, plain));
    in.take(plain);
    int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return;
    }
    if (firsts.find(static_cast<char>(next)) == std::string::npos) {
      continue;
    }
    const size_t start = in.position();
    co_await pass_marks(in, style);
    if (in.position() != start) {
      const size_t after = in.position();
      co_await in.skip_space();
      next = co_await in.peek();
      if (next == Reader::kEnd) {
        co_return;
      }
      in.rewind(after);
      out.content(in.since(start));
    } else {
      out.content(in.arrived().substr(0, 1));
      in.take();
    }
  }
}

}  // namespace

Task<void> read_think(Reader& in, ReasoningSink& out, const ReasoningStyle& style, bool inside) {
  const size_t start = in.position();
  co_await in.skip_space();
  bool opened = co_await in.accept(style.open);
  if (!opened) {
    in.rewind(start);
    opened = inside;
  }
  while (opened) {
    const ThoughtEnd end = co_await read_thought(in, out, style);
    if (end == ThoughtEnd::by_output) {
      co_return;
    }
    out.after_thought();
    opened = false;
    if (end == ThoughtEnd::closed) {
      opened = co_await pass_marks(in, style);
    }
  }
  co_await read_answer(in, out, style);
}

}  // namespace pome::text
