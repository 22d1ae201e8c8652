#include "support/agreement.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/sequences/sequences.h"

namespace pome::test {
namespace {

// r − 1 − ln r with r = q / p, of ln p and ln q.
mx::array terms(const mx::array& log_p, const mx::array& log_q) {
  const mx::array log_r = log_q - log_p;
  return mx::expm1(log_r) - log_r;
}

}  // namespace

Result<AgreementReference> AgreementReference::open(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    return Error{ErrorCode::not_found, fmt::format("there is no reference {}", file.string()), {}};
  }
  const auto loaded = mx::load_safetensors(file.string()).first;
  for (const char* name :
       {"tokens", "best_ids", "best_log_probs", "rest_mass", "drawn_ids", "drawn_log_probs"}) {
    if (loaded.count(name) == 0) {
      return invalid(fmt::format("[{}] expected a tensor {}", file.string(), name));
    }
  }
  mx::array tokens = loaded.at("tokens");
  tokens.eval();
  const int32_t* ids = tokens.data<int32_t>();
  return AgreementReference(
      std::vector<Token>(ids, ids + tokens.size()),
      Arrays{loaded.at("best_ids"), loaded.at("best_log_probs"), loaded.at("rest_mass"),
             loaded.at("drawn_ids"), loaded.at("drawn_log_probs")});
}

Agreement AgreementReference::compare(const mx::array& logits) const {
  const mx::array log_q = logits - mx::logsumexp(logits, -1, true);
  const mx::array best = mx::take_along_axis(log_q, arrays_.best_ids, 1);
  const mx::array drawn = mx::take_along_axis(log_q, arrays_.drawn_ids, 1);
  const mx::array best_part =
      mx::sum(mx::exp(arrays_.best_log_probs) * terms(arrays_.best_log_probs, best), -1);
  const mx::array drawn_part =
      arrays_.rest_mass * mx::mean(terms(arrays_.drawn_log_probs, drawn), -1);
  const mx::array first = mx::take(arrays_.best_ids, mx::array(0), 1);
  const mx::array same = mx::equal(mx::astype(mx::argmax(logits, -1), mx::int32), first);
  Agreement agreement;
  agreement.positions = static_cast<int32_t>(tokens_.size());
  agreement.mean_kl = mx::mean(best_part + drawn_part).item<float>();
  agreement.top1 = mx::mean(mx::astype(same, mx::float32)).item<float>();
  return agreement;
}

std::filesystem::path agreement_file(const std::filesystem::path& weights) {
  return std::filesystem::path(POME_SOURCE_DIR) / "tests/golden/llm_real" / weights.stem() /
         "expect.safetensors";
}

Agreement measure_agreement(const models::LanguageModel& model, const AgreementReference& reference,
                            int32_t chunk, const kvcache::KvFormat& kv_format) {
  const std::vector<Token>& tokens = reference.tokens();
  const auto count = static_cast<int32_t>(tokens.size());
  models::Sequences sequences(model, {.tokens_max = count, .format = kv_format});
  std::vector<mx::array> parts;
  for (int32_t begin = 0; begin < count; begin += chunk) {
    const int32_t end = std::min(begin + chunk, count);
    const std::vector<Token> part(tokens.begin() + begin, tokens.begin() + end);
    parts.push_back(sequences.step({{0, part, models::Outputs::all}}).logits);
    parts.back().eval();
  }
  return reference.compare(mx::concatenate(parts, 0));
}

}  // namespace pome::test
