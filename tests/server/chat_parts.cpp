#include "chat_parts.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "support/http_client.h"

namespace pome::test {
namespace {

void add_logprobs(const json::object& choice, ChatParts& parts) {
  if (const json::value& logprobs = choice.at("logprobs"); logprobs.is_object()) {
    parts.content_logprobs += static_cast<int>(logprobs.at("content").as_array().size());
  }
}

struct Call {
  std::string name;
  std::string arguments;
};

std::string call_lines(const std::vector<Call>& calls) {
  std::string out;
  for (const Call& call : calls) {
    out += call.name + " " + call.arguments + "\n";
  }
  return out;
}

class Stream {
 public:
  void add(const json::object& chunk) {
    if (const json::value* usage = find(chunk, "usage")) {
      parts_.usage = usage->as_object();
    }
    for (const json::value& choice : chunk.at("choices").as_array()) {
      EXPECT_EQ(parts_.finish_reason, "") << "a chunk after the end";
      const json::object& entry = choice.as_object();
      const json::object& delta = entry.at("delta").as_object();
      EXPECT_EQ(delta.contains("role"), first_) << "the role comes first and once";
      first_ = false;
      parts_.content += find_string(delta, "content").value_or("");
      const std::string thought = find_string(delta, "reasoning_content").value_or("");
      parts_.reasoning_chunks += thought.empty() ? 0 : 1;
      parts_.reasoning += thought;
      if (const json::array* calls = find_array(delta, "tool_calls")) {
        for (const json::value& piece : *calls) {
          add_call(piece.as_object());
        }
      }
      add_logprobs(entry, parts_);
      parts_.finish_reason = find_string(entry, "finish_reason").value_or("");
    }
  }

  ChatParts parts() {
    parts_.calls = call_lines(calls_);
    return parts_;
  }

 private:
  void add_call(const json::object& piece) {
    const auto index = static_cast<size_t>(piece.at("index").as_int64());
    const json::object& function = piece.at("function").as_object();
    if (piece.contains("id")) {
      EXPECT_EQ(index, calls_.size()) << "calls come one after another";
      EXPECT_EQ(find_string(piece, "type"), "function");
      const std::string id = find_string(piece, "id").value_or("");
      EXPECT_TRUE(!id.empty() && ids_.insert(id).second) << id;
      calls_.push_back({find_string(function, "name").value_or(""), ""});
    } else {
      EXPECT_FALSE(function.contains("name"));
    }
    ASSERT_EQ(index + 1, calls_.size());
    calls_.back().arguments += find_string(function, "arguments").value();
    ++parts_.argument_chunks;
  }

  ChatParts parts_;
  std::vector<Call> calls_;
  std::set<std::string> ids_;
  bool first_ = true;
};

}  // namespace

std::string ChatParts::text() const {
  return "reasoning " + reasoning + "\ncontent " + content + "\n" + calls + finish_reason;
}

ChatParts ask_whole(const TestServer& server, json::object body) {
  const HttpReply reply =
      request(server.port(), "POST", "/v1/chat/completions", to_string(json::value(body)));
  EXPECT_EQ(reply.status, 200) << reply.body.substr(0, 500);
  ChatParts parts;
  if (reply.status != 200) {
    return parts;
  }
  const json::value parsed = parse_json(reply.body).value();
  const json::object& choice = parsed.at("choices").at(0).as_object();
  const json::object& message = choice.at("message").as_object();
  parts.content = find_string(message, "content").value_or("");
  parts.reasoning = find_string(message, "reasoning_content").value_or("");
  parts.finish_reason = find_string(choice, "finish_reason").value_or("");
  std::vector<Call> calls;
  if (const json::array* list = find_array(message, "tool_calls")) {
    for (const json::value& call : *list) {
      EXPECT_FALSE(find_string(call.as_object(), "id").value_or("").empty());
      const json::object& function = call.at("function").as_object();
      calls.push_back({find_string(function, "name").value_or(""),
                       find_string(function, "arguments").value_or("none")});
    }
  }
  parts.calls = call_lines(calls);
  parts.usage = parsed.at("usage").as_object();
  add_logprobs(choice, parts);
  return parts;
}

ChatParts ask_stream(const TestServer& server, json::object body) {
  body["stream"] = true;
  body["stream_options"] = json::object{{"include_usage", true}};
  const HttpReply reply =
      request(server.port(), "POST", "/v1/chat/completions", to_string(json::value(body)));
  EXPECT_EQ(reply.status, 200) << reply.body.substr(0, 500);
  Stream stream;
  for (size_t at = reply.body.find("data: {"); at != std::string::npos;) {
    const size_t end = reply.body.find("\n\n", at);
    const auto chunk = parse_json(std::string_view(reply.body).substr(at + 6, end - at - 6));
    EXPECT_TRUE(chunk.ok());
    stream.add(chunk->as_object());
    at = reply.body.find("data: {", end);
  }
  EXPECT_NE(reply.body.find("data: [DONE]"), std::string::npos);
  return stream.parts();
}

}  // namespace pome::test
