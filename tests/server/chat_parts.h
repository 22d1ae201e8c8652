#pragma once

#include <string>

#include "base/json.h"
#include "support/test_server.h"

namespace pome::test {

// An answer of POST /v1/chat/completions, put together from a whole reply or from a stream's
// chunks.
struct ChatParts {
  std::string reasoning = {};
  std::string content = {};
  std::string calls = {};  // "name arguments", one a line
  std::string finish_reason = {};
  json::object usage = {};
  int content_logprobs = 0;
  int reasoning_chunks = 0;  // of a stream
  int argument_chunks = 0;

  // Reasoning, content, calls and finish reason, one a line.
  std::string text() const;
};

// `body` without `stream`. Anything but a 200 fails the test; so does a stream out of form.
ChatParts ask_whole(const TestServer& server, json::object body);
ChatParts ask_stream(const TestServer& server, json::object body);

}  // namespace pome::test
