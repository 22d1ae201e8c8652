#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "sampling/constraint.h"
#include "text/reasoning/reasoning_parser.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::text {

// Where an output begins with regard to its thinking.
enum class ReasoningStart {
  inside,    // in the thought
  may_open,  // a thought may come first
  none,      // the prompt has closed it: the answer comes
};
// By the end of the prompt that the template rendered.
ReasoningStart reasoning_start(const ReasoningStyle& style, std::string_view prompt);

// Which tokens can say the marks of a style, in one tokenizer. Immutable; large vocabularies take
// tenths of a second to read.
class ReasoningTokens {
 public:
  ReasoningTokens(const Tokenizer& tokenizer, const ReasoningStyle& style, std::vector<Token> eos);

  // Tokens that say, after `said` bytes of a mark, its rest and more.
  using ByBytesSaid = std::vector<std::vector<Token>>;

  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::string bytes(Token token) const;
  const std::string& open() const { return open_; }
  const std::string& close() const { return close_; }
  // After so many bytes of the opening mark: tokens that are its next bytes.
  const std::vector<Token>& opening(size_t said) const { return opening_[said]; }
  // May not follow a thought that ends with `thought`: tokens that end the thought and say more
  // than white space at once, or that interrupt it.
  std::vector<Token> forbidden(std::string_view thought) const;
  const std::vector<Token>& spaces() const { return spaces_; }
  bool is_space(Token token) const;
  const std::vector<Token>& eos() const { return eos_; }
  // Of a thought, what forbidden() looks at.
  size_t tail_bytes() const { return std::max(close_.size(), interrupt_.size()); }

 private:
  void read(Token token);

  Tokenizer tokenizer_;
  std::string open_;
  std::string close_;
  std::string interrupt_;
  std::vector<Token> eos_;
  std::vector<std::vector<Token>> opening_;
  ByBytesSaid overrunning_;    // the close
  ByBytesSaid interrupting_;   // the thought
  std::vector<Token> spaces_;  // short ones, in order
};

// Holds the answer to `answer`, and leaves the thought before it free: only EOS is kept from ending
// it. White space between the two is a token at most.
std::unique_ptr<sampling::Constraint> after_reasoning(std::shared_ptr<const ReasoningTokens> tokens,
                                                      ReasoningStart start,
                                                      std::unique_ptr<sampling::Constraint> answer);

}  // namespace pome::text
