#include "text/tool_parsers/parts/content_scan.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace pome::text {

Task<int> read_content(Reader& in, CallSink& out, Marks& marks) {
  std::string firsts;
  for (const std::string_view mark : marks.begins) {
    firsts += mark[0];
  }
  for (const std::string_view mark : marks.owed) {
    firsts += mark[0];
  }
  while (true) {
    in.forget();
    const std::string_view arrived = in.arrived();
    const size_t plain = std::min(arrived.find_first_of(firsts), arrived.size());
    out.content(arrived.substr(0, plain));
    in.take(plain);
    const int next = co_await in.peek();
    if (next == Reader::kEnd) {
      co_return kNoMark;
    }
    for (size_t index = 0; index < marks.begins.size(); ++index) {
      const bool found = co_await in.accept(marks.begins[index]);
      if (found) {
        marks.owed.clear();
        co_return static_cast<int>(index);
      }
    }
    bool settled = false;
    for (size_t index = 0; index < marks.owed.size() && !settled; ++index) {
      settled = co_await in.accept(marks.owed[index]);
    }
    if (settled) {
      marks.owed.clear();
    } else {
      out.content(in.arrived().substr(0, 1));
      in.take();
    }
  }
}

Task<void> pass_end(Reader& in, Marks& marks, std::string_view end) {
  const size_t start = in.position();
  co_await in.skip_space();
  const bool passed = co_await in.accept(end);
  if (!passed) {
    in.rewind(start);
    marks.owed = {end};
  }
}

void give_back(Reader& in, CallSink& out, std::string_view open, size_t start) {
  out.content(open);
  in.rewind(start);
}

Task<std::string> read_name(Reader& in) {
  constexpr size_t kNameMax = 256;
  constexpr std::string_view kSigns = "_-.:/";
  const size_t start = in.position();
  while (true) {
    const int next = co_await in.peek();
    const bool stays =
        next != Reader::kEnd && (std::isalnum(next) != 0 || next >= 0x80 ||
                                 kSigns.find(static_cast<char>(next)) != kSigns.npos);
    if (!stays) {
      co_return std::string(in.since(start));
    }
    in.take();
    if (in.position() - start > kNameMax) {
      in.rewind(start);
      co_return std::string();
    }
  }
}

}  // namespace pome::text
