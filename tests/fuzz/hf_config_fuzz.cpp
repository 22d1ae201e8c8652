// rooms: base tensor/files tensor/checkpoint
// Any config.json is refused, or read with errors that are LoadErrors; the same for GGUF metadata.
#include <cstdint>
#include <string_view>

#include "tensor/checkpoint/hf_config.h"
#include "tensor/checkpoint/load_error.h"
#include "tensor/files/test_files.h"

namespace {

using pome::tensor::Checkpoint;
using pome::tensor::HfConfig;

template <typename Getter>
void attempt(Getter getter) {
  try {
    (void)getter();
  } catch (const pome::tensor::LoadError&) {
  }
}

void read(const Checkpoint& checkpoint) {
  const HfConfig config(checkpoint);
  for (std::string_view key : {"hidden_size", "num_hidden_layers", "head_dim", "vocab_size"}) {
    attempt([&] { return config.get_int(key); });
  }
  attempt([&] { return config.get_float("rms_norm_eps"); });
  attempt([&] { return config.get_bool_or("tie_word_embeddings", true); });
  attempt([&] { return config.get_strings("layer_types"); });
  attempt([&] { return config.get_ints("eos_token_id"); });
  attempt([&] {
    const auto scaling = config.nested("rope_scaling");
    return scaling ? scaling->get_float("factor") : 1.0f;
  });
  (void)pome::tensor::read_generation_defaults(checkpoint);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  static const pome::tensor::test::TempFolder kFolder;
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  const bool gguf = text.substr(0, 4) == "GGUF";
  if (gguf) {
    const auto checkpoint = Checkpoint::open(kFolder.write("gguf/model.gguf", text));
    if (checkpoint) {
      read(*checkpoint);
    }
    return 0;
  }
  kFolder.write("hf/config.json", text);
  kFolder.write("hf/generation_config.json", text);
  kFolder.write("hf/model.safetensors", pome::tensor::test::safetensors_file("{}", ""));
  if (const auto checkpoint = Checkpoint::open(kFolder.path() / "hf")) {
    read(*checkpoint);
  }
  return 0;
}
