#include "text/reading/reader.h"

#include "base/check.h"
#include "text/reading/task.h"

namespace pome::text {
namespace {

// `expected` is a copy in the frame: the caller's may be gone when more text comes.
Task<bool> accept_bytes(Reader& in, std::string expected) {
  const size_t start = in.position();
  for (const char byte : expected) {
    const int next = co_await in.peek();
    if (next != static_cast<unsigned char>(byte)) {
      in.rewind(start);
      co_return false;
    }
    in.take();
  }
  co_return true;
}

Task<void> skip_space_bytes(Reader& in) {
  while (true) {
    const int next = co_await in.peek();
    if (!is_space(next)) {
      co_return;
    }
    in.take();
  }
}

Task<std::optional<std::string>> read_line_until(Reader& in, std::string end, size_t bytes_max) {
  const size_t start = in.position();
  while (true) {
    const int next = co_await in.peek();
    if (next == Reader::kEnd || next == '\n' || in.position() - start > bytes_max) {
      in.rewind(start);
      co_return std::nullopt;
    }
    if (next == static_cast<unsigned char>(end[0])) {
      const std::string before(in.since(start));
      const bool found = co_await in.accept(end);
      if (found) {
        co_return before;
      }
    }
    in.take();
  }
}

}  // namespace

void Reader::push(std::string_view piece) {
  CHECK(!ended_, "text after its end");
  if (piece.empty()) {
    return;  // a task that was resumed now would take it for the end
  }
  text_.append(piece);
  run();
}

void Reader::end() {
  ended_ = true;
  run();
}

void Reader::take(size_t count) {
  CHECK(count <= text_.size() - at_, "took text that has not arrived");
  at_ += count;
}

Task<bool> Reader::accept(std::string_view expected) {
  return accept_bytes(*this, std::string(expected));
}

Task<void> Reader::skip_space() {
  return skip_space_bytes(*this);
}

Task<std::optional<std::string>> Reader::line_until(std::string_view end, size_t bytes_max) {
  return read_line_until(*this, std::string(end), bytes_max);
}

void Reader::rewind(size_t position) {
  CHECK(position >= forgotten_ && position <= forgotten_ + at_, "went back to forgotten text");
  at_ = position - forgotten_;
}

std::string_view Reader::since(size_t position) const {
  CHECK(position >= forgotten_ && position <= forgotten_ + at_, "asked for forgotten text");
  return std::string_view(text_).substr(position - forgotten_, forgotten_ + at_ - position);
}

void Reader::forget() {
  // Not for every few bytes: moving the rest down costs its length.
  constexpr size_t kWorthIt = 4096;
  if ((at_ >= kWorthIt && at_ >= text_.size() / 2) || at_ == text_.size()) {
    text_.erase(0, at_);
    forgotten_ += at_;
    at_ = 0;
  }
}

void Reader::adopt() {
  while (!newly_waiting_.empty()) {
    waiting_.push_back(newly_waiting_.back());
    newly_waiting_.pop_back();
  }
}

void Reader::run() {
  adopt();
  while (!waiting_.empty()) {
    const std::coroutine_handle<> task = waiting_.back();
    waiting_.pop_back();
    task.resume();
    if (!newly_waiting_.empty()) {
      adopt();
      return;
    }
  }
}

}  // namespace pome::text
