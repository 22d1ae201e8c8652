#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/grammar_compiler.h"
#include "text/tokenizer/golden.h"

// Outputs on their way through grammars, for the tests of the text rooms.
namespace pome::text {

struct Walked {
  std::string taken = {};  // the text of the tokens that were allowed, up to the first that was not
  bool whole = false;      // all were
  bool may_end = false;    // then EOS may follow, or nothing
  bool complete = false;   // nothing may
};

inline bool may_come(sampling::Constraint& constraint, Token token, int32_t vocabulary) {
  std::vector<uint32_t> words(sampling::mask_words(vocabulary));
  const Status status = constraint.allow(words);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return (words[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
}

// Feeds a text, control tokens in it included.
inline Walked walk(const Tokenizer& tokenizer, sampling::Constraint& constraint,
                   std::string_view text) {
  Walked walked;
  const int32_t vocabulary = tokenizer.vocab_tokens();
  const std::vector<Token> tokens = tokenizer.encode(text).value();
  for (const Token token : tokens) {
    if (constraint.complete() || !may_come(constraint, token, vocabulary)) {
      return walked;
    }
    const Status accepted = constraint.accept(token);
    EXPECT_TRUE(accepted.ok()) << accepted.error().message;
    walked.taken +=
        tokenizer.is_special(token) ? *tokenizer.piece(token) : tokenizer.piece_bytes(token).bytes;
  }
  walked.whole = true;
  walked.complete = constraint.complete();
  walked.may_end = walked.complete || may_come(constraint, *tokenizer.eos(), vocabulary);
  return walked;
}

// A small vocabulary of byte-level BPE with its compiler.
class Walker {
 public:
  explicit Walker(const std::string& family = "qwen2")
      : tokenizer_(golden::from_json(golden::tokenizer_golden(family))), compiler_(tokenizer_) {}

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const GrammarCompiler& compiler() const { return compiler_; }

  Result<CompiledGrammar> compile(const GrammarSource& source) const {
    const std::vector<Token> eos = {*tokenizer_.eos()};
    return compiler_.compile(source, eos, "field");
  }
  std::unique_ptr<sampling::Constraint> begin(const GrammarSource& source) const {
    Result<CompiledGrammar> compiled = compile(source);
    EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().message);
    return compiled->grammar.begin().value();
  }
  Walked walk(const GrammarSource& source, std::string_view text) const {
    return text::walk(tokenizer_, *begin(source), text);
  }
  // The whole text, after which the output may end.
  bool accepts(const GrammarSource& source, std::string_view text) const {
    const Walked walked = walk(source, text);
    return walked.whole && walked.may_end;
  }

 private:
  Tokenizer tokenizer_;
  GrammarCompiler compiler_;
};

}  // namespace pome::text
