// rooms: base text/tokenizer text/stream
// The first byte chooses: a tokenizer.json, or GGUF metadata as JSON. What loads must encode,
// decode and stream.
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    if (const auto made = pome::text::Tokenizer::from_hf(text, nullptr)) {
      use(*made);
    }
    return 0;
  }
  const auto parsed = pome::parse_json(text);
  if (!parsed || !parsed->is_object()) {
    return 0;
  }
  if (const auto vocabulary = pome::text::read_gguf_vocabulary(parsed->get_object())) {
    if (const auto made = pome::text::Tokenizer::from_gguf(*vocabulary)) {
      use(*made);
    }
  }
  return 0;
}
