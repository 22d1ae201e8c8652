#include "text/chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "bridge/bridge.h"
#include "text/chat/literal_marks.h"
#include "text/chat/message_shapes.h"

namespace pome::text {
namespace {

constexpr std::string_view kChatml =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% endif %}";
// Seconds since 1970 as a wall clock here would count them.
int64_t local_now_s() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return static_cast<int64_t>(now) + local.tm_gmtoff;
}

class Compiled {
 public:
  static Result<Compiled> parse(const std::string& origin, const std::string& source) {
    PomeTemplate* raw = nullptr;
    bridge::Buffer error;
    const int32_t code =
        pome_template_parse(bridge::text(origin), bridge::text(source), &raw, error.out());
    POME_TRY(bridge::status(code, error, "chat template"));
    Compiled made;
    made.handle_.reset(raw);
    return made;
  }

  Result<std::string> render(const json::object& context) const {
    const std::string text = to_string(context);
    bridge::Buffer out;
    bridge::Buffer error;
    const int32_t code = pome_template_render(handle_.get(), bridge::text(text), local_now_s(),
                                              out.out(), error.out());
    if (Status status = bridge::status(code, error, "chat template"); !status) {
      Error refused = status.error();
      refused.field = "messages";
      return refused;
    }
    return std::string(out.text());
  }

 private:
  struct Free {
    void operator()(PomeTemplate* compiled) const { pome_template_free(compiled); }
  };
  std::unique_ptr<PomeTemplate, Free> handle_;
};

struct Source {
  std::string name;  // "default", "tool_use", …
  std::string text;
};

json::object message(std::string_view role, json::value content) {
  return {{"role", role}, {"content", std::move(content)}};
}

bool shows(const Compiled& compiled, json::object context, json::array messages,
           std::string_view text) {
  context["messages"] = std::move(messages);
  const auto rendered = compiled.render(context);
  return rendered && rendered->find(text) != std::string::npos;
}

json::object base_context(const json::object& special_tokens) {
  json::object context = special_tokens;
  context["tools"] = nullptr;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = true;
  return context;
}

TemplateHabits find_habits(const Compiled& compiled, const std::string& source,
                           const json::object& special_tokens) {
  const json::object context = base_context(special_tokens);
  constexpr std::string_view kProbe = "pome asks";
  const json::array parts = {json::object{{"type", "text"}, {"text", kProbe}}};
  TemplateHabits habits;
  habits.takes_strings = shows(compiled, context, {message("user", json::value(kProbe))}, kProbe);
  // A template that knows strings only prints the list itself, with its quotation marks.
  habits.takes_parts = shows(compiled, context, {message("user", parts)}, kProbe) &&
                       !shows(compiled, context, {message("user", parts)}, "'type'") &&
                       !shows(compiled, context, {message("user", parts)}, "\"type\"");
  if (!habits.takes_strings && !habits.takes_parts) {
    habits.takes_strings = true;
    return habits;
  }
  const json::value rules =
      habits.takes_strings
          ? json::value("pome rules")
          : json::value(json::array{json::object{{"type", "text"}, {"text", "pome rules"}}});
  const json::value asks = habits.takes_strings ? json::value(kProbe) : json::value(parts);
  habits.takes_system =
      shows(compiled, context, {message("system", rules), message("user", asks)}, "pome rules");
  habits.knows_developer = source.find("developer") != std::string::npos;
  return habits;
}

Error bad_source(const std::string& origin, std::string_view what) {
  return invalid(fmt::format("[chat template] {}: {}", origin, what));
}

