#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"

namespace pome::protocol::native {

struct TokenizeRequest {
  std::string model;
  std::vector<std::string> prompts;
  bool list = false;  // the reply's shape follows the request's
  bool add_special_tokens = true;
};
Result<TokenizeRequest> parse_tokenize_request(const json::value& body);

struct DetokenizeRequest {
  std::string model;
  std::vector<std::vector<Token>> tokens;
  bool list = false;
  bool skip_special_tokens = true;
};
Result<DetokenizeRequest> parse_detokenize_request(const json::value& body);

struct AbortRequest {
  std::string rid;
  bool abort_all = false;
};
Result<AbortRequest> parse_abort_request(const json::value& body);

}  // namespace pome::protocol::native
