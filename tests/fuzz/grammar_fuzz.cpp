// rooms: base text/tokenizer text/grammar text/grammar/calls
// Any text is refused or becomes a grammar, as a schema, an expression, rules or tags; and what a
// grammar allows it takes. The first byte chooses the kind, the second which tokens are said.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/calls/tagged_text.h"
#include "text/grammar/grammar_compiler.h"

namespace {

using pome::Result;
using pome::Token;
using pome::text::GrammarSource;

const pome::text::Tokenizer& tokenizer() {
  static const pome::text::Tokenizer made = [] {
    std::ifstream file(POME_SOURCE_DIR "/tests/golden/tokenizer/qwen2.json");
    std::ostringstream text;
    text << file.rdbuf();
    const pome::json::object golden = pome::parse_json(text.str()).value().as_object();
    return pome::text::Tokenizer::from_hf(pome::to_string(golden.at("tokenizer_json")),
                                          &golden.at("tokenizer_config").as_object())
        .value();
  }();
  return made;
}

Result<GrammarSource> source_of(uint8_t kind, std::string_view text) {
  if (kind % 4 == 0) {
    return pome::text::regex_source(text, "regex");
  }
  if (kind % 4 == 1) {
    return pome::text::ebnf_source(text, "ebnf");
  }
  Result<pome::json::value> value = pome::parse_json(text);
  if (!value) {
    return value.error();
  }
  if (kind % 4 == 2 || !value->is_object()) {
    return pome::text::json_schema_source(*value, "json_schema");
  }
  return pome::text::structural_tag_source(tokenizer(), value->get_object(), "structural_tag");
}

// Says up to `steps` tokens that are allowed.
void say(pome::sampling::Constraint& constraint, uint32_t seed, int steps) {
  std::vector<uint32_t> words(pome::sampling::mask_words(tokenizer().vocab_tokens()));
  for (int step = 0; step < steps && !constraint.complete(); ++step) {
    if (!constraint.allow(words)) {
      return;  // too much work for one step, or nothing may come
    }
    std::vector<Token> allowed;
    for (Token token = 0; token < tokenizer().vocab_tokens(); ++token) {
      if ((words[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0) {
        allowed.push_back(token);
      }
    }
    seed = seed * 1664525U + 1013904223U;
    if (allowed.empty()) {
      std::abort();
    }
    if (!constraint.accept(allowed[seed % allowed.size()])) {
      return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  static const pome::text::GrammarCompiler compiler(tokenizer());
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Result<GrammarSource> source = source_of(data[0], text);
  if (!source) {
    return 0;
  }
  const std::vector<Token> eos = {*tokenizer().eos()};
  const auto compiled = compiler.compile(*source, eos, "field");
  if (!compiled) {
    if (compiled.error().code != pome::ErrorCode::invalid_argument ||
        compiled.error().message.empty()) {
      std::abort();
    }
    return 0;
  }
  say(*compiled->grammar.begin().value(), data[1], 24);
  return 0;
}
