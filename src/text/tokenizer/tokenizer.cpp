#include "text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "bridge/bridge.h"

namespace pome::text {

struct Tokenizer::State {
  struct Free {
    void operator()(PomeTokenizer* tokenizer) const { pome_tokenizer_free(tokenizer); }
  };
  std::unique_ptr<PomeTokenizer, Free> handle;
  int32_t vocab_tokens = 0;
  std::vector<std::string> special_texts;
  std::optional<Token> bos;
  std::optional<Token> eos;
  std::optional<Token> pad;
  std::optional<Token> unknown;
  bool processor_adds_bos = false;  // the tokenizer's own post-processor does
  bool adds_bos = false;
  bool adds_eos = false;  // beyond what the post-processor adds

  Result<std::vector<Token>> encode(std::string_view text, std::span<const TextSpan> literal,
                                    bool add_special) const;
};

namespace {

// A named token in tokenizer_config.json is a string, or an object with the string as "content".
std::optional<std::string> token_text(const json::object& config, std::string_view key) {
  if (auto text = find_string(config, key)) {
    return text;
  }
  const json::object* token = find_object(config, key);
  return token ? find_string(*token, "content") : std::nullopt;
}

bool begins_with(std::span<const Token> tokens, std::optional<Token> token) {
  return token && !tokens.empty() && tokens.front() == *token;
}

std::vector<PomeText> views(const std::vector<std::string>& texts) {
  std::vector<PomeText> out;
  out.reserve(texts.size());
  for (const std::string& text : texts) {
    out.push_back(bridge::text(text));
  }
  return out;
}

int32_t flag(std::optional<bool> value) {
  return value ? (*value ? 1 : 0) : -1;
}

}  // namespace

Result<std::vector<Token>> Tokenizer::State::encode(std::string_view text,
                                                    std::span<const TextSpan> literal,
                                                    bool add_special) const {
  std::vector<PomeSpan> spans;
  spans.reserve(literal.size());
  for (const TextSpan& span : literal) {
    spans.push_back({span.begin, span.end});
  }
  bridge::Tokens ids;
  bridge::Buffer error;
  const int32_t code =
      pome_tokenizer_encode(handle.get(), bridge::text(text), spans.data(), spans.size(),
                            add_special ? 1 : 0, ids.out(), error.out());
  POME_TRY(bridge::status(code, error, "tokenizer"));
  return std::vector<Token>(ids.ids().begin(), ids.ids().end());
}

// What follows from the tokenizer itself, however it was made.
Result<Tokenizer> Tokenizer::finish(std::shared_ptr<State> state) {
  state->vocab_tokens = static_cast<int32_t>(pome_tokenizer_vocab_tokens(state->handle.get()));
  bridge::Tokens specials;
  bridge::Buffer error;
  POME_TRY(bridge::status(
      pome_tokenizer_special_tokens(state->handle.get(), specials.out(), error.out()), error,
      "tokenizer"));
  const Tokenizer made(state);
  for (const Token token : specials.ids()) {
    if (auto text = made.piece(token)) {
      state->special_texts.push_back(std::move(*text));
    }
  }
  auto empty = state->encode("", {}, true);
  if (!empty) {
    return empty.error();
  }
  state->processor_adds_bos = begins_with(*empty, state->bos);
  return made;
}

Result<Tokenizer> Tokenizer::from_hf(std::string_view tokenizer_json,
                                     const json::object* tokenizer_config) {
  auto state = std::make_shared<State>();
  PomeTokenizer* handle = nullptr;
  bridge::Buffer error;
  const int32_t code = pome_tokenizer_from_json(bridge::text(tokenizer_json), &handle, error.out());
  POME_TRY(bridge::status(code, error, "tokenizer.json"));
  state->handle.reset(handle);
  return finish_hf(std::move(state), tokenizer_config ? *tokenizer_config : json::object());
}

Result<Tokenizer> Tokenizer::from_bpe_files(std::string_view vocab_json, std::string_view merges,
                                            const json::object& tokenizer_config,
                                            std::string_view added_tokens_json) {
  auto state = std::make_shared<State>();
  PomeTokenizer* handle = nullptr;
  bridge::Buffer error;
  const std::string config = to_string(tokenizer_config);
  const int32_t code = pome_tokenizer_from_bpe_files(
      bridge::text(vocab_json), bridge::text(merges), bridge::text(config),
      bridge::text(added_tokens_json), &handle, error.out());
  POME_TRY(bridge::status(code, error, "tokenizer"));
  state->handle.reset(handle);
  return finish_hf(std::move(state), tokenizer_config);
}

// BOS and its like, which Hugging Face's files name in tokenizer_config.json.
Result<Tokenizer> Tokenizer::finish_hf(std::shared_ptr<State> state, const json::object& config) {
  const auto named = [&](std::string_view key) -> std::optional<Token> {
    const auto text = token_text(config, key);
    return text ? Tokenizer(state).token_id(*text) : std::nullopt;
  };
  state->bos = named("bos_token");
  state->eos = named("eos_token");
  state->pad = named("pad_token");
  state->unknown = named("unk_token");
  auto made = finish(state);
  if (!made) {
    return made;
  }
  // Where the configuration speaks of BOS and EOS it outranks the post-processor, as in the
  // reference.
  state->adds_bos =
      find_bool(config, "add_bos_token").value_or(state->processor_adds_bos) && state->bos;
  state->adds_eos = find_bool(config, "add_eos_token").value_or(false) && state->eos;
  return made;
}

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) {
  auto state = std::make_shared<State>();
  const auto tokens = views(vocabulary.tokens);
  const auto merges = views(vocabulary.merges);
  const PomeGgufVocabulary raw = {
      .model = bridge::text(vocabulary.model),
      .pre = bridge::text(vocabulary.pre),
      .tokens = tokens.data(),
      .token_count = tokens.size(),
      .scores = vocabulary.scores.data(),
      .score_count = vocabulary.scores.size(),
      .types = vocabulary.token_types.data(),
      .type_count = vocabulary.token_types.size(),
      .merges = merges.data(),
      .merge_count = merges.size(),
      .bos = vocabulary.bos.value_or(-1),
      .eos = vocabulary.eos.value_or(-1),
      .unknown = vocabulary.unknown.value_or(-1),
      .add_bos = flag(vocabulary.add_bos),
      .add_eos = flag(vocabulary.add_eos),
      .add_space_prefix = flag(vocabulary.add_space_prefix),
  };
  PomeTokenizer* handle = nullptr;
  bridge::Buffer error;
  POME_TRY(bridge::status(pome_tokenizer_from_gguf(&raw, &handle, error.out()), error,
                          "GGUF tokenizer"));
  state->handle.reset(handle);
  state->bos = vocabulary.bos;
  state->eos = vocabulary.eos;
  state->pad = vocabulary.pad;
  state->unknown = vocabulary.unknown;
  auto made = finish(state);
  state->adds_bos = state->processor_adds_bos;
  return made;
}

