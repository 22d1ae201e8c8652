#include "text/grammar/grammar_compiler.h"

#include <fmt/format.h>

#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "bridge/bridge.h"

namespace pome::text {
namespace {

// What is remembered, in grammars and in bytes of their text; who was used longest ago is forgotten
// first.
constexpr size_t kKnownMax = 32;
constexpr size_t kKnownBytesMax = size_t{1} << 20;

struct Free {
  void operator()(PomeGrammars* grammars) const { pome_grammars_free(grammars); }
  void operator()(PomeGrammar* grammar) const { pome_grammar_free(grammar); }
  void operator()(PomeMatcher* matcher) const { pome_matcher_free(matcher); }
};

// A later step may cost too much where earlier ones did not; the request is to blame, not we.
Status step_status(int32_t code, const bridge::Buffer& error) {
  if (code == POME_OK) {
    return {};
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("[grammar] the output cannot go on: {}", error.text()),
               {}};
}

class Matcher final : public sampling::Constraint {
 public:
  explicit Matcher(PomeMatcher* matcher) : matcher_(matcher) {}

  Status allow(std::span<uint32_t> words) override {
    bridge::Buffer error;
    const int32_t code =
        pome_matcher_allowed(matcher_.get(), words.data(), words.size(), error.out());
    return step_status(code, error);
  }

  Status accept(Token token) override {
    bridge::Buffer error;
    const int32_t code = pome_matcher_accept(matcher_.get(), token, &state_, error.out());
    return step_status(code, error);
  }

  bool complete() const override { return state_ == POME_MATCHER_COMPLETE; }

 private:
  std::unique_ptr<PomeMatcher, Free> matcher_;
  int32_t state_ = POME_MATCHER_OPEN;
};

int32_t kind_of(const GrammarSource& source) {
  switch (source.kind) {
    case GrammarSource::Kind::json_schema:
      return POME_GRAMMAR_JSON_SCHEMA;
    case GrammarSource::Kind::regex:
      return POME_GRAMMAR_REGEX;
    case GrammarSource::Kind::lark:
      return POME_GRAMMAR_LARK;
  }
  return POME_GRAMMAR_LARK;
}

}  // namespace

struct Grammar::Handle {
  std::unique_ptr<PomeGrammar, Free> grammar;
};

Result<std::unique_ptr<sampling::Constraint>> Grammar::begin() const {
  PomeMatcher* raw = nullptr;
  bridge::Buffer error;
  POME_TRY(bridge::status(pome_matcher_new(handle_->grammar.get(), &raw, error.out()), error,
                          "grammar"));
  return std::unique_ptr<sampling::Constraint>(std::make_unique<Matcher>(raw));
}

struct GrammarCompiler::State {
  struct Known {
    GrammarSource source;
    Grammar grammar;
  };

  explicit State(Tokenizer made_for) : tokenizer(std::move(made_for)) {}

  // Where there is none yet, it is made while the others wait.
  Result<const PomeGrammars*> grammars_for(std::span<const Token> eos) {
    const std::lock_guard lock(making);
    if (!grammars) {
      bridge::Buffer error;
      PomeGrammars* raw = nullptr;
      POME_TRY(bridge::status(
          pome_grammars_new(tokenizer.handle(), eos.data(), eos.size(), &raw, error.out()), error,
          "grammar"));
      grammars.reset(raw);
    }
    return static_cast<const PomeGrammars*>(grammars.get());
  }

  std::optional<Grammar> find(const GrammarSource& source) {
    const std::lock_guard lock(mutex);
    for (auto at = known.begin(); at != known.end(); ++at) {
      if (at->source == source) {
        known.splice(known.begin(), known, at);
        return at->grammar;
      }
    }
    return std::nullopt;
  }

  void remember(const GrammarSource& source, const Grammar& grammar) {
    const std::lock_guard lock(mutex);
    known.push_front({source, grammar});
    known_bytes += source.text.size();
    while (known.size() > kKnownMax || known_bytes > kKnownBytesMax) {
      known_bytes -= known.back().source.text.size();
      known.pop_back();
    }
  }

  const Tokenizer tokenizer;
  std::mutex making;
  std::unique_ptr<PomeGrammars, Free> grammars;
  std::mutex mutex;  // guards what follows
  std::list<Known> known;
  size_t known_bytes = 0;
};

GrammarCompiler::GrammarCompiler(Tokenizer tokenizer)
    : state_(std::make_unique<State>(std::move(tokenizer))) {}
GrammarCompiler::~GrammarCompiler() = default;

Result<CompiledGrammar> GrammarCompiler::compile(const GrammarSource& source,
                                                 std::span<const Token> eos,
                                                 std::string_view field) const {
  const auto began = std::chrono::steady_clock::now();
  if (std::optional<Grammar> known = state_->find(source)) {
    return CompiledGrammar{.grammar = std::move(*known), .was_known = true};
  }
  Result<const PomeGrammars*> grammars = state_->grammars_for(eos);
  if (!grammars) {
    return grammars.error();
  }
  PomeGrammar* raw = nullptr;
  bridge::Buffer error;
  if (pome_grammar_compile(*grammars, kind_of(source), bridge::text(source.text), &raw,
                           error.out()) != POME_OK) {
    return invalid(fmt::format("'{}' is not supported: {}", field, error.text()),
                   std::string(field));
  }
  auto handle = std::make_shared<Grammar::Handle>();
  handle->grammar.reset(raw);
  const Grammar grammar{std::shared_ptr<const Grammar::Handle>(std::move(handle))};
  state_->remember(source, grammar);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  return CompiledGrammar{.grammar = grammar, .seconds = took.count()};
}

}  // namespace pome::text
