#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "protocol/openai/replies.h"

namespace pome::protocol::ollama {

// {"error": "…"}
json::object error_body(const Error& error, std::string_view request_id);

// A moment as RFC 3339 has it, in UTC.
std::string time_text(std::chrono::system_clock::time_point time);

struct Call {
  std::string id = {};
  std::string name = {};
  json::object arguments = {};
};

// An answer, or what a line of a stream adds to it.
struct Said {
  std::string text = {};
  std::string thinking = {};
  std::vector<Call> calls = {};
  int64_t first_call = 0;  // how many came before these
  std::optional<std::vector<openai::TokenLogprobs>> logprobs = {};

  bool is_nothing() const {
    return text.empty() && thinking.empty() && calls.empty() && (!logprobs || logprobs->empty());
  }
};

// How it ended, and what was measured on the way.
struct Ended {
  std::string reason = {};  // "stop", "length", "load"
  std::chrono::nanoseconds total{0};
  std::chrono::nanoseconds until_first_token{0};
  std::chrono::nanoseconds between_first_and_last{0};
  int64_t prompt_tokens = 0;
  int64_t tokens = 0;
  std::optional<std::vector<Token>> context = {};  // the conversation with its answer
};

enum class Form { chat, generate };

// A line of a stream; with `ended` its last, or a whole answer.
json::object answer_body(Form form, const std::string& model, const Said& said,
                         const Ended* ended = nullptr);

struct ModelCard {
  std::string name = {};
  std::string architecture = {};
  std::string container = {};     // "gguf", "safetensors"
  std::string quantization = {};  // "Q4_1"; empty where there is none
  int64_t weight_bytes = 0;
  int64_t gpu_bytes = 0;
  int32_t context_tokens = 0;
  int32_t vocab_tokens = 0;
  std::chrono::system_clock::time_point modified = {};
  std::string chat_template = {};
  std::vector<std::string> capabilities = {};  // "completion", "tools", "thinking"
};

json::object tags_body(const ModelCard& card);
json::object running_body(const ModelCard& card);
json::object show_body(const ModelCard& card);
json::object version_body();

}  // namespace pome::protocol::ollama
