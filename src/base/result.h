#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace pome {

// Why something was refused. The protocol room maps each code to one HTTP status.
enum class ErrorCode {
  invalid_argument,    // 400: the request or file is wrong; the message names the field and the fix
  unauthorized,        // 401
  forbidden,           // 403: a Host or Origin that is not ours
  not_found,           // 404
  method_not_allowed,  // 405
  timeout,             // 408
  too_large,           // 413
  unsupported_media,   // 415
  queue_full,          // 429: try again later
  cancelled,           // 499: the client or an operator gave up
  internal,            // 500: a bug or a library threw
  unavailable,         // 503: starting, draining or stuck
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;  // "[where] expected …, got …", and the fix
  std::string field;    // the request field at fault, empty where there is none
};

inline Error invalid(std::string message, std::string field = {}) {
  return {ErrorCode::invalid_argument, std::move(message), std::move(field)};
}

// A value or an Error. std::expected is C++23 and absent from the compilers we support.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(runtime/explicit)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(runtime/explicit)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(!ok(), "asked a successful Result for its error");
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(runtime/explicit)

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    CHECK(!ok(), "asked a successful Result for its error");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace pome

// Returns the error of `expression` from the enclosing function, or goes on.
#define POME_TRY(expression)                             \
  do {                                                   \
    if (auto pome_status = (expression); !pome_status) { \
      return pome_status.error();                        \
    }                                                    \
  } while (false)
