#include "pome/bench/target/prompt_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pome::apps {
namespace {

constexpr size_t kPromptsAtOnce = 64;  // that one request may carry

class ServedTokens final : public PromptTokens {
 public:
  ServedTokens(const HttpClient& client, std::string model, int32_t vocab)
      : client_(client), model_(std::move(model)), vocab_(vocab) {}

  Result<std::vector<std::vector<Token>>> encode(const std::vector<std::string>& texts,
                                                 bool add_special) const override {
    std::vector<std::vector<Token>> out;
    for (size_t begin = 0; begin < texts.size(); begin += kPromptsAtOnce) {
      const size_t end = std::min(begin + kPromptsAtOnce, texts.size());
      const json::object body{{"model", model_},
                              {"prompt", json::array(texts.begin() + static_cast<long>(begin),
                                                     texts.begin() + static_cast<long>(end))},
                              {"add_special_tokens", add_special}};
      const auto reply = client_.ask("POST", "/tokenize", body);
      if (!reply) {
        return reply.error();
      }
      const json::array* lists = find_array(*reply, "tokens");
      if (lists == nullptr || lists->size() != end - begin) {
        return odd_answer("/tokenize");
      }
      for (const json::value& list : *lists) {
        auto& tokens = out.emplace_back();
        for (const json::value& id : list.is_array() ? list.get_array() : json::array()) {
          tokens.push_back(static_cast<Token>(as_int(id).value_or(0)));
        }
      }
    }
    return out;
  }

  Result<std::vector<std::string>> decode(
      const std::vector<std::vector<Token>>& tokens) const override {
    std::vector<std::string> out;
    for (size_t begin = 0; begin < tokens.size(); begin += kPromptsAtOnce) {
      const size_t end = std::min(begin + kPromptsAtOnce, tokens.size());
      json::array lists;
      for (size_t i = begin; i < end; ++i) {
        lists.push_back(json::array(tokens[i].begin(), tokens[i].end()));
      }
      const json::object body{{"model", model_}, {"tokens", std::move(lists)}};
      const auto reply = client_.ask("POST", "/detokenize", body);
      if (!reply) {
        return reply.error();
      }
      const json::array* texts = find_array(*reply, "text");
      if (texts == nullptr || texts->size() != end - begin) {
        return odd_answer("/detokenize");
      }
      for (const json::value& text : *texts) {
        out.emplace_back(text.is_string() ? std::string(text.get_string()) : "");
      }
    }
    return out;
  }

  int32_t vocab_tokens() const override { return vocab_; }

 private:
  Error odd_answer(std::string_view path) const {
    return {ErrorCode::unavailable,
            fmt::format("POST {}{}: the answer has not one entry a prompt", client_.url(), path),
            ""};
  }

  const HttpClient& client_;
  const std::string model_;
  const int32_t vocab_;
};

class LocalTokens final : public PromptTokens {
 public:
  LocalTokens(server::ServedText text, int32_t vocab) : text_(std::move(text)), vocab_(vocab) {}

  Result<std::vector<std::vector<Token>>> encode(const std::vector<std::string>& texts,
                                                 bool add_special) const override {
    std::vector<std::vector<Token>> out;
    for (const std::string& text : texts) {
      auto tokens = text_.tokenizer.encode(text, {.add_special = add_special});
      if (!tokens) {
        return tokens.error();
      }
      out.push_back(std::move(*tokens));
    }
    return out;
  }

  Result<std::vector<std::string>> decode(
      const std::vector<std::vector<Token>>& tokens) const override {
    std::vector<std::string> out;
    for (const auto& list : tokens) {
      out.push_back(text_.tokenizer.decode(list));
    }
    return out;
  }

  int32_t vocab_tokens() const override { return vocab_; }

 private:
  const server::ServedText text_;
  const int32_t vocab_;
};

}  // namespace

std::unique_ptr<PromptTokens> served_tokens(const HttpClient& client, std::string model,
                                            int32_t vocab_tokens) {
  return std::make_unique<ServedTokens>(client, std::move(model), vocab_tokens);
}

std::unique_ptr<PromptTokens> local_tokens(server::ServedText text, int32_t vocab_tokens) {
  return std::make_unique<LocalTokens>(std::move(text), vocab_tokens);
}

}  // namespace pome::apps
