#include "message_stream.h"

#include <gtest/gtest.h>

#include <regex>

#include "support/http_client.h"

namespace pome::test {
namespace {

class MessageReader {
 public:
  void add(std::string_view name, const json::object& event) {
    ASSERT_EQ(find_string(event, "type"), name);
    ASSERT_FALSE(stopped_) << "nothing comes after message_stop";
    if (name == "message_start") {
      ASSERT_TRUE(message_.empty());
      message_ = event.at("message").as_object();
      EXPECT_TRUE(message_.at("content").as_array().empty());
      EXPECT_TRUE(message_.at("stop_reason").is_null());
      EXPECT_GT(message_.at("usage").at("input_tokens").as_int64() +
                    message_.at("usage").at("cache_read_input_tokens").as_int64(),
                0);
      return;
    }
    ASSERT_FALSE(message_.empty()) << "message_start comes first";
    if (name == "content_block_start") {
      start(event);
    } else if (name == "content_block_delta") {
      add_delta(event);
    } else if (name == "content_block_stop") {
      stop(event);
    } else if (name == "message_delta") {
      end(event);
    } else if (name == "message_stop") {
      EXPECT_TRUE(message_.at("stop_reason").is_string());
      stopped_ = true;
    } else {
      EXPECT_EQ(name, "ping");
    }
  }

  json::object finish() {
    EXPECT_TRUE(stopped_);
    return message_;
  }

 private:
  json::array& content() { return message_["content"].as_array(); }

  void start(const json::object& event) {
    ASSERT_FALSE(open_) << "one block after another";
    ASSERT_EQ(event.at("index").as_int64(), static_cast<int64_t>(content().size()));
    content().push_back(event.at("content_block"));
    open_ = true;
    arguments_.clear();
  }

  void add_delta(const json::object& event) {
    ASSERT_TRUE(open_);
    ASSERT_EQ(event.at("index").as_int64() + 1, static_cast<int64_t>(content().size()));
    json::object& block = content().back().as_object();
    const json::object& delta = event.at("delta").as_object();
    const std::string kind = find_string(delta, "type").value_or("");
    const std::string type = find_string(block, "type").value_or("");
    const auto append = [&](const char* key, const char* expected_type) {
      ASSERT_EQ(type, expected_type);
      ASSERT_FALSE(delta.at(key).as_string().empty()) << "a delta says something";
      block[key] = std::string(block.at(key).as_string()) + std::string(delta.at(key).as_string());
    };
    if (kind == "text_delta") {
      append("text", "text");
    } else if (kind == "thinking_delta") {
      append("thinking", "thinking");
    } else if (kind == "signature_delta") {
      append("signature", "thinking");
    } else {
      ASSERT_EQ(kind, "input_json_delta");
      ASSERT_EQ(type, "tool_use");
      arguments_ += delta.at("partial_json").as_string();
    }
  }

  void stop(const json::object& event) {
    ASSERT_TRUE(open_);
    ASSERT_EQ(event.at("index").as_int64() + 1, static_cast<int64_t>(content().size()));
    json::object& block = content().back().as_object();
    if (find_string(block, "type") == "tool_use" && !arguments_.empty()) {
      const auto input = parse_json(arguments_);
      ASSERT_TRUE(input.ok()) << arguments_;
      block["input"] = *input;
    }
    open_ = false;
  }

  void end(const json::object& event) {
    EXPECT_FALSE(open_);
    for (const auto& [key, value] : event.at("delta").as_object()) {
      message_[key] = value;
    }
    for (const auto& [key, value] : event.at("usage").as_object()) {
      message_["usage"].as_object()[key] = value;
    }
  }

  json::object message_;
  std::string arguments_;
  bool open_ = false;
  bool stopped_ = false;
};

std::string ask(const TestServer& server, json::object body) {
  body["model"] = "m";
  body["max_tokens"] = body.contains("max_tokens") ? body["max_tokens"] : json::value(8000);
  const HttpReply reply =
      request(server.port(), "POST", "/v1/messages", to_string(json::value(body)));
  EXPECT_EQ(reply.status, 200) << reply.body.substr(0, 500);
  static const std::regex ids("[0-9a-f]{32}");
  static const std::regex short_ids("\"id\":\"[0-9a-f]{9}\"");  // Mistral's
  const std::string body_text = std::regex_replace(reply.body, ids, "ID");
  return reply.status == 200 ? std::regex_replace(body_text, short_ids, "\"id\":\"ID\"") : "";
}

// Which tokens of the prompt came out of the cache depends on who asked before.
json::object without_cache(json::object message) {
  if (json::value* usage = message.if_contains("usage")) {
    json::object& counts = usage->as_object();
    counts["input_tokens"] =
        counts.at("input_tokens").as_int64() + counts.at("cache_read_input_tokens").as_int64();
    counts["cache_read_input_tokens"] = 0;
  }
  return message;
}

}  // namespace

json::object message_of_stream(std::string_view events) {
  MessageReader reader;
  while (!events.empty()) {
    const size_t end = events.find("\n\n");
    const std::string_view frame = events.substr(0, end);
    const size_t line = frame.find("\ndata: ");
    EXPECT_TRUE(frame.starts_with("event: ") && line != std::string_view::npos) << frame;
    if (end == std::string_view::npos || line == std::string_view::npos) {
      break;
    }
    const auto data = parse_json(frame.substr(line + 7));
    EXPECT_TRUE(data.ok()) << frame;
    reader.add(frame.substr(7, line - 7), data->as_object());
    events.remove_prefix(end + 2);
  }
  return reader.finish();
}

json::object message_whole(const TestServer& server, json::object body) {
  const std::string reply = ask(server, std::move(body));
  return reply.empty() ? json::object() : without_cache(parse_json(reply)->as_object());
}

json::object message_streamed(const TestServer& server, json::object body) {
  body["stream"] = true;
  return without_cache(message_of_stream(ask(server, std::move(body))));
}

}  // namespace pome::test
