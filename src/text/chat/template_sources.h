#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer/gguf_vocabulary.h"

namespace pome::text {

// Where a template may come from; the first that is there wins.
struct ChatTemplateSources {
  // --chat-template: the file's text, or a JSON file with a "chat_template" key, or the name
  // "chatml".
  std::optional<std::string> chosen;
  std::string chosen_name = "--chat-template";
  std::optional<std::string> jinja_file;  // chat_template.jinja; "default" beside the next
  std::vector<NamedTemplate> additional;  // additional_chat_templates/<name>.jinja
  const json::object* tokenizer_config =
      nullptr;  // tokenizer_config.json: a string or a list of named templates
  // chat_template.json, which multimodal folders have: JSON with a "chat_template" key.
  std::optional<std::string> processor_json;
  std::vector<NamedTemplate> gguf;  // tokenizer.chat_template and tokenizer.chat_template.<name>

  // --hf-chat-template-name: the one of several that every chat uses.
  std::optional<std::string> name;

  bool empty() const;
};

// The templates that chats use, of those that a source holds.
struct ChosenTemplates {
  std::string origin;  // for messages: "chat_template.jinja", "tokenizer_config.json", …
  NamedTemplate plain;
  std::optional<NamedTemplate> with_tools;  // what a chat with tools uses in place of `plain`
};

// Without a name, as the reference chooses: "default" (the first where there is none), and
// "tool_use" for chats with tools. An error names the file that is malformed, the flag where
// nothing is there, or the names that exist where the wished one does not.
Result<ChosenTemplates> choose_templates(const ChatTemplateSources& sources);

}  // namespace pome::text
