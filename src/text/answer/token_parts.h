#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "text/answer/answer_parser.h"

namespace pome::text {

// Which part of the answer each token belongs to; a mark belongs to what it ends, or else begins.
// A token may stay undecided while its text may still become a mark. Tokens whose text is cut in
// the middle count for the later part. One thread at a time.
class TokenParts {
 public:
  // The next token made `bytes` of text, of which the parser made `delta`. The parts of the oldest
  // undecided tokens, as far as they are known now.
  std::vector<AnswerPart> push(size_t bytes, const AnswerDelta& delta);
  // The parts of those that are left; the last of them made `bytes` more, which were held back.
  std::vector<AnswerPart> finish(size_t bytes, const AnswerDelta& delta);

 private:
  std::vector<AnswerPart> decide(const AnswerDelta& delta);

  std::deque<size_t> undecided_;  // bytes
  std::optional<AnswerPart> part_ = {};
};

}  // namespace pome::text
