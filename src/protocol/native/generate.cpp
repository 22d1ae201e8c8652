#include "protocol/native/generate.h"

#include <fmt/format.h>

#include <set>

#include "protocol/field_table.h"
#include "protocol/native/fields.h"

namespace pome::protocol::native {
namespace {

constexpr int32_t kMaxNewTokensDefault = 128;
constexpr GenerationNames kNames = {
    .seed = "sampling_seed", .min_tokens = "min_new_tokens", .keep_stop = "no_stop_trim"};

void read_texts(ObjectReader& reader, const json::value& text, GenerateRequest& request) {
  if (text.is_string()) {
    request.prompts.emplace_back(std::string(text.get_string()));
    return;
  }
  request.list = true;
  const json::array* list = reader.array("text");
  if (list == nullptr) {
    return;
  }
  if (list->empty() || list->size() > kPromptsMax) {
    reader.fail("text", fmt::format("expected 1 to {} prompts, got {}", kPromptsMax, list->size()));
    return;
  }
  for (const json::value& item : *list) {
    if (!item.is_string()) {
      reader.fail("text", fmt::format("expected strings, got {}", json_type_name(item)));
      return;
    }
    request.prompts.emplace_back(std::string(item.get_string()));
  }
}

void read_input_ids(ObjectReader& reader, GenerateRequest& request) {
  const json::array* list = reader.array("input_ids");
  if (list == nullptr) {
    return;
  }
  request.list = !list->empty() && (*list)[0].is_array();
  if (!request.list) {
    request.prompts.emplace_back(reader.tokens("input_ids", kPromptTokensMax));
    return;
  }
  if (list->size() > kPromptsMax) {
    reader.fail("input_ids",
                fmt::format("expected 1 to {} prompts, got {}", kPromptsMax, list->size()));
    return;
  }
  for (const json::value& item : *list) {
    request.prompts.emplace_back(reader.tokens_in("input_ids", item, kPromptTokensMax));
  }
}

void read_prompts(ObjectReader& reader, GenerateRequest& request) {
  const json::value* text = reader.value("text");
  const json::value* ids = reader.value("input_ids");
  if ((text == nullptr) == (ids == nullptr)) {
    reader.fail("text", "expected exactly one of text and input_ids");
    return;
  }
  if (text != nullptr) {
    read_texts(reader, *text, request);
  } else {
    read_input_ids(reader, request);
  }
}

struct SamplingObject {
  GenerationFields fields;
  bool max_tokens_named = false;
};

Result<SamplingObject> read_sampling_object(const json::object& object,
                                            const GenerationFields& defaults, std::string prefix,
                                            std::vector<std::string>& hints) {
  Result<std::vector<std::string>> found = check_fields(object, sampling_fields(), prefix);
  if (!found) {
    return found.error();
  }
  hints.insert(hints.end(), found->begin(), found->end());
  SamplingObject out{.fields = defaults};
  ObjectReader reader(object, std::move(prefix));
  read_generation_fields(reader, kNames, out.fields);
  out.max_tokens_named = reader.value("max_new_tokens") != nullptr;
  out.fields.max_tokens = out.max_tokens_named
                              ? read_token_limit(reader, "max_new_tokens", ZeroTokens::accepted)
                              : kMaxNewTokensDefault;
  POME_TRY(reader.status());
  return out;
}

Status read_sampling(ObjectReader& reader, const GenerationFields& defaults,
                     GenerateRequest& request) {
  const json::value* value = reader.value("sampling_params");
  const json::object none;
  std::vector<const json::object*> objects;
  if (value == nullptr) {
    objects.push_back(&none);
  } else if (const json::array* list = value->if_array()) {
    if (list->size() != request.prompts.size()) {
      return invalid(fmt::format("'sampling_params': expected one for each of {} prompts, got {}",
                                 request.prompts.size(), list->size()),
                     "sampling_params");
    }
    for (const json::value& item : *list) {
      objects.push_back(item.if_object());
    }
  } else {
    objects.push_back(value->if_object());
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    if (objects[i] == nullptr) {
      return invalid("'sampling_params': expected an object or a list of objects",
                     "sampling_params");
    }
    const std::string prefix = objects.size() == 1 ? std::string("sampling_params.")
                                                   : fmt::format("sampling_params[{}].", i);
    Result<SamplingObject> one = read_sampling_object(*objects[i], defaults, prefix, request.hints);
    if (!one) {
      return one.error();
    }
    request.generations.push_back(std::move(one->fields));
    request.max_tokens_named.push_back(one->max_tokens_named);
  }
  request.generations.resize(request.prompts.size(), request.generations.front());
  request.max_tokens_named.resize(request.prompts.size(), request.max_tokens_named.front());
  return {};
}

void read_rids(ObjectReader& reader, GenerateRequest& request) {
  request.rids = reader.strings("rid", {.items_max = kPromptsMax, .item_bytes_max = kNameBytesMax});
  if (request.rids.size() == 1 && request.prompts.size() > 1) {
    request.group_rid = request.rids.front();
    request.rids.clear();
    for (size_t i = 0; i < request.prompts.size(); ++i) {
      request.rids.push_back(fmt::format("{}_{}", request.group_rid, i));
    }
  }
  if (!request.rids.empty() && request.rids.size() != request.prompts.size()) {
    reader.fail("rid", fmt::format("expected one for each of {} prompts, got {}",
                                   request.prompts.size(), request.rids.size()));
  }
  if (std::set<std::string>(request.rids.begin(), request.rids.end()).size() !=
      request.rids.size()) {
    reader.fail("rid", "expected different ids");
  }
}

// One field of one prompt's part of a request: reads the value that stands for all prompts, or this
// prompt's of a list.
class PromptField {
 public:
  PromptField(ObjectReader& reader, std::string_view name, const json::value* value)
      : reader_(reader), name_(name) {
    if (value != nullptr) {
      object_[name] = *value;
    }
  }

