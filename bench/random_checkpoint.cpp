#include "random_checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/json.h"
#include "tensor/mlx.h"

namespace pome::bench {
namespace {

namespace fs = std::filesystem;

struct Shape {
  const char* name;
  int32_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
};

// qwen3 models with tied embeddings.
constexpr Shape kShapes[] = {
    {"qwen3-0.6b", 1024, 28, 16, 8, 128, 3072, 151936},
    {"qwen3-tiny", 128, 2, 4, 2, 32, 256, 1024},
};

json::object config_of(const Shape& s) {
  return {{"model_type", "qwen3"},
          {"hidden_size", s.hidden},
          {"num_hidden_layers", s.layers},
          {"num_attention_heads", s.heads},
          {"num_key_value_heads", s.kv_heads},
          {"head_dim", s.head_dim},
          {"intermediate_size", s.intermediate},
          {"vocab_size", s.vocab},
          {"max_position_embeddings", 40960},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", true},
          {"eos_token_id", s.vocab - 1}};
}

using Tensors = std::unordered_map<std::string, mx::array>;

class Filler {
 public:
  mx::array matrix(int32_t rows, int32_t columns) const {
    const int64_t count = int64_t{rows} * columns;
    const auto copies = static_cast<int>((count + kBlock - 1) / kBlock);
    const mx::array flat =
        mx::slice(mx::tile(block_, {copies}), mx::Shape{0}, mx::Shape{static_cast<int32_t>(count)});
    return mx::contiguous(mx::reshape(flat, {rows, columns}));
  }

 private:
  // One block of noise, repeated: products do not care, and it is quick. An odd size, so that rows
  // differ.
  static constexpr int64_t kBlock = 999'983;
  mx::array block_ = mx::astype(
      mx::random::normal({kBlock}, mx::float32, 0.0f, 0.03f, mx::random::key(1)), mx::bfloat16);
};

Tensors tensors_of(const Shape& s) {
  const Filler filler;
  Tensors out;
  const auto norm = [&](const std::string& name, int32_t size) {
    out.emplace(name + ".weight", mx::ones({size}, mx::bfloat16));
  };
  const auto matrix = [&](const std::string& name, int32_t rows, int32_t columns) {
    out.emplace(name + ".weight", filler.matrix(rows, columns));
  };
  matrix("model.embed_tokens", s.vocab, s.hidden);
  norm("model.norm", s.hidden);
  for (int32_t layer = 0; layer < s.layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    norm(at + "input_layernorm", s.hidden);
    norm(at + "post_attention_layernorm", s.hidden);
    norm(at + "self_attn.q_norm", s.head_dim);
    norm(at + "self_attn.k_norm", s.head_dim);
    matrix(at + "self_attn.q_proj", s.heads * s.head_dim, s.hidden);
    matrix(at + "self_attn.k_proj", s.kv_heads * s.head_dim, s.hidden);
    matrix(at + "self_attn.v_proj", s.kv_heads * s.head_dim, s.hidden);
    matrix(at + "self_attn.o_proj", s.hidden, s.heads * s.head_dim);
    matrix(at + "mlp.gate_proj", s.intermediate, s.hidden);
    matrix(at + "mlp.up_proj", s.intermediate, s.hidden);
    matrix(at + "mlp.down_proj", s.hidden, s.intermediate);
  }
  return out;
}

}  // namespace

std::vector<std::string> RandomCheckpoint::shapes() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) {
    names.emplace_back(shape.name);
  }
  return names;
}

Result<std::unique_ptr<RandomCheckpoint>> RandomCheckpoint::make(const std::string& name) {
  const auto* shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const Shape& s) { return name == s.name; });
  if (shape == std::end(kShapes)) {
    return invalid(fmt::format("unknown shape \"{}\"; known: {}", name, fmt::join(shapes(), ", ")));
  }
  std::string pattern = (fs::temp_directory_path() / "pome-shape-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return invalid(fmt::format("cannot make a folder in {}", fs::temp_directory_path().string()));
  }
  std::unique_ptr<RandomCheckpoint> made(new RandomCheckpoint(pattern));
  try {
    std::ofstream(made->folder() / "config.json") << to_string(json::value(config_of(*shape)));
    mx::save_safetensors((made->folder() / "model.safetensors").string(), tensors_of(*shape));
  } catch (const std::exception& error) {
    return Error{ErrorCode::internal, fmt::format("[{}] {}", pattern, error.what()), {}};
  }
  mx::clear_cache();
  return made;
}

RandomCheckpoint::~RandomCheckpoint() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace pome::bench
