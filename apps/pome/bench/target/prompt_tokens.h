#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "pome/bench/target/http_client.h"
#include "server/generation/served_text.h"

namespace pome::apps {

// The tokenizer of the model that is measured.
class PromptTokens {
 public:
  virtual ~PromptTokens() = default;
  // As the model is given a raw prompt: with what it wants before it, when `add_special`.
  virtual Result<std::vector<std::vector<Token>>> encode(const std::vector<std::string>& texts,
                                                         bool add_special) const = 0;
  virtual Result<std::vector<std::string>> decode(
      const std::vector<std::vector<Token>>& tokens) const = 0;
  virtual int32_t vocab_tokens() const = 0;
};

// The served model's, through POST /tokenize and /detokenize. `client` outlives it.
std::unique_ptr<PromptTokens> served_tokens(const HttpClient& client, std::string model,
                                            int32_t vocab_tokens);
// That of a model in this process.
std::unique_ptr<PromptTokens> local_tokens(server::ServedText text, int32_t vocab_tokens);

}  // namespace pome::apps
