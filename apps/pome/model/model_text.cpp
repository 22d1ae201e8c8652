#include "pome/model/model_text.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "hub/transfer/text.h"
#include "tensor/checkpoint/side_files.h"
#include "text/tokenizer/gguf_vocabulary.h"

namespace pome::apps {
namespace {

constexpr size_t kTemplateBytesMax = 4u << 20;
constexpr std::string_view kTemplateFolder = "additional_chat_templates";
constexpr std::string_view kJinja = ".jinja";

// A file that holds one JSON object; empty where it is not there.
Result<json::object> read_object(const tensor::SideFiles& files, const std::string& name) {
  const auto text = files.read(name);
  if (!text) {
    return json::object();
  }
  auto parsed = parse_json(*text);
  if (!parsed) {
    return invalid(fmt::format("{}: {}", name, parsed.error().message));
  }
  if (!parsed->is_object()) {
    return invalid(fmt::format("{}: expected an object, got {}", name, json_type_name(*parsed)));
  }
  return std::move(parsed->get_object());
}

// A folder's tokenizer_config.json. In older folders, which list no added tokens in it,
// special_tokens_map.json says which tokens are special, as in the reference.
Result<json::object> read_tokenizer_config(const tensor::SideFiles& files) {
  auto config = read_object(files, "tokenizer_config.json");
  if (!config || config->contains("added_tokens_decoder") || files.has("tokenizer.json")) {
    return config;
  }
  const auto special = read_object(files, "special_tokens_map.json");
  if (!special) {
    return special.error();
  }
  for (const auto& [name, token] : *special) {
    (*config)[name] = token;
  }
  return config;
}

Result<text::Tokenizer> build_tokenizer(const tensor::SideFiles& files, const json::object& config,
                                        const std::string& folder) {
  if (const auto whole = files.read("tokenizer.json")) {
    return text::Tokenizer::from_hf(*whole, &config);
  }
  const auto vocab = files.read("vocab.json");
  const auto merges = vocab ? files.read("merges.txt") : std::nullopt;
  if (merges) {
    return text::Tokenizer::from_bpe_files(*vocab, *merges, config,
                                           files.read("added_tokens.json").value_or(""));
  }
  const std::string found = files.has("tokenizer.model")
                                ? "its tokenizer.model (SentencePiece) is not read"
                                : "neither has it vocab.json with merges.txt";
  return invalid(fmt::format("{} has no tokenizer.json, and {}; name a folder that has one with "
                             "--tokenizer-path, or take a GGUF file of the model",
                             folder, found),
                 "tokenizer-path");
}

std::vector<text::NamedTemplate> read_additional(const tensor::SideFiles& files) {
  std::vector<text::NamedTemplate> out;
  for (const std::string& name : files.list(kTemplateFolder)) {
    if (!name.ends_with(kJinja)) {
      continue;
    }
    if (auto body = files.read(fmt::format("{}/{}", kTemplateFolder, name))) {
      out.push_back({name.substr(0, name.size() - kJinja.size()), std::move(*body)});
    }
  }
  return out;
}

// Without any template there is none to chat with; a flag that names one is then refused.
Result<server::ServedText> with_templates(text::Tokenizer tokenizer,
                                          const text::ChatTemplateSources& sources) {
  if (sources.empty() && !sources.name) {
    return server::ServedText{std::move(tokenizer), std::nullopt};
  }
  auto chat = text::ChatTemplate::load(
      sources, text::special_token_texts(tokenizer, sources.tokenizer_config),
      tokenizer.special_texts());
  if (!chat) {
    return chat.error();
  }
  const bool by_flag = sources.chosen || sources.name;
  log::write(by_flag ? log::Level::info : log::Level::debug,
             fmt::format("chats use the template of {}", chat->origin()));
  return server::ServedText{std::move(tokenizer), std::move(chat).value()};
}

Result<server::ServedText> read_folder(const std::filesystem::path& folder,
                                       text::ChatTemplateSources sources) {
  const tensor::SideFiles files(folder);
  auto config = read_tokenizer_config(files);
  if (!config) {
    return config.error();
  }
  auto tokenizer = build_tokenizer(files, config.value(), folder.string());
  if (!tokenizer) {
    return tokenizer.error();
  }
  sources.jinja_file = files.read("chat_template.jinja");
  sources.additional = read_additional(files);
  sources.tokenizer_config = &config.value();
  sources.processor_json = files.read("chat_template.json");
  return with_templates(std::move(tokenizer).value(), sources);
}

Result<server::ServedText> read_gguf(const tensor::Checkpoint& checkpoint,
                                     text::ChatTemplateSources sources) {
  auto vocabulary = text::read_gguf_vocabulary(checkpoint.config());
  if (!vocabulary) {
    return vocabulary.error();
  }
  auto tokenizer = text::Tokenizer::from_gguf(*vocabulary);
  if (!tokenizer) {
    return tokenizer.error();
  }
  sources.gguf = std::move(vocabulary->chat_templates);
  return with_templates(std::move(tokenizer).value(), sources);
}

}  // namespace

Result<text::ChatTemplateSources> chosen_templates(const Settings& settings) {
  text::ChatTemplateSources sources;
  if (const std::string name = settings.text("--hf-chat-template-name"); !name.empty()) {
    sources.name = name;
  }
  const std::string chosen = settings.text("--chat-template");
  if (chosen.empty()) {
    return sources;
  }
  sources.chosen_name = chosen;
  if (auto content = hub::read_small_file(chosen, kTemplateBytesMax)) {
    sources.chosen = std::move(*content);
  } else if (chosen == "chatml") {
    sources.chosen = chosen;
  } else {
    return invalid(fmt::format("--chat-template: expected `chatml` or a readable file of at most "
                               "{} MiB, got '{}'",
                               kTemplateBytesMax >> 20, chosen),
                   "chat-template");
  }
  return sources;
}

Result<server::ServedText> read_model_text(const tensor::Checkpoint& checkpoint,
                                           const Settings& settings) {
  auto sources = chosen_templates(settings);
  if (!sources) {
    return sources.error();
  }
  if (const std::string given = settings.text("--tokenizer-path"); !given.empty()) {
    const std::filesystem::path path(given);
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      return invalid(fmt::format("--tokenizer-path: expected a folder with tokenizer.json, there "
                                 "is no '{}'",
                                 given),
                     "tokenizer-path");
    }
    return read_folder(std::filesystem::is_directory(path, error) ? path : path.parent_path(),
                       std::move(sources).value());
  }
  if (checkpoint.format() == tensor::CheckpointFormat::hf_folder) {
    return read_folder(checkpoint.path(), std::move(sources).value());
  }
  return read_gguf(checkpoint, std::move(sources).value());
}

Status choose_forms(const Settings& settings, server::ServedText& text) {
  const std::string jinja = text.chat ? text.chat->jinja() : std::string();
  auto forms = text::choose_answer_forms(settings.text("--tool-call-parser"),
                                         settings.text("--reasoning-parser"), jinja);
  if (!forms) {
    return forms.error();
  }
  text.forms = *forms;
  if (forms->calls && jinja.find("tools") == std::string::npos) {
    log::warning(
        "--tool-call-parser {}: the chat template does not name `tools`, so the model does "
        "not see them",
        forms->calls_name());
  }
  log::debug("calls of tools are read as {}, reasoning as {}",
             forms->calls ? forms->calls_name() : "text",
             forms->reasoning != nullptr ? forms->reasoning_name() : "text");
  return {};
}

}  // namespace pome::apps
