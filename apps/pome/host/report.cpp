#include "pome/host/report.h"

#include <fmt/format.h>

#include <cstdio>

#include "pome/command.h"

namespace pome::apps {

int failed(const Error& error) {
  fmt::print(stderr, "pome: {}\n", error.message);
  return error.code == ErrorCode::cancelled ? kInterrupted : kFailed;
}

int misused(const Error& error) {
  fmt::print(stderr, "pome: {}\n", error.message);
  return kMisused;
}

int show_usage(std::string_view text, bool asked) {
  fmt::print(asked ? stdout : stderr, "{}", text);
  return asked ? 0 : kMisused;
}

}  // namespace pome::apps