Result<std::vector<Token>> Tokenizer::encode(std::string_view text,
                                             const EncodeOptions& options) const {
  const State& state = *state_;
  const TextSpan whole = {0, text.size()};
  const std::span<const TextSpan> literal =
      options.parse_special ? options.literal : std::span<const TextSpan>(&whole, 1);
  const bool processor = options.add_special && !(state.processor_adds_bos && !state.adds_bos);
  auto encoded = state.encode(text, literal, processor);
  if (!encoded || !options.add_special) {
    return encoded;
  }
  std::vector<Token>& ids = *encoded;
  if (state.adds_bos && !begins_with(ids, state.bos)) {
    ids.insert(ids.begin(), *state.bos);
  } else if (ids.size() >= 2 && begins_with(ids, state.bos) && ids[1] == *state.bos) {
    ids.erase(ids.begin());  // the text wrote its own
  }
  if (state.adds_eos && (ids.empty() || ids.back() != *state.eos)) {
    ids.push_back(*state.eos);
  }
  return encoded;
}

std::string Tokenizer::decode(std::span<const Token> tokens, const DecodeOptions& options) const {
  bridge::Buffer out;
  bridge::Buffer error;
  const int32_t code = pome_tokenizer_decode(
      state_->handle.get(), tokens.data(), tokens.size(), options.skip_special ? 1 : 0,
      options.continues_text ? 1 : 0, out.out(), error.out());
  CHECK(code == POME_OK, error.text());
  return std::string(out.text());
}

int32_t Tokenizer::vocab_tokens() const {
  return state_->vocab_tokens;
}

std::optional<Token> Tokenizer::token_id(std::string_view piece) const {
  const Token token = pome_tokenizer_token_id(state_->handle.get(), bridge::text(piece));
  return token >= 0 ? std::optional(token) : std::nullopt;
}

std::optional<std::string> Tokenizer::piece(Token token) const {
  bridge::Buffer out;
  if (pome_tokenizer_piece(state_->handle.get(), token, out.out(), nullptr) != POME_OK) {
    return std::nullopt;
  }
  return std::string(out.text());
}

PieceBytes Tokenizer::piece_bytes(Token token) const {
  std::array<uint8_t, 256> scratch;
  PieceBytes piece;
  int32_t kind = POME_PIECE_NONE;
  const PomeTokenizer* handle = state_->handle.get();
  const size_t bytes =
      pome_tokenizer_piece_bytes(handle, token, scratch.data(), scratch.size(), &kind);
  if (bytes <= scratch.size()) {
    piece.bytes.assign(reinterpret_cast<const char*>(scratch.data()), bytes);
  } else {
    piece.bytes.resize(bytes);
    pome_tokenizer_piece_bytes(handle, token, reinterpret_cast<uint8_t*>(piece.bytes.data()), bytes,
                               &kind);
  }
  switch (kind) {
    case POME_PIECE_TEXT:
      piece.kind = PieceBytes::Kind::text;
      break;
    case POME_PIECE_BYTE_FALLBACK:
      piece.kind = PieceBytes::Kind::byte_fallback;
      break;
    default:
      piece.kind = PieceBytes::Kind::none;
  }
  return piece;
}

bool Tokenizer::is_special(Token token) const {
  return pome_tokenizer_is_special(state_->handle.get(), token) != 0;
}

const std::vector<std::string>& Tokenizer::special_texts() const {
  return state_->special_texts;
}
std::optional<Token> Tokenizer::bos() const {
  return state_->bos;
}
std::optional<Token> Tokenizer::eos() const {
  return state_->eos;
}
std::optional<Token> Tokenizer::pad() const {
  return state_->pad;
}
std::optional<Token> Tokenizer::unknown() const {
  return state_->unknown;
}
bool Tokenizer::adds_bos() const {
  return state_->adds_bos;
}

size_t Tokenizer::stripped_spaces() const {
  return pome_tokenizer_strip_start(state_->handle.get());
}

const PomeTokenizer* Tokenizer::handle() const {
  return state_->handle.get();
}

}  // namespace pome::text
