#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pome {

void check_failed(const char* file, int line, const char* condition, std::string_view why) {
  std::fprintf(stderr, "pome: bug at %s:%d: %.*s (%s)\n", file, line, static_cast<int>(why.size()),
               why.data(), condition);
  std::abort();
}

}  // namespace pome
