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

}  // namespace pome::apps
