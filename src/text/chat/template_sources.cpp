#include "text/chat/template_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace pome::text {
namespace {

constexpr std::string_view kDefault = "default";
constexpr std::string_view kChatml =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% endif %}";

struct Found {
  std::string origin;
  std::vector<NamedTemplate> templates;
};

Error bad_source(const std::string& origin, std::string_view what) {
  return invalid(fmt::format("[chat template] {}: {}", origin, what));
}

NamedTemplate as_default(std::string text) {
  return {std::string(kDefault), std::move(text)};
}

// A "chat_template" in JSON: a string, a list of {name, template}, or an object of names.
Result<std::vector<NamedTemplate>> named_templates(const json::value& value,
                                                   const std::string& origin) {
  std::vector<NamedTemplate> out;
  if (const json::string* text = value.if_string()) {
    out.push_back(as_default(std::string(text->data(), text->size())));
  } else if (const json::array* list = value.if_array()) {
    for (const json::value& element : *list) {
      const json::object* row = element.if_object();
      auto name = row ? find_string(*row, "name") : std::nullopt;
      auto body = row ? find_string(*row, "template") : std::nullopt;
      if (!name || !body) {
        return bad_source(origin, "expected a list of objects with a name and a template");
      }
      out.push_back({std::move(*name), std::move(*body)});
    }
  } else if (const json::object* object = value.if_object()) {
    for (const auto& [name, element] : *object) {
      if (!element.is_string()) {
        return bad_source(origin, "expected each named template to be a string");
      }
      out.push_back({std::string(name), std::string(element.as_string())});
    }
  } else {
    return bad_source(origin, fmt::format("expected a string, a list or an object, got {}",
                                          json_type_name(value)));
  }
  if (out.empty()) {
    return bad_source(origin, "the list of templates is empty");
  }
  return out;
}

// "chatml", Jinja, or JSON with a "chat_template" key.
Result<std::vector<NamedTemplate>> chosen_templates(const std::string& chosen,
                                                    const std::string& origin) {
  if (chosen == "chatml") {
    return std::vector<NamedTemplate>{as_default(std::string(kChatml))};
  }
  const size_t first = chosen.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    return bad_source(origin, "the file is empty");
  }
  if (chosen[first] == '{' && chosen.compare(first, 2, "{%") != 0 &&
      chosen.compare(first, 2, "{{") != 0 && chosen.compare(first, 2, "{#") != 0) {
    const auto parsed = parse_json(chosen);
    const json::object* object = parsed ? parsed->if_object() : nullptr;
    const json::value* inner = object ? object->if_contains("chat_template") : nullptr;
    if (!inner) {
      return bad_source(origin, "expected Jinja, or JSON with a \"chat_template\"");
    }
    return named_templates(*inner, origin);
  }
  return std::vector<NamedTemplate>{as_default(chosen)};
}

std::vector<NamedTemplate> template_files(const ChatTemplateSources& sources) {
  std::vector<NamedTemplate> out = sources.additional;
  const bool named = std::any_of(out.begin(), out.end(),
                                 [](const NamedTemplate& t) { return t.name == kDefault; });
  if (sources.jinja_file && !named) {
    out.insert(out.begin(), as_default(*sources.jinja_file));
  }
  return out;
}

const json::value* in_tokenizer_config(const ChatTemplateSources& sources) {
  const json::value* value =
      sources.tokenizer_config ? sources.tokenizer_config->if_contains("chat_template") : nullptr;
  return value && !value->is_null() ? value : nullptr;
}

Result<Found> find_templates(const ChatTemplateSources& from) {
  const auto found = [](std::string origin,
                        Result<std::vector<NamedTemplate>> templates) -> Result<Found> {
    if (!templates) {
      return templates.error();
    }
    return Found{std::move(origin), std::move(*templates)};
  };
  if (from.chosen) {
    return found(from.chosen_name, chosen_templates(*from.chosen, from.chosen_name));
  }
  if (auto files = template_files(from); !files.empty()) {
    return Found{from.jinja_file ? "chat_template.jinja" : "additional_chat_templates",
                 std::move(files)};
  }
  if (const json::value* value = in_tokenizer_config(from)) {
    return found("tokenizer_config.json", named_templates(*value, "tokenizer_config.json"));
  }
  if (from.processor_json) {
    return found("chat_template.json",
                 chosen_templates(*from.processor_json, "chat_template.json"));
  }
  if (!from.gguf.empty()) {
    return Found{"tokenizer.chat_template", from.gguf};
  }
  return invalid(
      "this model has no chat template, so it cannot chat. Start with --chat-template FILE (or "
      "--chat-template chatml), or use /v1/completions or /generate, which need none",
      "messages");
}

Error no_such_template(const Found& found, const std::string& name) {
  std::string names;
  for (const NamedTemplate& each : found.templates) {
    names += (names.empty() ? "" : ", ") + each.name;
  }
  return invalid(fmt::format("--hf-chat-template-name: {} has no template \"{}\"; it has {}",
                             found.origin, name, names),
                 "hf-chat-template-name");
}

}  // namespace

bool ChatTemplateSources::empty() const {
  return !chosen && !jinja_file && additional.empty() && !in_tokenizer_config(*this) &&
         !processor_json && gguf.empty();
}

Result<ChosenTemplates> choose_templates(const ChatTemplateSources& sources) {
  auto found = find_templates(sources);
  if (!found) {
    return found.error();
  }
  const auto named = [&](std::string_view name) -> const NamedTemplate* {
    const auto at = std::find_if(found->templates.begin(), found->templates.end(),
                                 [&](const NamedTemplate& each) { return each.name == name; });
    return at == found->templates.end() ? nullptr : &*at;
  };
  if (sources.name) {
    const NamedTemplate* wished = named(*sources.name);
    if (!wished) {
      return no_such_template(*found, *sources.name);
    }
    return ChosenTemplates{found->origin, *wished, std::nullopt};
  }
  const NamedTemplate* plain = named(kDefault);
  ChosenTemplates chosen{found->origin, plain ? *plain : found->templates.front(), std::nullopt};
  if (const NamedTemplate* tools = named("tool_use")) {
    chosen.with_tools = *tools;
  }
  return chosen;
}

}  // namespace pome::text
