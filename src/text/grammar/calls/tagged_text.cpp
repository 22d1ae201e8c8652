#include "text/grammar/calls/tagged_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace pome::text {
namespace {

constexpr size_t kPartsMax = 512;

Error refused(std::string_view field, std::string_view why) {
  return invalid(fmt::format("'{}': {}", field, why), std::string(field));
}

// The control token at the beginning of a text, the longest where one begins another.
std::string_view control_token(const Tokenizer& tokenizer, std::string_view text) {
  std::string_view found;
  for (const std::string& special : tokenizer.special_texts()) {
    if (special.size() > found.size() && text.starts_with(special)) {
      found = text.substr(0, special.size());
    }
  }
  return found;
}

std::string token_in_lark(const Tokenizer& tokenizer, std::string_view token) {
  return fmt::format("<[{}]>", tokenizer.token_id(token).value_or(0));
}

bool is_plain(const Tokenizer& tokenizer, std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!control_token(tokenizer, text.substr(at)).empty()) {
      return false;
    }
  }
  return true;
}

struct Structure {
  std::string begin;
  std::string end;
  std::string schema;  // in Lark
};

Result<Structure> read_structure(const json::value& value, const std::string& field,
                                 const JsonSpace& space) {
  const json::object* object = value.if_object();
  if (object == nullptr) {
    return refused(field, "expected an object with begin, schema and end");
  }
  const auto begin = find_string(*object, "begin");
  const auto end = find_string(*object, "end");
  const json::value* schema = find(*object, "schema");
  if (!begin || begin->empty() || !end || schema == nullptr) {
    return refused(field, "expected begin (not empty), schema and end");
  }
  Result<std::string> in_lark = json_schema_in_lark(*schema, field + ".schema", space);
  if (!in_lark) {
    return in_lark.error();
  }
  return Structure{*begin, *end, std::move(*in_lark)};
}

Result<std::vector<std::string>> read_triggers(const json::object& tag, const std::string& field) {
  const json::array* list = find_array(tag, "triggers");
  std::vector<std::string> triggers;
  if (list != nullptr && list->size() <= kPartsMax) {
    for (const json::value& trigger : *list) {
      if (trigger.is_string() && !trigger.get_string().empty()) {
        triggers.emplace_back(trigger.get_string());
      }
    }
  }
  if (list == nullptr || triggers.empty() || triggers.size() != list->size()) {
    return refused(field + ".triggers",
                   fmt::format("expected 1 to {} texts, none empty", kPartsMax));
  }
  return triggers;
}

}  // namespace

std::string lark_text(const Tokenizer& tokenizer, std::string_view text) {
  std::string out;
  const auto add = [&out](std::string_view part) {
    out += out.empty() ? "" : " ";
    out += part;
  };
  size_t plain = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string_view token = control_token(tokenizer, text.substr(at));
    if (token.empty()) {
      ++at;
      continue;
    }
    if (at > plain) {
      add(lark_string(text.substr(plain, at - plain)));
    }
    add(token_in_lark(tokenizer, token));
    at += token.size();
    plain = at;
  }
  if (plain < text.size() || out.empty()) {
    add(lark_string(text.substr(plain)));
  }
  return out;
}

Result<GrammarSource> tagged_text_source(const Tokenizer& tokenizer,
                                         const std::vector<TaggedPart>& parts,
                                         std::string_view field) {
  std::map<std::string, std::vector<std::string>> by_mark;
  for (const TaggedPart& part : parts) {
    by_mark[part.mark].push_back(part.body);
  }
  std::string names;
  std::string rules;
  for (const auto& [mark, bodies] : by_mark) {
    const size_t i =
        static_cast<size_t>(std::count(names.begin(), names.end(), '|')) + (names.empty() ? 0 : 1);
    names += fmt::format("{}tag_{}", names.empty() ? "" : " | ", i);
    rules += fmt::format("tag_{}: before_{} ({})\n", i, i, fmt::join(bodies, " | "));
    if (is_plain(tokenizer, mark)) {
      // Lazy: free text ends where the mark is first said, and nothing else may be made of it.
      rules += fmt::format("before_{}[lazy]: TEXT {}\n", i, lark_string(mark));
    } else if (!control_token(tokenizer, mark).empty()) {
      rules += fmt::format("before_{}: TEXT {}\n", i, lark_text(tokenizer, mark));
    } else {
      return refused(field, fmt::format("the mark {} has a control token behind text, which is "
                                        "not supported",
                                        lark_string(mark)));
    }
  }
  GrammarSource source{
      .text = fmt::format("start: ({})* rest\nrest: TEXT\nTEXT: /(.|\\n)*/\n{}", names, rules)};
  if (source.text.size() > kSchemaBytesMax) {
    return refused(field, fmt::format("expected at most {} bytes in all, got {}", kSchemaBytesMax,
                                      source.text.size()));
  }
  return source;
}

Result<GrammarSource> structural_tag_source(const Tokenizer& tokenizer, const json::object& tag,
                                            std::string_view field, const JsonSpace& space) {
  const std::string name(field);
  if (tag.contains("format")) {
    return refused(name + ".format", "not supported: send structures and triggers");
  }
  const json::array* structures = find_array(tag, "structures");
  if (structures == nullptr || structures->empty() || structures->size() > kPartsMax) {
    return refused(name + ".structures", fmt::format("expected 1 to {} structures", kPartsMax));
  }
  const Result<std::vector<std::string>> triggers = read_triggers(tag, name);
  if (!triggers) {
    return triggers.error();
  }
  std::vector<TaggedPart> parts;
  for (size_t i = 0; i < structures->size(); ++i) {
    const std::string where = fmt::format("{}.structures[{}]", name, i);
    const Result<Structure> structure = read_structure((*structures)[i], where, space);
    if (!structure) {
      return structure.error();
    }
    const auto trigger = std::find_if(
        triggers->begin(), triggers->end(),
        [&](const std::string& candidate) { return structure->begin.starts_with(candidate); });
    if (trigger == triggers->end()) {
      return refused(where + ".begin", "expected a text that begins with one of the triggers");
    }
    parts.push_back(
        {.mark = *trigger,
         .body = fmt::format(
             "{} {} {}",
             lark_text(tokenizer, std::string_view(structure->begin).substr(trigger->size())),
             structure->schema, lark_text(tokenizer, structure->end))});
  }
  return tagged_text_source(tokenizer, parts, field);
}

}  // namespace pome::text
