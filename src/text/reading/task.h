#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "text/reading/reader.h"

namespace pome::text {

namespace detail {

template <typename T>
struct TaskValue {
  std::optional<T> value = {};
  void return_value(T result) { value.emplace(std::move(result)); }
  T take() { return std::move(*value); }
};
template <>
struct TaskValue<void> {
  void return_void() {}
  void take() {}
};

}  // namespace detail

// What a coroutine returns whose first argument is the Reader it reads from. It starts at once and
// runs until the text that has arrived is used up; co_await it inside another for its value. When
// more arrives, the reader resumes the innermost one and then its parents as their children end, so
// that no frame is entered or destroyed from inside another. Move only; the frame dies with it.
template <typename T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type : detail::TaskValue<T> {
    template <typename... Arguments>
    explicit promise_type(Reader& in, const Arguments&...) : reader(&in) {}

    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void unhandled_exception() { std::terminate(); }

    Reader* reader;
  };

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Task() {
    if (frame_) {
      frame_.destroy();
    }
  }

  bool done() const { return frame_.done(); }

  bool await_ready() const { return frame_.done(); }
  void await_suspend(std::coroutine_handle<> parent) const {
    frame_.promise().reader->wait(parent);
  }
  T await_resume() const { return frame_.promise().take(); }

 private:
  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}

  std::coroutine_handle<promise_type> frame_;
};

}  // namespace pome::text
