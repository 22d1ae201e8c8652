#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pome::text {

template <typename T>
class Task;

// Text that arrives in pieces, read by coroutines (task.h) as if it were all there: where it is
// used up they wait for the next piece. What they find cannot depend on how the text was cut. One
// thread at a time; outlives the tasks that read from it.
class Reader {
 public:
  static constexpr int kEnd = -1;

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // For the owner: gives the tasks more text and runs them until they want more.
  void push(std::string_view piece);
  // No more will come: peek() is kEnd from here on, and the tasks run to their ends.
  void end();

  // For tasks. `co_await in.peek()`: the next byte, or kEnd.
  auto peek() {
    struct Awaiter {
      Reader& in;
      bool await_ready() const { return in.at_ < in.text_.size() || in.ended_; }
      void await_suspend(std::coroutine_handle<> task) const { in.wait(task); }
      int await_resume() const {
        return in.at_ < in.text_.size() ? static_cast<unsigned char>(in.text_[in.at_]) : kEnd;
      }
    };
    return Awaiter{*this};
  }
  // Moves past `count` bytes that have been seen.
  void take(size_t count = 1);
  // What has arrived and is not yet read.
  std::string_view arrived() const { return std::string_view(text_).substr(at_); }
  // `co_await in.accept("…")`: moves past it if it comes next, and otherwise not at all.
  Task<bool> accept(std::string_view expected);
  Task<void> skip_space();
  // What stands before `end`, which is passed; nothing, and no movement, where it does not come on
  // this line within about `bytes_max`.
  Task<std::optional<std::string>> line_until(std::string_view end, size_t bytes_max);

  // Bytes since the beginning; valid to go back to until forget() has passed them.
  size_t position() const { return forgotten_ + at_; }
  void rewind(size_t position);
  std::string_view since(size_t position) const;
  // Drops what has been read; nobody goes back behind this place.
  void forget();

  // A task that waits for text, or for one that does: called innermost first.
  void wait(std::coroutine_handle<> task) { newly_waiting_.push_back(task); }

 private:
  void run();
  void adopt();

  std::string text_;  // from the first byte not forgotten
  size_t at_ = 0;
  size_t forgotten_ = 0;
  bool ended_ = false;
  std::vector<std::coroutine_handle<>> waiting_;  // outermost first
  std::vector<std::coroutine_handle<>> newly_waiting_;
};

constexpr bool is_space(int byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

}  // namespace pome::text
