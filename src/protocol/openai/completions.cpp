#include "protocol/openai/completions.h"

#include <fmt/format.h>

#include "protocol/openai/fields.h"

namespace pome::protocol::openai {
namespace {

constexpr int32_t kMaxTokensDefault = 16;  // OpenAI's

void read_prompts(ObjectReader& reader, CompletionRequest& request) {
  const json::value* value = reader.value("prompt");
  if (value == nullptr) {
    reader.fail("prompt", "expected a string, token ids or a list of these, got nothing");
    return;
  }
  if (value->is_string()) {
    request.prompts.emplace_back(std::string(value->get_string()));
    return;
  }
  const json::array* list = reader.array("prompt");
  if (list == nullptr) {
    return;
  }
  if (!list->empty() && (*list)[0].is_number()) {
    request.prompts.emplace_back(reader.tokens("prompt", kPromptTokensMax));
    return;
  }
  if (list->empty() || list->size() > kPromptsMax) {
    reader.fail("prompt",
                fmt::format("expected 1 to {} prompts, got {}", kPromptsMax, list->size()));
    return;
  }
  for (const json::value& item : *list) {
    if (item.is_string()) {
      request.prompts.emplace_back(std::string(item.get_string()));
    } else if (item.is_array()) {
      request.prompts.emplace_back(reader.tokens_in("prompt", item, kPromptTokensMax));
    } else {
      reader.fail("prompt", fmt::format("expected strings or lists of token ids, got {}",
                                        json_type_name(item)));
      return;
    }
  }
}

}  // namespace

Result<CompletionRequest> parse_completion_request(const json::value& body,
                                                   const sampling::Params& defaults) {
  CompletionRequest request;
  const Result<const json::object*> object =
      request_object(body, completion_fields(), request.hints);
  if (!object) {
    return object.error();
  }
  request.generation.sampling = defaults;

  ObjectReader reader(**object);
  request.model = reader.string("model", kNameBytesMax).value_or("");
  read_prompts(reader, request);
  request.echo = reader.boolean("echo").value_or(false);
  request.add_special_tokens = reader.boolean("add_special_tokens").value_or(true);
  request.stream = reader.boolean("stream").value_or(false);
  request.stream_options = read_stream_options(reader, request.stream);
  read_generation_fields(reader, {}, request.generation);
  request.max_tokens_named = reader.value("max_tokens") != nullptr;
  request.generation.max_tokens = request.max_tokens_named
                                      ? read_token_limit(reader, "max_tokens", ZeroTokens::accepted)
                                      : kMaxTokensDefault;
  if (request.generation.max_tokens == 0 && !request.echo) {
    reader.fail("max_tokens", "expected at least 1 token, got 0: only an echo has none");
  }
  const json::value* logprobs = reader.value("logprobs");
  if (logprobs != nullptr && !is_false(*logprobs)) {
    if (const auto top = reader.integer("logprobs", {.min = 0, .max = kTopLogprobsMax})) {
      request.generation.top_logprobs = static_cast<int32_t>(*top);
      request.generation.score_from = request.echo ? 0 : -1;
    }
  }
  request.rid = reader.string("rid", kNameBytesMax).value_or("");
  POME_TRY(reader.status());
  return request;
}

}  // namespace pome::protocol::openai
