#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/json.h"
#include "protocol/generation_fields.h"

namespace pome::server {

enum class LogFormat { text, json };

// --log-requests. The levels are SGLang's: ids, counts and times (0), sampling parameters too (1),
// the beginnings of prompt and answer too (2), all of both (3). Headers are never written, so no
// key is.
struct RequestLogOptions {
  bool enabled = false;
  int level = 1;
  LogFormat format = LogFormat::text;
};

inline constexpr size_t kLoggedBytes = 2048;  // of a prompt and of an answer, at level 2

// `event name=value …` with JSON's notation of the values, or one JSON object with "event" and
// "timestamp". One line, whatever the values hold.
std::string request_line(LogFormat format, std::string_view event, const json::object& fields,
                         std::chrono::system_clock::time_point at);

// The parameters that differ from a request which names none.
json::object sampling_body(const protocol::GenerationFields& fields);

// At most `bytes_max` bytes, cut between two characters.
std::string_view beginning_of(std::string_view text, size_t bytes_max);

}  // namespace pome::server
