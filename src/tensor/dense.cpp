#include "tensor/dense.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace pome::tensor {
namespace {

// What MLX's CPU allocator keeps before an array's data: the buffer's size.
constexpr size_t kBufferHeadBytes = sizeof(size_t);

bool measure_aliasing() {
  if (mx::metal::is_available() || mx::is_available(mx::Device(mx::Device::gpu))) {
    return false;
  }
  for (size_t size : {size_t{100}, size_t{1000}}) {
    mx::allocator::Data data = mx::allocator::malloc(size);
    mx::allocator::Buffer buffer = data.buffer();
    const auto* head = static_cast<const std::byte*>(buffer.ptr());
    size_t stored = 0;
    if (static_cast<const std::byte*>(buffer.raw_ptr()) != head + kBufferHeadBytes) {
      return false;
    }
    std::memcpy(&stored, head, sizeof stored);
    if (stored != size) {
      return false;
    }
  }
  return true;
}

mx::Shape narrow(const std::vector<int64_t>& shape) {
  mx::Shape out;
  for (int64_t extent : shape) {
    out.push_back(static_cast<int32_t>(extent));
  }
  return out;
}

// Reads `count` floating-point values as f32.
void read_floats(Encoding encoding, const std::byte* from, size_t count, float* to) {
  if (encoding == Encoding::f32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  CHECK(is_floating(encoding), "only floating-point tensors are converted");
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    to[i] = encoding == Encoding::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
}

void write_floats(const float* from, size_t count, mx::Dtype dtype, std::byte* to) {
  if (dtype == mx::float32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  CHECK(dtype == mx::float16 || dtype == mx::bfloat16, "expected a floating-point dtype");
  for (size_t i = 0; i < count; ++i) {
    const uint16_t bits = dtype == mx::float16 ? f32_to_f16(from[i]) : f32_to_bf16(from[i]);
    std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
  }
}

mx::array alias(const FileTensor& tensor, mx::Dtype dtype) {
  auto* head = const_cast<std::byte*>(tensor.bytes.data()) - kBufferHeadBytes;
  auto release = [file = tensor.file](mx::allocator::Buffer) {};
  return mx::array(mx::allocator::Data(mx::allocator::Buffer(head), release), narrow(tensor.shape),
                   dtype);
}

bool can_alias(const FileTensor& tensor, size_t item_bytes) {
  return can_alias_files() && !tensor.bytes.empty() &&
         reinterpret_cast<uintptr_t>(tensor.bytes.data()) % item_bytes == 0 &&
         tensor.bytes.data() >= tensor.file->bytes().data() + kBufferHeadBytes;
}

// One row at a time, so that the f32 intermediate stays in the cache.
void copy_rows(const FileTensor& tensor, const DenseOptions& options, std::byte* out) {
  const auto rows = tensor.shape.empty() ? size_t{1} : static_cast<size_t>(tensor.shape.front());
  const size_t row_bytes = rows == 0 ? 0 : tensor.bytes.size() / rows;
  const auto item = static_cast<size_t>(block_bytes(tensor.encoding));
  const size_t columns = row_bytes / item;
  const bool convert = options.dtype != dtype_of(tensor.encoding) || options.offset != 0.0f;
  const size_t out_row_bytes = columns * options.dtype.size();
  std::vector<float> values(convert ? columns : 0);
  for (size_t row = 0; row < rows; ++row) {
    const size_t source = options.row_order ? static_cast<size_t>((*options.row_order)[row]) : row;
    const std::byte* from = tensor.bytes.data() + source * row_bytes;
    if (!convert) {
      std::memcpy(out + row * out_row_bytes, from, row_bytes);
      continue;
    }
    read_floats(tensor.encoding, from, columns, values.data());
    if (options.offset != 0.0f) {
      for (float& value : values) {
        value += options.offset;
      }
    }
    write_floats(values.data(), columns, options.dtype, out + row * out_row_bytes);
  }
}

}  // namespace

mx::Dtype dtype_of(Encoding encoding) {
  switch (encoding) {
    case Encoding::f32:
      return mx::float32;
    case Encoding::f16:
      return mx::float16;
    case Encoding::bf16:
      return mx::bfloat16;
    case Encoding::i8:
      return mx::int8;
    case Encoding::u8:
      return mx::uint8;
    case Encoding::i16:
      return mx::int16;
    case Encoding::u16:
      return mx::uint16;
    case Encoding::i32:
      return mx::int32;
    case Encoding::u32:
      return mx::uint32;
    case Encoding::i64:
      return mx::int64;
    case Encoding::u64:
      return mx::uint64;
    case Encoding::boolean:
      return mx::bool_;
    default:
      CHECK(false, "a block encoding has no dtype");
  }
}

bool can_alias_files() {
  static const bool kCan = measure_aliasing();
  return kCan;
}

mx::array dense_array(const FileTensor& tensor, const DenseOptions& options) {
  const bool as_stored =
      options.dtype == dtype_of(tensor.encoding) && options.offset == 0.0f && !options.row_order;
  if (as_stored && can_alias(tensor, options.dtype.size())) {
    return alias(tensor, options.dtype);
  }
  const mx::Shape shape = narrow(tensor.shape);
  const size_t values = tensor.bytes.size() / static_cast<size_t>(block_bytes(tensor.encoding));
  mx::allocator::Data data = mx::allocator::malloc(values * options.dtype.size());
  copy_rows(tensor, options, static_cast<std::byte*>(data.buffer().raw_ptr()));
  tensor.file->drop(tensor.bytes);
  return mx::array(std::move(data), shape, options.dtype);
}

float f16_to_f32(uint16_t bits) {
  // Shifting exponent and mantissa into place and scaling by 2^112 is exact for subnormals too.
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u);
  }
  if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
    return static_cast<uint16_t>(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 puts the rounded multiple of 2^-24 into the low mantissa bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace pome::tensor
