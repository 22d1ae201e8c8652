#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "text/reasoning/styles.h"

namespace pome::text {
namespace {

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::array<std::string_view, 3> kEnds = {"<|end|>", "<|return|>", "<|call|>"};

enum class Body { thought, text, call };

// What stands between a message's beginning and its body is short.
constexpr size_t kHeaderMax = 512;

Body body_after(std::string_view header) {
  if (header.find("to=functions.") != header.npos) {
    return Body::call;
  }
  return header.find("analysis") != header.npos ? Body::thought : Body::text;
}

void put(ReasoningSink& out, Body body, std::string_view text) {
  if (body == Body::thought) {
    out.reasoning(text);
  } else {
    out.content(text);
  }
}

// A body up to and with the mark that ends it, or up to the one that begins the next message.
Task<void> read_body(Reader& in, ReasoningSink& out, Body body) {
  while (true) {
    in.forget();
    const std::string_view arrived = in.arrived();
    const size_t plain = std::min(arrived.find('<'), arrived.size());
    put(out, body, arrived.substr(0, plain));
    in.take(plain);
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return;
    }
    if (next != '<') {
      continue;
    }
    for (const std::string_view end : kEnds) {
      const bool ended = co_await in.accept(end);
      if (ended) {
        if (body == Body::call) {
          out.content(end);
        }
        co_return;
      }
    }
    const size_t start = in.position();
    bool another = co_await in.accept(kStart);
    if (!another) {
      another = co_await in.accept(kChannel);
    }
    in.rewind(start);
    if (another) {
      co_return;
    }
    put(out, body, in.arrived().substr(0, 1));
    in.take();
  }
}

}  // namespace

Task<void> read_harmony(Reader& in, ReasoningSink& out, const ReasoningStyle& /*style*/,
                        bool inside) {
  if (inside) {
    co_await read_body(in, out, Body::thought);
    out.after_thought();
  }
  while (true) {
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return;
    }
    const bool started = co_await in.accept(kStart);
    bool opened = false;
    if (!started) {
      opened = co_await in.accept(kChannel);
    }
    std::optional<std::string> header;
    if (started || opened) {
      header = co_await in.line_until(kMessage, kHeaderMax);
    }
    if (!header) {
      put(out, Body::text, started ? kStart : opened ? kChannel : "");
      co_await read_body(in, out, Body::text);
      continue;
    }
    const Body body = body_after(*header);
    if (body == Body::call) {
      out.content(started ? kStart : kChannel);
      out.content(*header);
      out.content(kMessage);
    }
    co_await read_body(in, out, body);
    if (body == Body::thought) {
      out.after_thought();
    }
  }
}

}  // namespace pome::text
