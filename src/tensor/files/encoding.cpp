#include "tensor/files/encoding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/check.h"

namespace pome::tensor {
namespace {

struct EncodingRow {
  Encoding encoding;
  std::string_view name;
  int32_t weights;
  int32_t bytes;
};

// Sizes of the block formats: ggml's documented layouts (scales first or last, then packed codes).
constexpr std::array kEncodings = {
    EncodingRow{Encoding::f32, "F32", 1, 4},       EncodingRow{Encoding::f16, "F16", 1, 2},
    EncodingRow{Encoding::bf16, "BF16", 1, 2},     EncodingRow{Encoding::i8, "I8", 1, 1},
    EncodingRow{Encoding::u8, "U8", 1, 1},         EncodingRow{Encoding::i16, "I16", 1, 2},
    EncodingRow{Encoding::u16, "U16", 1, 2},       EncodingRow{Encoding::i32, "I32", 1, 4},
    EncodingRow{Encoding::u32, "U32", 1, 4},       EncodingRow{Encoding::i64, "I64", 1, 8},
    EncodingRow{Encoding::u64, "U64", 1, 8},       EncodingRow{Encoding::boolean, "BOOL", 1, 1},
    EncodingRow{Encoding::q4_0, "Q4_0", 32, 18},   EncodingRow{Encoding::q4_1, "Q4_1", 32, 20},
    EncodingRow{Encoding::q5_0, "Q5_0", 32, 22},   EncodingRow{Encoding::q5_1, "Q5_1", 32, 24},
    EncodingRow{Encoding::q8_0, "Q8_0", 32, 34},   EncodingRow{Encoding::q2_k, "Q2_K", 256, 84},
    EncodingRow{Encoding::q3_k, "Q3_K", 256, 110}, EncodingRow{Encoding::q4_k, "Q4_K", 256, 144},
    EncodingRow{Encoding::q5_k, "Q5_K", 256, 176}, EncodingRow{Encoding::q6_k, "Q6_K", 256, 210},
};

const EncodingRow& row_of(Encoding encoding) {
  const auto index = static_cast<size_t>(encoding);
  CHECK(index < kEncodings.size(), "encoding out of range");
  CHECK(kEncodings[index].encoding == encoding, "the table is in the enum's order");
  return kEncodings[index];
}

// ggml's type numbers; the empty ones were removed from the format.
constexpr std::array<std::string_view, 41> kGgufTypes = {
    "F32",     "F16",   "Q4_0",   "Q4_1",  "",      "",       "Q5_0", "Q5_1",    "Q8_0",
    "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
    "I64",     "F64",   "IQ1_M",  "BF16",  "",      "",       "",     "TQ1_0",   "TQ2_0",
    "",        "",      "",       "MXFP4", "NVFP4"};

}  // namespace

std::string_view encoding_name(Encoding encoding) {
  return row_of(encoding).name;
}
int32_t block_weights(Encoding encoding) {
  return row_of(encoding).weights;
}
int32_t block_bytes(Encoding encoding) {
  return row_of(encoding).bytes;
}

bool is_floating(Encoding encoding) {
  return encoding == Encoding::f32 || encoding == Encoding::f16 || encoding == Encoding::bf16;
}

bool is_block(Encoding encoding) {
  return block_weights(encoding) > 1;
}

std::optional<Encoding> encoding_from_safetensors(std::string_view dtype) {
  for (const EncodingRow& row : kEncodings) {
    if (row.weights == 1 && row.name == dtype) {
      return row.encoding;
    }
  }
  return std::nullopt;
}

std::optional<Encoding> encoding_from_gguf(uint32_t type) {
  if (type >= kGgufTypes.size() || kGgufTypes[type].empty()) {
    return std::nullopt;
  }
  for (const EncodingRow& row : kEncodings) {
    if (row.name == kGgufTypes[type]) {
      return row.encoding;
    }
  }
  return std::nullopt;
}

std::string gguf_type_name(uint32_t type) {
  if (type < kGgufTypes.size() && !kGgufTypes[type].empty()) {
    return std::string(kGgufTypes[type]);
  }
  return fmt::format("type {}", type);
}

std::string_view supported_safetensors_types() {
  return "F32, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64, BOOL";
}

std::string_view supported_gguf_types() {
  return "F32, F16, BF16, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, "
         "Q6_K";
}

std::optional<uint64_t> tensor_bytes(Encoding encoding, const std::vector<int64_t>& shape) {
  const EncodingRow& row = row_of(encoding);
  uint64_t blocks = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0) {
      return std::nullopt;
    }
    auto extent = static_cast<uint64_t>(shape[axis]);
    if (axis + 1 == shape.size()) {
      if (extent % static_cast<uint64_t>(row.weights) != 0) {
        return std::nullopt;
      }
      extent /= static_cast<uint64_t>(row.weights);
    }
    if (__builtin_mul_overflow(blocks, extent, &blocks)) {
      return std::nullopt;
    }
  }
  if (shape.empty() && row.weights != 1) {
    return std::nullopt;
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, static_cast<uint64_t>(row.bytes), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace pome::tensor
