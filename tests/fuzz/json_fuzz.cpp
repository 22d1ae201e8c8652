// rooms: base
// The JSON wrapper refuses or parses any bytes, and what it parsed serialises and parses again.
#include <cstdlib>
#include <string_view>

#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  const auto parsed = pome::parse_json(text);
  if (!parsed)
    return 0;
  if (!pome::parse_json(boost::json::serialize(*parsed)))
    std::abort();
  return 0;
}
