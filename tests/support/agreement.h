#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "models/language_model.h"

namespace pome::test {

// How close a model's answers are to a float32 run of the reference library on the same weights.
struct Agreement {
  double mean_kl = 0.0;  // nats, of the reference's distribution to ours, mean over positions
  double top1 = 0.0;     // share of positions with the same most probable token
  int32_t positions = 0;
};

// A file written by tools/make_golden/make_llm_real.py: the reference's log probabilities of the 64
// best tokens of each position and of 64 tokens drawn from the rest in proportion to their
// probability. With r = q / p every term of KL = Σ p (r − 1 − ln r) is positive, so the drawn ones
// estimate the rest's part without bias.
class AgreementReference {
 public:
  static Result<AgreementReference> open(const std::filesystem::path& file);

  const std::vector<Token>& tokens() const { return tokens_; }
  // logits [tokens, V] of all positions.
  Agreement compare(const mx::array& logits) const;

 private:
  struct Arrays {
    mx::array best_ids, best_log_probs, rest_mass, drawn_ids, drawn_log_probs;
  };
  AgreementReference(std::vector<Token> tokens, Arrays arrays)
      : tokens_(std::move(tokens)), arrays_(std::move(arrays)) {}

  std::vector<Token> tokens_;
  Arrays arrays_;
};

// Where the reference of a weights file lies in the source tree, by the file's name.
std::filesystem::path agreement_file(const std::filesystem::path& weights);

// The model's agreement on the reference's text, in prefill chunks of at most `chunk` tokens.
Agreement measure_agreement(const models::LanguageModel& model, const AgreementReference& reference,
                            int32_t chunk, const kvcache::KvFormat& kv_format);

}  // namespace pome::test
