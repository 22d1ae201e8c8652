#include "text/answer/token_parts.h"

namespace pome::text {

std::vector<AnswerPart> TokenParts::push(size_t bytes, const AnswerDelta& delta) {
  undecided_.push_back(bytes);
  return decide(delta);
}

std::vector<AnswerPart> TokenParts::finish(size_t bytes, const AnswerDelta& delta) {
  if (!undecided_.empty()) {
    undecided_.back() += bytes;
  }
  std::vector<AnswerPart> parts = decide(delta);
  parts.insert(parts.end(), undecided_.size(), part_.value_or(AnswerPart::content));
  undecided_.clear();
  return parts;
}

std::vector<AnswerPart> TokenParts::decide(const AnswerDelta& delta) {
  AnswerPart last = AnswerPart::call;
  size_t bytes = 0;  // of the last part, which the last tokens made
  if (!delta.calls.empty()) {
    for (const size_t token : undecided_) {
      bytes += token;
    }
  } else if (!delta.content.empty()) {
    last = AnswerPart::content;
    bytes = delta.content.size();
  } else if (!delta.reasoning.empty()) {
    last = AnswerPart::reasoning;
    bytes = delta.reasoning.size();
  } else {
    return {};
  }
  size_t begin = undecided_.size();
  for (size_t covered = 0; begin > 0 && (covered < bytes || undecided_[begin - 1] == 0);) {
    covered += undecided_[--begin];
  }
  const bool thought_before = last != AnswerPart::reasoning && !delta.reasoning.empty();
  const AnswerPart before = thought_before ? AnswerPart::reasoning : part_.value_or(last);
  std::vector<AnswerPart> parts(begin, before);
  parts.insert(parts.end(), undecided_.size() - begin, last);
  undecided_.clear();
  part_ = last;
  return parts;
}

}  // namespace pome::text
