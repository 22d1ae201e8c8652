#include "protocol/openai/replies.h"

#include "base/utf8.h"

namespace pome::protocol::openai {
namespace {

json::object head_body(const ReplyHead& head, std::string_view object) {
  json::object body;
  body["id"] = head.id;
  body["object"] = object;
  body["created"] = head.created_s;
  body["model"] = head.model;
  return body;
}

void add_finish(json::object& body, const Choice& choice) {
  body["finish_reason"] =
      choice.finish_reason.empty() ? json::value(nullptr) : json::value(choice.finish_reason);
  if (const Token* token = std::get_if<Token>(&choice.matched_stop)) {
    body["matched_stop"] = *token;
  } else if (const std::string* text = std::get_if<std::string>(&choice.matched_stop)) {
    body["matched_stop"] = valid_utf8(*text);
  }
}

json::object token_body(const TokenText& token) {
  json::array bytes;
  for (const char c : token.bytes) {
    bytes.push_back(static_cast<unsigned char>(c));
  }
  json::object body;
  body["token"] = valid_utf8(token.bytes);
  body["bytes"] = std::move(bytes);
  body["logprob"] = token.logprob;
  return body;
}

json::value chat_logprobs(const Choice& choice) {
  if (!choice.logprobs) {
    return nullptr;
  }
  json::array content;
  for (const TokenLogprobs& token : *choice.logprobs) {
    json::object entry = token_body(token.chosen);
    json::array top;
    for (const TokenText& other : token.top) {
      top.push_back(token_body(other));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  json::object body;
  body["content"] = std::move(content);
  body["refusal"] = nullptr;
  return body;
}

json::value completion_logprobs(const Choice& choice) {
  if (!choice.logprobs) {
    return nullptr;
  }
  json::array tokens;
  json::array logprobs;
  json::array tops;
  json::array offsets;
  int64_t offset = choice.text_offset;
  for (const TokenLogprobs& token : *choice.logprobs) {
    tokens.push_back(json::value(valid_utf8(token.chosen.bytes)));
    offsets.push_back(offset);
    offset += token.characters;
    if (!token.scored) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(token.chosen.logprob);
    json::object top;  // the chosen token is always among them, as OpenAI documents
    for (const TokenText& other : token.top) {
      top.emplace(valid_utf8(other.bytes), other.logprob);
    }
    top.emplace(valid_utf8(token.chosen.bytes), token.chosen.logprob);
    tops.push_back(std::move(top));
  }
  json::object body;
  body["tokens"] = std::move(tokens);
  body["token_logprobs"] = std::move(logprobs);
  body["top_logprobs"] = std::move(tops);
  body["text_offset"] = std::move(offsets);
  return body;
}

json::object call_body(const ToolCall& call) {
  json::object function;
  if (!call.name.empty()) {
    function["name"] = call.name;
  }
  function["arguments"] = call.arguments;
  json::object body;
  if (!call.id.empty()) {
    body["id"] = call.id;
    body["type"] = "function";
  }
  body["function"] = std::move(function);
  return body;
}

json::object message_body(const Choice& choice) {
  json::object message;
  message["role"] = "assistant";
  message["content"] = choice.text.empty() && !choice.calls.empty() ? json::value(nullptr)
                                                                    : json::value(choice.text);
  if (choice.reasoning) {
    message["reasoning_content"] =
        choice.reasoning->empty() ? json::value(nullptr) : json::value(*choice.reasoning);
  }
  if (!choice.calls.empty()) {
    json::array calls;
    for (const ToolCall& call : choice.calls) {
      calls.push_back(call_body(call));
    }
    message["tool_calls"] = std::move(calls);
  }
  message["refusal"] = nullptr;
  return message;
}

json::object completion_choice(const Choice& choice) {
  json::object body;
  body["index"] = choice.index;
  body["text"] = choice.text;
  body["logprobs"] = completion_logprobs(choice);
  add_finish(body, choice);
  return body;
}

}  // namespace

json::object usage_body(const Usage& usage) {
  json::object body;
  body["prompt_tokens"] = usage.prompt_tokens;
  body["completion_tokens"] = usage.completion_tokens;
  body["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  if (usage.cached_tokens) {
    body["prompt_tokens_details"] = json::object{{"cached_tokens", *usage.cached_tokens}};
  }
  if (usage.reasoning_tokens > 0) {
    body["completion_tokens_details"] = json::object{{"reasoning_tokens", usage.reasoning_tokens}};
  }
  return body;
}

json::object chat_reply(const ReplyHead& head, const std::vector<Choice>& choices,
                        const Usage& usage) {
  json::array list;
  for (const Choice& choice : choices) {
    json::object entry;
    entry["index"] = choice.index;
    entry["message"] = message_body(choice);
    entry["logprobs"] = chat_logprobs(choice);
    add_finish(entry, choice);
    list.push_back(std::move(entry));
  }
  json::object body = head_body(head, "chat.completion");
  body["choices"] = std::move(list);
  body["usage"] = usage_body(usage);
  return body;
}

json::object chat_chunk(const ReplyHead& head, const Choice& choice, bool first) {
  json::object delta;
  if (first) {
    delta["role"] = "assistant";
  }
  if (first || !choice.text.empty()) {
    delta["content"] = choice.text;
  }
  if (choice.reasoning && !choice.reasoning->empty()) {
    delta["reasoning_content"] = *choice.reasoning;
  }
  if (!choice.calls.empty()) {
    json::array calls;
    for (const ToolCall& call : choice.calls) {
      json::object piece{{"index", call.index}};
      for (auto& [key, value] : call_body(call)) {
        piece[key] = std::move(value);
      }
      calls.push_back(std::move(piece));
    }
    delta["tool_calls"] = std::move(calls);
  }
  json::object entry;
  entry["index"] = choice.index;
  entry["delta"] = std::move(delta);
  entry["logprobs"] = chat_logprobs(choice);
  add_finish(entry, choice);
  json::object body = head_body(head, "chat.completion.chunk");
  body["choices"] = json::array{std::move(entry)};
  return body;
}

json::object completion_reply(const ReplyHead& head, const std::vector<Choice>& choices,
                              const Usage& usage) {
  json::array list;
  for (const Choice& choice : choices) {
    list.push_back(completion_choice(choice));
  }
  json::object body = head_body(head, "text_completion");
  body["choices"] = std::move(list);
  body["usage"] = usage_body(usage);
  return body;
}

json::object completion_chunk(const ReplyHead& head, const Choice& choice) {
  json::object body = head_body(head, "text_completion");
  body["choices"] = json::array{completion_choice(choice)};
  return body;
}

json::object usage_chunk(const ReplyHead& head, std::string_view object, const Usage& usage) {
  json::object body = head_body(head, object);
  body["choices"] = json::array();
  body["usage"] = usage_body(usage);
  return body;
}

json::object model_body(const ModelCard& card) {
  json::object body;
  body["id"] = card.id;
  body["object"] = "model";
  body["created"] = card.created_s;
  body["owned_by"] = "pome";
  body["root"] = card.root;
  body["parent"] = nullptr;
  body["max_model_len"] = card.context_tokens;
  return body;
}

json::object models_body(const std::vector<ModelCard>& cards) {
  json::array data;
  for (const ModelCard& card : cards) {
    data.push_back(model_body(card));
  }
  json::object body;
  body["object"] = "list";
  body["data"] = std::move(data);
  return body;
}

}  // namespace pome::protocol::openai
