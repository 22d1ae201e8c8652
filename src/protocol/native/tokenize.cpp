#include "protocol/native/tokenize.h"

#include <fmt/format.h>

#include "protocol/field_table.h"
#include "protocol/generation_fields.h"
#include "protocol/native/fields.h"
#include "protocol/native/generate.h"
#include "protocol/object_reader.h"

namespace pome::protocol::native {
namespace {

// These endpoints have no hints.
Result<const json::object*> object_of(const json::value& body, const FieldTable& table) {
  std::vector<std::string> hints;
  return request_object(body, table, hints);
}

}  // namespace

Result<TokenizeRequest> parse_tokenize_request(const json::value& body) {
  Result<const json::object*> object = object_of(body, tokenize_fields());
  if (!object) {
    return object.error();
  }
  TokenizeRequest request;
  ObjectReader reader(**object);
  request.model = reader.string("model", kNameBytesMax).value_or("");
  request.add_special_tokens = reader.boolean("add_special_tokens").value_or(true);
  const char* name = reader.value("prompt") == nullptr ? "text" : "prompt";
  if (reader.value("prompt") != nullptr && reader.value("text") != nullptr) {
    reader.fail("text", "cannot stand together with prompt: they are the same");
  }
  const json::value* prompt = reader.value(name);
  if (prompt != nullptr && prompt->is_string()) {
    request.prompts.emplace_back(prompt->get_string());
    POME_TRY(reader.status());
    return request;
  }
  const json::array* list = reader.array(name);
  if (list == nullptr || list->empty() || list->size() > kPromptsMax) {
    reader.fail("prompt", fmt::format("expected a string or 1 to {} strings", kPromptsMax));
    return reader.status().error();
  }
  request.list = true;
  for (const json::value& item : *list) {
    if (!item.is_string()) {
      reader.fail("prompt", fmt::format("expected strings, got {}", json_type_name(item)));
      break;
    }
    request.prompts.emplace_back(item.get_string());
  }
  POME_TRY(reader.status());
  return request;
}

Result<DetokenizeRequest> parse_detokenize_request(const json::value& body) {
  Result<const json::object*> object = object_of(body, detokenize_fields());
  if (!object) {
    return object.error();
  }
  DetokenizeRequest request;
  ObjectReader reader(**object);
  request.model = reader.string("model", kNameBytesMax).value_or("");
  request.skip_special_tokens = reader.boolean("skip_special_tokens").value_or(true);
  const json::array* list = reader.array("tokens");
  if (list == nullptr) {
    reader.fail("tokens", "expected a list of token ids, got nothing");
    return reader.status().error();
  }
  request.list = !list->empty() && (*list)[0].is_array();
  if (!request.list) {
    request.tokens.push_back(reader.tokens("tokens", kPromptTokensMax));
    POME_TRY(reader.status());
    return request;
  }
  if (list->size() > kPromptsMax) {
    reader.fail("tokens",
                fmt::format("expected at most {} lists, got {}", kPromptsMax, list->size()));
    return reader.status().error();
  }
  for (const json::value& item : *list) {
    request.tokens.push_back(reader.tokens_in("tokens", item, kPromptTokensMax));
  }
  POME_TRY(reader.status());
  return request;
}

Result<AbortRequest> parse_abort_request(const json::value& body) {
  Result<const json::object*> object = object_of(body, abort_fields());
  if (!object) {
    return object.error();
  }
  AbortRequest request;
  ObjectReader reader(**object);
  request.rid = reader.string("rid", kNameBytesMax).value_or("");
  request.abort_all = reader.boolean("abort_all").value_or(false);
  if (request.rid.empty() && !request.abort_all) {
    reader.fail("rid", "expected the id of a request, or \"abort_all\": true");
  }
  POME_TRY(reader.status());
  return request;
}

}  // namespace pome::protocol::native
