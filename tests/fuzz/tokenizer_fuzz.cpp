// rooms: base text/tokenizer text/stream
// The first byte chooses: a tokenizer.json, GGUF metadata as JSON, or vocab.json, merges.txt,
// tokenizer_config.json and perhaps added_tokens.json with zeros between them. What loads must
// encode, decode and stream.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "text/stream/text_stream.h"
#include "text/tokenizer/tokenizer.h"

namespace {

void use(const pome::text::Tokenizer& tokenizer) {
  for (const bool parse : {true, false}) {
    const auto ids =
        tokenizer.encode("ab  <s>\n\xE6\x97\xA5 12", {.add_special = true, .parse_special = parse});
    if (!ids) {
      continue;
    }
    pome::text::TextStream stream(tokenizer, {.stops = {"b "}});
    stream.push(*ids);
    stream.finish();
    (void)tokenizer.decode(*ids);
  }
}

void load_gguf(std::string_view text) {
  const auto parsed = pome::parse_json(text);
  if (!parsed || !parsed->is_object()) {
    return;
  }
  if (const auto vocabulary = pome::text::read_gguf_vocabulary(parsed->get_object())) {
    if (const auto made = pome::text::Tokenizer::from_gguf(*vocabulary)) {
      use(*made);
    }
  }
}

void load_bpe_files(std::string_view text) {
  const size_t first = text.find('\0');
  const size_t second = text.find('\0', first == std::string_view::npos ? first : first + 1);
  if (second == std::string_view::npos) {
    return;
  }
  const size_t third = text.find('\0', second + 1);
  const auto config = pome::parse_json(text.substr(second + 1, third - second - 1));
  if (!config || !config->is_object()) {
    return;
  }
  const std::string_view vocab = text.substr(0, first);
  const std::string_view merges = text.substr(first + 1, second - first - 1);
  const auto added = third == std::string_view::npos ? std::string_view() : text.substr(third + 1);
  if (const auto made =
          pome::text::Tokenizer::from_bpe_files(vocab, merges, config->get_object(), added)) {
    use(*made);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 1) {
    load_gguf(text);
  } else if (data[0] % 3 == 2) {
    load_bpe_files(text);
  } else if (const auto made = pome::text::Tokenizer::from_hf(text, nullptr)) {
    use(*made);
  }
  return 0;
}
