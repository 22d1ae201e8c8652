#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kvcache/cache_spec.h"
#include "kvcache/kv_format.h"
#include "layers/forward.h"
#include "tensor/mlx.h"

namespace pome::models {

// What the rest of the program must know about a loaded language model. Constant once loaded.
struct LanguageModelInfo {
  std::string architecture;       // the Hugging Face model_type: "llama", "qwen3", …
  std::string format;             // as a person would say it: "GGUF Q4_1", "safetensors BF16"
  int32_t vocab_tokens = 0;       // V, the width of the logits
  int32_t context_tokens = 0;     // the longest sequence that the model was trained for
  int32_t hidden_size = 0;        // H
  int32_t intermediate_size = 0;  // the widest activation inside a layer, for the memory plan
  std::vector<Token>
      eos_tokens;            // generation_config.json, else config.json, else the GGUF metadata
  int64_t weight_bytes = 0;  // of the tensors as they lie in the file
};

struct StepOutput {
  mx::array logits;  // [O, V] float32, one row for each of Forward::output_tokens
  mx::array hidden;  // [O, H] after the final norm: what drafts and embeddings read
};

// A decoder that turns a ragged step into logits. Const in use: all state of a step is in Forward
// and its pool. Built and called on the engine's thread; nothing is evaluated here, the caller
// evaluates once (the logits together with KvPool::handles()).
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual const LanguageModelInfo& info() const = 0;
  // One entry of `groups` for each kind of cache that the model keeps, with pages of `page_tokens`
  // tokens whose heads are stored in `format`. Forward::groups has the same order.
  virtual kvcache::CacheSpec cache_spec(int32_t page_tokens,
                                        const kvcache::KvFormat& format) const = 0;
  // Appends the step's keys and values to Forward::pool and attends through it. A step with no
  // outputs still has to be evaluated through the pool's handles.
  virtual StepOutput forward(const layers::Forward& step) const = 0;
};

}  // namespace pome::models
