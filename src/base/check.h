#pragma once

#include <string_view>

namespace pome {

// Ends the process after printing where and why. For bugs in our own code only; an input that a
// user can send is refused with an Error (result.h).
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view why);

}  // namespace pome

// On in release builds too: a broken invariant must not serve another token.
#define CHECK(condition, why)                                      \
  do {                                                             \
    if (!(condition)) [[unlikely]] {                               \
      ::pome::check_failed(__FILE__, __LINE__, #condition, (why)); \
    }                                                              \
  } while (false)
