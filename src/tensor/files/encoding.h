#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pome::tensor {

// How the bytes of a tensor in a file stand for numbers. Block formats are GGUF's, with GGUF's
// names.
enum class Encoding {
  f32,
  f16,
  bf16,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  boolean,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
};

std::string_view encoding_name(Encoding encoding);
// Weights in one block, and the bytes that a block takes; 1 and the item size for plain numbers.
int32_t block_weights(Encoding encoding);
int32_t block_bytes(Encoding encoding);
// True for f32, f16 and bf16.
bool is_floating(Encoding encoding);
// True for GGUF's block formats.
bool is_block(Encoding encoding);

// Safetensors' dtype string ("BF16"), or nothing where pome does not read it.
std::optional<Encoding> encoding_from_safetensors(std::string_view dtype);
// GGUF's tensor type number, or nothing where pome does not read it.
std::optional<Encoding> encoding_from_gguf(uint32_t type);
// The name of any GGUF tensor type, also of those that pome does not read ("IQ2_XXS"), or "type
// 99".
std::string gguf_type_name(uint32_t type);
// "F32, F16, …": what the two formats may hold, for error messages.
std::string_view supported_safetensors_types();
std::string_view supported_gguf_types();

// Bytes of a tensor whose last dimension is stored in whole blocks; nothing when a dimension is
// negative, a row is not a whole number of blocks, or the product overflows.
std::optional<uint64_t> tensor_bytes(Encoding encoding, const std::vector<int64_t>& shape);

// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace pome::tensor
