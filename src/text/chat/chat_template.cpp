#include "text/chat/chat_template.h"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "bridge/bridge.h"
#include "text/chat/literal_marks.h"
#include "text/chat/message_shapes.h"

namespace pome::text {
namespace {

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

}  // namespace

struct ChatTemplate::State {
  struct Variant {
    Compiled compiled;
    TemplateHabits habits;
  };
  std::string origin;
  std::string jinja;
  Variant plain;
  std::optional<Variant> with_tools;
  json::object special_tokens;
  LiteralMarks marks;

  static Result<Variant> compile(const std::string& origin, const std::string& source,
                                 const json::object& special_tokens);
  const Variant& variant_for(const ChatInput& input) const;
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
  auto chosen = choose_templates(sources);
  if (!chosen) {
    return chosen.error();
  }
  const std::string& name = chosen->plain.name;
  std::string origin =
      name == "default" ? chosen->origin : fmt::format("{} ({})", chosen->origin, name);
  auto plain = State::compile(origin, chosen->plain.text, special_tokens);
  if (!plain) {
    return plain.error();
  }
  std::string jinja = chosen->plain.text;
  std::optional<State::Variant> with_tools;
  if (chosen->with_tools) {
    jinja += "\n" + chosen->with_tools->text;
    auto compiled = State::compile(fmt::format("{} ({})", chosen->origin, chosen->with_tools->name),
                                   chosen->with_tools->text, special_tokens);
    if (!compiled) {
      return compiled.error();
    }
    with_tools = std::move(*compiled);
  }
  return ChatTemplate(std::make_shared<const State>(
      State{std::move(origin), std::move(jinja), std::move(*plain), std::move(with_tools),
            std::move(special_tokens), LiteralMarks(std::move(special_texts))}));
}

Result<ChatTemplate::State::Variant> ChatTemplate::State::compile(
    const std::string& origin, const std::string& source, const json::object& special_tokens) {
  auto compiled = Compiled::parse(origin, source);
  if (!compiled) {
    return compiled.error();
  }
  const TemplateHabits habits = find_habits(*compiled, source, special_tokens);
  return Variant{std::move(*compiled), habits};
}

const ChatTemplate::State::Variant& ChatTemplate::State::variant_for(const ChatInput& input) const {
  return input.tools && with_tools ? *with_tools : plain;
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
  const State::Variant& variant = state_->variant_for(input);
  const TemplateHabits& habits = variant.habits;
  auto messages = shape_messages(input.messages, habits);
  if (!messages) {
    return messages.error();
  }
  if (!habits.takes_system) {
    *messages = fold_system_messages(*messages, false);
  }
  auto rendered = state_->render(variant, input, *messages);
  if (!rendered && has_late_system_message(*messages)) {
    rendered = state_->render(variant, input, fold_system_messages(*messages, true));
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

const std::string& ChatTemplate::jinja() const {
  return state_->jinja;
}

}  // namespace pome::text
