#include "protocol/ollama/replies.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/utf8.h"

namespace pome::protocol::ollama {
namespace {

// The version of Ollama's API that these endpoints follow; clients ask for it to know what they may
// use.
constexpr const char* kVersion = "0.12.11";

json::object token_body(const openai::TokenText& token) {
  json::array bytes;
  for (const char c : token.bytes) {
    bytes.push_back(static_cast<unsigned char>(c));
  }
  return {
      {"token", valid_utf8(token.bytes)}, {"logprob", token.logprob}, {"bytes", std::move(bytes)}};
}

json::array logprobs_body(const std::vector<openai::TokenLogprobs>& tokens) {
  json::array out;
  for (const openai::TokenLogprobs& token : tokens) {
    json::object entry = token_body(token.chosen);
    if (!token.top.empty()) {
      json::array top;
      for (const openai::TokenText& other : token.top) {
        top.push_back(token_body(other));
      }
      entry["top_logprobs"] = std::move(top);
    }
    out.push_back(std::move(entry));
  }
  return out;
}

json::object message_body(const Said& said) {
  json::object message{{"role", "assistant"}, {"content", said.text}};
  if (!said.thinking.empty()) {
    message["thinking"] = said.thinking;
  }
  if (!said.calls.empty()) {
    json::array calls;
    for (const Call& call : said.calls) {
      const int64_t index = said.first_call + static_cast<int64_t>(calls.size());
      calls.push_back(json::object{
          {"id", call.id},
          {"function",
           json::object{{"index", index}, {"name", call.name}, {"arguments", call.arguments}}}});
    }
    message["tool_calls"] = std::move(calls);
  }
  return message;
}

void add_end(json::object& body, const Ended& ended) {
  body["done_reason"] = ended.reason;
  if (ended.context) {
    body["context"] = json::array(ended.context->begin(), ended.context->end());
  }
  if (ended.prompt_tokens == 0) {
    return;  // nothing was generated
  }
  body["total_duration"] = ended.total.count();
  body["load_duration"] = 0;  // the model was loaded before anybody could ask
  body["prompt_eval_count"] = ended.prompt_tokens;
  body["prompt_eval_duration"] = ended.until_first_token.count();
  body["eval_count"] = ended.tokens;
  body["eval_duration"] = ended.between_first_and_last.count();
}

json::object details_body(const ModelCard& card) {
  return {{"parent_model", ""},          {"format", card.container},
          {"family", card.architecture}, {"families", json::array{card.architecture}},
          {"parameter_size", ""},        {"quantization_level", card.quantization}};
}

json::object list_entry(const ModelCard& card) {
  return {{"name", card.name},
          {"model", card.name},
          {"size", card.weight_bytes},
          {"digest", ""},
          {"details", details_body(card)}};
}

json::object list_of(json::object entry) {
  return {{"models", json::array{std::move(entry)}}};
}

}  // namespace

json::object error_body(const Error& error, std::string_view) {
  return {{"error", error.message}};
}

std::string time_text(std::chrono::system_clock::time_point time) {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z",
                     fmt::gmtime(static_cast<std::time_t>(seconds.count())), rest.count());
}

json::object answer_body(Form form, const std::string& model, const Said& said,
                         const Ended* ended) {
  json::object body{{"model", model}, {"created_at", time_text(std::chrono::system_clock::now())}};
  if (form == Form::chat) {
    body["message"] = message_body(said);
  } else {
    body["response"] = said.text;
    if (!said.thinking.empty()) {
      body["thinking"] = said.thinking;
    }
  }
  body["done"] = ended != nullptr;
  if (said.logprobs && !said.logprobs->empty()) {
    body["logprobs"] = logprobs_body(*said.logprobs);
  }
  if (ended != nullptr) {
    add_end(body, *ended);
  }
  return body;
}

json::object tags_body(const ModelCard& card) {
  json::object entry = list_entry(card);
  entry["modified_at"] = time_text(card.modified);
  return list_of(std::move(entry));
}

json::object running_body(const ModelCard& card) {
  json::object entry = list_entry(card);
  entry["expires_at"] = "9999-12-31T23:59:59Z";  // it stays
  entry["size_vram"] = card.gpu_bytes;
  entry["context_length"] = card.context_tokens;
  return list_of(std::move(entry));
}

json::object show_body(const ModelCard& card) {
  json::object info{{"general.architecture", card.architecture}};
  info[card.architecture + ".context_length"] = card.context_tokens;
  info[card.architecture + ".vocab_size"] = card.vocab_tokens;
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", card.chat_template},
          {"details", details_body(card)},
          {"model_info", std::move(info)},
          {"capabilities", json::array(card.capabilities.begin(), card.capabilities.end())},
          {"modified_at", time_text(card.modified)}};
}

json::object version_body() {
  return {{"version", kVersion}};
}

}  // namespace pome::protocol::ollama
