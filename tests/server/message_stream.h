#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "support/test_server.h"

namespace pome::test {

// The message that a stream of POST /v1/messages adds up to, as Anthropic's clients add it up. A
// stream out of form fails the test.
json::object message_of_stream(std::string_view events);

// `body` without `stream` and `max_tokens`. Anything but a 200 fails the test. Drawn ids are "ID".
json::object message_whole(const TestServer& server, json::object body);
json::object message_streamed(const TestServer& server, json::object body);

}  // namespace pome::test
