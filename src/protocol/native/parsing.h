#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace pome::protocol::native {

// POST /parse_function_call: calls in a finished text.
struct ParseCallsRequest {
  std::string text;
  std::string parser;  // empty: as the served model writes
  json::array tools;   // objects; what is no function is passed over
};
Result<ParseCallsRequest> parse_calls_request(const json::value& body);

// POST /separate_reasoning: what is thought and what is said in a finished text.
struct SeparateReasoningRequest {
  std::string text;
  std::string parser;  // empty: as the served model writes
};
Result<SeparateReasoningRequest> parse_separate_reasoning_request(const json::value& body);

}  // namespace pome::protocol::native
