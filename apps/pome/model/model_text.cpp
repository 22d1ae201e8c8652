#include "pome/model/model_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/json.h"
#include "hub/transfer/text.h"
#include "text/tokenizer/gguf_vocabulary.h"

namespace pome::apps {
namespace {

constexpr size_t kTokenizerBytesMax = 128u << 20;
constexpr size_t kTemplateBytesMax = 4u << 20;

// The text side of a model as files give it, before it is built.
struct Sources {
  std::optional<std::string> tokenizer_json;
  std::optional<json::value> tokenizer_config;
  std::optional<text::GgufVocabulary> vocabulary;
  std::optional<std::string> jinja_file;

  const json::object* config() const {
    return tokenizer_config ? tokenizer_config->if_object() : nullptr;
  }
};

Result<std::optional<json::value>> parse_config(const std::optional<std::string>& text) {
  if (!text) {
    return std::optional<json::value>();
  }
  auto parsed = parse_json(*text);
  if (!parsed) {
    return invalid("tokenizer_config.json: " + parsed.error().message);
  }
  return std::optional(std::move(parsed).value());
}

Result<Sources> sources_of_folder(
    const std::function<std::optional<std::string>(std::string_view)>& read) {
  Sources sources;
  sources.tokenizer_json = read("tokenizer.json");
  sources.jinja_file = read("chat_template.jinja");
  auto config = parse_config(read("tokenizer_config.json"));
  if (!config) {
    return config.error();
  }
  sources.tokenizer_config = std::move(config).value();
  return sources;
}

Result<Sources> sources_of(const tensor::Checkpoint& checkpoint,
                           const std::string& tokenizer_path) {
  if (!tokenizer_path.empty()) {
    const std::filesystem::path given(tokenizer_path);
    const std::filesystem::path folder =
        std::filesystem::is_directory(given) ? given : given.parent_path();
    return sources_of_folder([&](std::string_view name) {
      return hub::read_small_file(folder / name, kTokenizerBytesMax);
    });
  }
  if (checkpoint.format() == tensor::CheckpointFormat::hf_folder) {
    return sources_of_folder(
        [&](std::string_view name) { return checkpoint.read_side_file(name); });
  }
  auto vocabulary = text::read_gguf_vocabulary(checkpoint.config());
  if (!vocabulary) {
    return vocabulary.error();
  }
  Sources sources;
  sources.vocabulary = std::move(vocabulary).value();
  return sources;
}

Result<text::Tokenizer> build_tokenizer(const Sources& sources,
                                        const tensor::Checkpoint& checkpoint) {
  if (sources.vocabulary) {
    return text::Tokenizer::from_gguf(*sources.vocabulary);
  }
  if (!sources.tokenizer_json) {
    return invalid(
        fmt::format("{} has no tokenizer.json; name a folder that has one with --tokenizer-path",
                    checkpoint.path().string()),
        "tokenizer-path");
  }
  return text::Tokenizer::from_hf(*sources.tokenizer_json, sources.config());
}

}  // namespace

Result<std::string> read_chosen_template(const std::string& chosen) {
  if (auto content = hub::read_small_file(chosen, kTemplateBytesMax)) {
    return std::move(*content);
  }
  if (chosen == "chatml") {
    return chosen;
  }
  return invalid(fmt::format("--chat-template: expected `chatml` or a readable file of at most {} "
                             "MiB, got '{}'",
                             kTemplateBytesMax >> 20, chosen),
                 "chat-template");
}

Result<server::ServedText> read_model_text(const tensor::Checkpoint& checkpoint,
                                           const Settings& settings) {
  auto sources = sources_of(checkpoint, settings.text("--tokenizer-path"));
  if (!sources) {
    return sources.error();
  }
  auto tokenizer = build_tokenizer(sources.value(), checkpoint);
  if (!tokenizer) {
    return tokenizer.error();
  }
  text::ChatTemplateSources templates;
  templates.jinja_file = sources->jinja_file;
  templates.tokenizer_config = sources->config();
  templates.gguf = sources->vocabulary ? sources->vocabulary->chat_template : std::nullopt;
  if (const std::string chosen = settings.text("--chat-template"); !chosen.empty()) {
    auto content = read_chosen_template(chosen);
    if (!content) {
      return content.error();
    }
    templates.chosen = std::move(content).value();
    templates.chosen_name = chosen;
  }
  const bool any =
      templates.chosen || templates.jinja_file || templates.gguf ||
      (templates.tokenizer_config && find(*templates.tokenizer_config, "chat_template"));
  if (!any) {
    return server::ServedText{std::move(tokenizer).value(), std::nullopt};
  }
  auto chat = text::ChatTemplate::load(
      templates, text::special_token_texts(tokenizer.value(), sources->config()),
      tokenizer->special_texts());
  if (!chat) {
    return chat.error();
  }
  return server::ServedText{std::move(tokenizer).value(), std::move(chat).value()};
}

}  // namespace pome::apps