// tokenizer_config.json's "chat_template": a string, a list of {name, template}, or an object of
// names.
Result<std::vector<Source>> named_sources(const json::value& value, const std::string& origin) {
  std::vector<Source> out;
  if (const json::string* text = value.if_string()) {
    out.push_back({"default", std::string(text->data(), text->size())});
  } else if (const json::array* list = value.if_array()) {
    for (const json::value& element : *list) {
      const json::object* row = element.if_object();
      auto name = row ? find_string(*row, "name") : std::nullopt;
      auto source = row ? find_string(*row, "template") : std::nullopt;
      if (!name || !source) {
        return bad_source(origin, "expected a list of objects with a name and a template");
      }
      out.push_back({std::move(*name), std::move(*source)});
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

// What --chat-template named: "chatml", Jinja, or JSON with a "chat_template" key.
Result<std::vector<Source>> chosen_sources(const std::string& chosen, const std::string& origin) {
  if (chosen == "chatml") {
    return std::vector<Source>{{"default", std::string(kChatml)}};
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
    return named_sources(*inner, origin);
  }
  return std::vector<Source>{{"default", chosen}};
}

struct Found {
  std::string origin;
  std::vector<Source> sources;
};

Result<Found> find_sources(const ChatTemplateSources& from) {
  const auto found = [](std::string origin, Result<std::vector<Source>> sources) -> Result<Found> {
    if (!sources) {
      return sources.error();
    }
    return Found{std::move(origin), std::move(*sources)};
  };
  if (from.chosen) {
    return found(from.chosen_name, chosen_sources(*from.chosen, from.chosen_name));
  }
  if (from.jinja_file) {
    return Found{"chat_template.jinja", {{"default", *from.jinja_file}}};
  }
  const json::value* value =
      from.tokenizer_config ? from.tokenizer_config->if_contains("chat_template") : nullptr;
  if (value && !value->is_null()) {
    return found("tokenizer_config.json", named_sources(*value, "tokenizer_config.json"));
  }
  if (from.gguf) {
    return Found{"tokenizer.chat_template", {{"default", *from.gguf}}};
  }
  return invalid(
      "this model has no chat template, so it cannot chat. Start with --chat-template FILE (or "
      "--chat-template chatml), or use /v1/completions or /generate, which need none",
      "messages");
}

}  // namespace

struct ChatTemplate::State {
  struct Variant {
    std::string name;
    std::string source;
    Compiled compiled;
    TemplateHabits habits;
  };
  std::string origin;
  std::vector<Variant> variants;  // the first is the default
  json::object special_tokens;
  LiteralMarks marks;

  explicit State(std::vector<std::string> special_texts) : marks(std::move(special_texts)) {}

  Result<const Variant*> choose(const ChatInput& input) const;
  Result<std::string> render(const Variant& variant, const ChatInput& input,
                             json::array messages) const;
};

json::object special_token_texts(const Tokenizer& tokenizer, const json::object* tokenizer_config) {
  json::object out;
  const auto put = [&](std::string_view name, std::optional<Token> token) {
    const auto text = token ? tokenizer.piece(*token) : std::nullopt;
    if (text) {
      out[name] = *text;
    }
  };
  put("bos_token", tokenizer.bos());
  put("eos_token", tokenizer.eos());
  put("pad_token", tokenizer.pad());
  put("unk_token", tokenizer.unknown());
  if (!tokenizer_config) {
    return out;
  }
  for (const auto& [key, value] : *tokenizer_config) {
    const std::string_view name(key.data(), key.size());
    if (name.size() < 6 || name.substr(name.size() - 6) != "_token") {
      continue;
    }
    if (value.is_string()) {
      out[name] = value;
    } else if (const json::object* token = value.if_object()) {
      if (const auto text = find_string(*token, "content")) {
        out[name] = *text;
      }
    }
  }
  return out;
}

Result<ChatTemplate> ChatTemplate::load(const ChatTemplateSources& sources,
                                        json::object special_tokens,
                                        std::vector<std::string> special_texts) {
  auto found = find_sources(sources);
  if (!found) {
    return found.error();
  }
  auto state = std::make_shared<State>(std::move(special_texts));
  state->origin = found->origin;
  state->special_tokens = std::move(special_tokens);
  for (Source& source : found->sources) {
    const std::string shown = found->sources.size() == 1
                                  ? found->origin
                                  : fmt::format("{} ({})", found->origin, source.name);
    auto compiled = Compiled::parse(shown, source.text);
    if (!compiled) {
      return compiled.error();
    }
    const TemplateHabits habits = find_habits(*compiled, source.text, state->special_tokens);
    state->variants.push_back({source.name, std::move(source.text), std::move(*compiled), habits});
  }
  auto& variants = state->variants;
  std::stable_partition(variants.begin(), variants.end(),
                        [](const auto& variant) { return variant.name == "default"; });
  return ChatTemplate(std::move(state));
}

Result<const ChatTemplate::State::Variant*> ChatTemplate::State::choose(
    const ChatInput& input) const {
  const auto named = [&](std::string_view name) -> const Variant* {
    for (const Variant& variant : variants) {
      if (variant.name == name) {
        return &variant;
      }
    }
    return nullptr;
  };
  if (input.template_name) {
    if (const Variant* variant = named(*input.template_name)) {
      return variant;
    }
    return invalid(
        fmt::format("[chat template] {} has no template \"{}\"", origin, *input.template_name));
  }
  const Variant* with_tools = input.tools ? named("tool_use") : nullptr;
  return with_tools ? with_tools : &variants.front();
}

Result<std::string> ChatTemplate::State::render(const Variant& variant, const ChatInput& input,
                                                json::array messages) const {
  json::object context = base_context(special_tokens);
  if (input.tools) {
    context["tools"] = marks.mark(json::value(*input.tools));
  }
  context["add_generation_prompt"] = input.add_generation_prompt && !input.continue_final_message;
  for (const auto& [key, value] : input.template_kwargs) {
    context[key] = value;
  }
  json::value marked = marks.mark(json::value(std::move(messages)));
  if (input.continue_final_message) {
    json::object& last = marked.as_array().back().as_object();
    json::value* content = last.if_contains("content");
    json::value* text = content;
    if (content && content->is_array() && !content->get_array().empty()) {
      text = &content->get_array().back().as_object()["text"];
    }
    if (!text || !text->is_string()) {
      return invalid("continue_final_message: the final message has no text to continue",
                     "continue_final_message");
    }
    // The space shows whether the template trims the message.
    *text = std::string(text->as_string()) + std::string(LiteralMarks::kCut) + " ";
  }
  context["messages"] = std::move(marked);
  return variant.compiled.render(context);
}

namespace {

// Ends the prompt where the final message does. A template that trims messages trims this one's end
// too.
Status cut_after_final_message(std::string& text) {
  const size_t at = text.rfind(LiteralMarks::kCut);
  if (at == std::string::npos) {
    return invalid("continue_final_message: the template does not show the final message",
                   "continue_final_message");
  }
  const size_t after = at + LiteralMarks::kCut.size();
  const bool kept_space = after < text.size() && text[after] == ' ';
  text.resize(at);
  if (!kept_space) {
    text.resize(text.find_last_not_of(" \t\r\n\v\f") + 1);
  }
  return {};
}

}  // namespace

Result<RenderedPrompt> ChatTemplate::render(const ChatInput& input) const {
  auto variant = state_->choose(input);
  if (!variant) {
    return variant.error();
  }
  const TemplateHabits& habits = (*variant)->habits;
  auto messages = shape_messages(input.messages, habits);
  if (!messages) {
    return messages.error();
  }
  if (!habits.takes_system) {
    *messages = fold_system_messages(*messages, false);
  }
  auto rendered = state_->render(**variant, input, *messages);
  if (!rendered && has_late_system_message(*messages)) {
    rendered = state_->render(**variant, input, fold_system_messages(*messages, true));
  }
  if (!rendered) {
    return rendered.error();
  }
  if (input.continue_final_message) {
    POME_TRY(cut_after_final_message(*rendered));
  }
  LiteralMarks::Restored restored = state_->marks.restore(*rendered);
  return RenderedPrompt{std::move(restored.text), std::move(restored.literal)};
}

const std::string& ChatTemplate::origin() const {
  return state_->origin;
}
const std::string& ChatTemplate::source() const {
  return state_->variants.front().source;
}

}  // namespace pome::text