  template <class Read>
  auto read(Read read) {
    ObjectReader inner(object_);
    auto out = read(inner, name_);
    if (const Status status = inner.status(); !status) {
      reader_.fail(status.error());
    }
    return out;
  }

 private:
  ObjectReader& reader_;
  std::string_view name_;
  json::object object_;
};

// The field's value for prompt i. A list that has not one a prompt is an error.
PromptField field_of_prompt(ObjectReader& reader, std::string_view name, size_t i,
                            const GenerateRequest& request, bool is_list_itself = false) {
  const json::value* value = reader.value(name);
  const json::array* list = value == nullptr ? nullptr : value->if_array();
  if (list == nullptr || (is_list_itself && (list->empty() || !(*list)[0].is_array()))) {
    return {reader, name, value};
  }
  if (list->size() != request.prompts.size()) {
    reader.fail(name, fmt::format("expected one for each of {} prompts, got {}",
                                  request.prompts.size(), list->size()));
    return {reader, name, nullptr};
  }
  const json::value& item = (*list)[i];
  return {reader, name, item.is_null() ? nullptr : &item};
}

// What log probabilities prompt i asks for.
void read_logprobs(ObjectReader& reader, size_t i, GenerateRequest& request,
                   GenerationFields& fields) {
  const bool wanted =
      field_of_prompt(reader, "return_logprob", i, request)
          .read([](ObjectReader& r, std::string_view name) { return r.boolean(name); })
          .value_or(false);
  const auto integer = [&](std::string_view name, int64_t min, int64_t max, int64_t absent) {
    return static_cast<int32_t>(field_of_prompt(reader, name, i, request)
                                    .read([&](ObjectReader& r, std::string_view n) {
                                      return r.integer(n, {.min = min, .max = max});
                                    })
                                    .value_or(absent));
  };
  const int32_t top = integer("top_logprobs_num", 0, kTopLogprobsMax, 0);
  const int32_t start = integer("logprob_start_len", -1, INT32_MAX, -1);
  fields.logprob_tokens = field_of_prompt(reader, "token_ids_logprob", i, request, true)
                              .read([](ObjectReader& r, std::string_view name) {
                                return r.tokens(name, kLogprobTokensMax);
                              });
  request.logprob_starts.push_back(start);
  if (wanted) {
    fields.top_logprobs = top;
    return;
  }
  for (const auto& [name, asked] : {std::pair{"top_logprobs_num", top > 0},
                                    {"logprob_start_len", start >= 0},
                                    {"token_ids_logprob", !fields.logprob_tokens.empty()}}) {
    if (asked) {
      reader.fail(name, "needs \"return_logprob\": true");
    }
  }
}

json::value entry_body(const LogprobEntry& entry, const GenerateOutput& output, bool scored) {
  return json::array{scored ? json::value(entry.logprob) : json::value(nullptr), entry.token,
                     output.text_in_logprobs ? json::value(entry.text) : json::value(nullptr)};
}

json::value entries_body(const std::vector<LogprobEntry>& entries, const GenerateOutput& output) {
  json::array body;
  for (const LogprobEntry& entry : entries) {
    body.push_back(entry_body(entry, output, true));
  }
  return body;
}

// "input" or "output": one entry a token in each list, null where there is none.
void add_logprobs(json::object& meta, const std::string& side,
                  const std::vector<TokenLogprobs>& tokens, const GenerateOutput& output) {
  json::array chosen;
  json::array tops;
  json::array requested;
  for (const TokenLogprobs& token : tokens) {
    chosen.push_back(entry_body(token.chosen, output, token.scored));
    tops.push_back(token.scored ? entries_body(token.top, output) : json::value(nullptr));
    requested.push_back(token.scored ? entries_body(token.requested, output)
                                     : json::value(nullptr));
  }
  meta[side + "_token_logprobs"] = std::move(chosen);
  if (output.lists_top) {
    meta[side + "_top_logprobs"] = std::move(tops);
  }
  if (output.lists_requested) {
    meta[side + "_token_ids_logprobs"] = std::move(requested);
  }
}

json::value finish_body(const GenerateOutput& output) {
  if (output.finish_reason.empty()) {
    return nullptr;
  }
  json::object finish;
  finish["type"] = output.finish_reason;
  if (const Token* token = std::get_if<Token>(&output.matched_stop)) {
    finish["matched"] = *token;
  } else if (const std::string* text = std::get_if<std::string>(&output.matched_stop)) {
    finish["matched"] = *text;
  } else if (output.finish_reason == "length") {
    finish["length"] = output.max_tokens;
  }
  return finish;
}

}  // namespace

Result<GenerateRequest> parse_generate_request(const json::value& body,
                                               const sampling::Params& defaults) {
  GenerateRequest request;
  const Result<const json::object*> object = request_object(body, generate_fields(), request.hints);
  if (!object) {
    return object.error();
  }

  ObjectReader reader(**object);
  read_prompts(reader, request);
  POME_TRY(reader.status());
  GenerationFields shared;
  shared.sampling = defaults;
  read_placement_fields(reader, shared);
  request.text_in_logprobs = reader.boolean("return_text_in_logprobs").value_or(false);
  request.stream = reader.boolean("stream").value_or(false);
  read_rids(reader, request);
  POME_TRY(reader.status());
  POME_TRY(read_sampling(reader, shared, request));
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    read_logprobs(reader, i, request, request.generations[i]);
  }
  POME_TRY(reader.status());
  return request;
}

json::object generate_body(const GenerateOutput& output) {
  json::object meta;
  meta["id"] = output.rid;
  meta["finish_reason"] = finish_body(output);
  meta["prompt_tokens"] = output.prompt_tokens;
  meta["completion_tokens"] = output.completion_tokens;
  meta["cached_tokens"] = output.cached_tokens;
  if (!output.finish_reason.empty()) {
    meta["e2e_latency"] = output.latency_s;
  }
  if (output.logprobs && output.says_prompt_logprobs) {
    add_logprobs(meta, "input", output.prompt_logprobs, output);
  }
  if (output.logprobs) {
    add_logprobs(meta, "output", *output.logprobs, output);
  }
  json::array ids;
  for (const Token token : output.tokens) {
    ids.push_back(token);
  }
  json::object body;
  body["text"] = output.text;
  body["output_ids"] = std::move(ids);
  body["meta_info"] = std::move(meta);
  body["index"] = output.index;
  return body;
}

}  // namespace pome::protocol::native
