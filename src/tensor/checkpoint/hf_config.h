#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "tensor/checkpoint/checkpoint.h"

namespace pome::tensor {

// Smallest and largest value that a model accepts for a number of its config.
struct IntRange {
  int64_t least = 1;
  int64_t most = INT32_MAX;
};
struct RealRange {
  double least = 0.0;
  double most = 1e30;
};

// Our (Hugging Face's) key and the GGUF metadata key for it; "{arch}" stands for
// general.architecture.
struct GgufName {
  std::string_view key;
  std::string_view gguf;
};

// A model's configuration under Hugging Face's key names, whatever file it came from. Getters check
// type and range and throw LoadError ("[config] expected ..., got …"); a null counts as absent.
// Keeps a copy of the checkpoint handle.
class HfConfig {
 public:
  // HF folder: config.json; where it nests the language model ("text_config"), keys are looked up
  // there first, and what it leaves out in `defaults`. GGUF: the metadata under `names`, then under
  // the keys that all decoder architectures share (hidden_size is "{arch}.embedding_length" and so
  // on); vocab_size falls back to the number of tokens, head_dim to nothing.
  explicit HfConfig(const Checkpoint& checkpoint, std::vector<GgufName> names = {},
                    json::object defaults = {});

  bool has(std::string_view key) const;
  int32_t get_int(std::string_view key, IntRange range = {}) const;
  int32_t get_int_or(std::string_view key, int32_t fallback, IntRange range = {}) const;
  float get_float(std::string_view key, RealRange range = {}) const;
  float get_float_or(std::string_view key, float fallback, RealRange range = {}) const;
  bool get_bool_or(std::string_view key, bool fallback) const;
  std::string get_string(std::string_view key) const;
  std::string get_string_or(std::string_view key, std::string_view fallback) const;
  std::vector<int32_t> get_ints(std::string_view key, IntRange range = {}) const;
  std::vector<float> get_floats(std::string_view key, RealRange range = {}) const;
  std::vector<std::string> get_strings(std::string_view key) const;
  // An object under `key` ("rope_scaling", "rope_parameters"), with the same getters; nothing where
  // absent or null.
  std::optional<HfConfig> nested(std::string_view key) const;
  // The raw value, or nullptr.
  const json::value* find(std::string_view key) const;

  bool from_gguf() const { return checkpoint_.format() == CheckpointFormat::gguf; }
  std::string model_type() const { return checkpoint_.model_type(); }

 private:
  HfConfig(const HfConfig& outer, const json::object& object, std::string_view key);
  const json::value& require(std::string_view key) const;
  // How messages call a key: "rope_scaling.factor", or "hidden_size (llama.embedding_length)" for
  // GGUF.
  std::string label(std::string_view key) const;
  std::string gguf_key(std::string_view key) const;
  int32_t checked_int(std::string_view key, const json::value& value, IntRange range) const;
  float checked_float(std::string_view key, const json::value& value, RealRange range) const;

  Checkpoint checkpoint_;
  std::vector<GgufName> names_;
  std::shared_ptr<const json::object> defaults_;  // shared, so that copies may point into it
  std::vector<const json::object*> objects_;      // looked up in this order
  std::string prefix_;
};

// What the checkpoint says about generation: where answers end, and its authors' sampling defaults.
struct GenerationDefaults {
  std::vector<Token> eos_token_ids;  // sorted, unique; may be empty
  std::optional<Token> bos_token_id;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<bool> do_sample;
};

// HF: generation_config.json, and config.json for EOS ids that it does not give. GGUF:
// general.sampling.*, the eos, eot and eom ids, and control tokens whose text commonly ends a turn
// ("<|im_end|>", "<end_of_turn>", …). Values of the wrong type or out of range are an Error that
// names the key.
Result<GenerationDefaults> read_generation_defaults(const Checkpoint& checkpoint);

}  // namespace pome::tensor
