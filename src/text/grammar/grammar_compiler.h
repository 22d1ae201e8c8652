#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sampling/constraint.h"
#include "text/grammar/grammar_source.h"
#include "text/tokenizer/tokenizer.h"

namespace pome::text {

// A grammar that outputs in one tokenizer's tokens are held to. Immutable, any thread; copies
// share.
class Grammar {
 public:
  // What one output may say, from its beginning on.
  Result<std::unique_ptr<sampling::Constraint>> begin() const;

 private:
  friend class GrammarCompiler;
  struct Handle;
  explicit Grammar(std::shared_ptr<const Handle> handle) : handle_(std::move(handle)) {}
  std::shared_ptr<const Handle> handle_;
};

struct CompiledGrammar {
  Grammar grammar;
  bool was_known = false;  // and cost nothing
  double seconds = 0.0;
};

// Compiles for one tokenizer, and remembers what was compiled last. Any thread; not the network's
// or the engine's, since the first grammar of all costs tenths of a second and any may cost some.
class GrammarCompiler {
 public:
  // The tokenizer is read when the first grammar comes.
  explicit GrammarCompiler(Tokenizer tokenizer);
  ~GrammarCompiler();

  // `eos`, the same at every call, end an output where the grammar lets it end. What the compiler
  // does not support is refused, naming `field`.
  Result<CompiledGrammar> compile(const GrammarSource& source, std::span<const Token> eos,
                                  std::string_view field) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pome::text
