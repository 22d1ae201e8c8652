#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace pome::protocol {

// The one map from our error codes to HTTP.
int http_status(ErrorCode code);
std::string_view error_type(ErrorCode code);  // the "type" of the error body

// OpenAI's shape: {"error":{"message","type","param","code"}}; `param` is the field at fault or
// null.
json::object error_body(const Error& error);

// One server-sent event: "data: …\n\n".
std::string sse_event(const json::value& value);
inline constexpr const char* kSseDone = "data: [DONE]\n\n";

}  // namespace pome::protocol
