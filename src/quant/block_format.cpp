#include "quant/block_format.h"

#include <cstring>

#include "base/check.h"
#include "tensor/dense.h"

// Layouts of the blocks: ggml's documented structs. In the 256-weight types a block is a
// super-block of 8 or 16 groups whose small integer scales multiply the block's f16 scales.
namespace pome::quant {
namespace {

using tensor::Encoding;

struct Block {
  const uint8_t* bytes;
  uint8_t* codes;
  float* scales;
  float* biases;

  float f16_at(size_t offset) const {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes + offset, sizeof bits);
    return tensor::f16_to_f32(bits);
  }
};

// Eight bytes at a time; files are little-endian, and so are the machines that pome runs on.
uint64_t load8(const uint8_t* from) {
  uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}
void store8(uint64_t word, uint8_t* to) {
  std::memcpy(to, &word, sizeof word);
}

// The same byte eight times.
constexpr uint64_t each(uint8_t byte) {
  return 0x0101010101010101u * byte;
}

// `half` bytes of two 4-bit codes: the low halves are the first weights, the high ones the next.
void split_nibbles(const uint8_t* packed, int half, uint8_t* codes) {
  for (int i = 0; i < half; i += 8) {
    const uint64_t word = load8(packed + i);
    store8(word & each(15), codes + i);
    store8((word >> 4) & each(15), codes + half + i);
  }
}

// Bit i of a byte as byte i of a word.
uint64_t spread_bits(uint8_t bits) {
  const uint64_t one_a_byte = (each(1) * bits) & 0x8040201008040201u;
  return ((one_a_byte + 0x00406070787c7e7fu) >> 7) & each(1);
}

void add_fifth_bits(const uint8_t* packed, uint8_t* codes) {
  for (int i = 0; i < 4; ++i) {
    store8(load8(codes + i * 8) | spread_bits(packed[i]) << 4, codes + i * 8);
  }
}

void decode_q4_0(const Block& b) {
  b.scales[0] = b.f16_at(0);
  b.biases[0] = -8.0f * b.scales[0];
  split_nibbles(b.bytes + 2, 16, b.codes);
}

void decode_q4_1(const Block& b) {
  b.scales[0] = b.f16_at(0);
  b.biases[0] = b.f16_at(2);
  split_nibbles(b.bytes + 4, 16, b.codes);
}

void decode_q5_0(const Block& b) {
  b.scales[0] = b.f16_at(0);
  b.biases[0] = -16.0f * b.scales[0];
  split_nibbles(b.bytes + 6, 16, b.codes);
  add_fifth_bits(b.bytes + 2, b.codes);
}

void decode_q5_1(const Block& b) {
  b.scales[0] = b.f16_at(0);
  b.biases[0] = b.f16_at(2);
  split_nibbles(b.bytes + 8, 16, b.codes);
  add_fifth_bits(b.bytes + 4, b.codes);
}

void decode_q8_0(const Block& b) {
  b.scales[0] = b.f16_at(0);
  b.biases[0] = -128.0f * b.scales[0];
  for (int i = 0; i < 32; i += 8) {
    store8(load8(b.bytes + 2 + i) ^ each(0x80), b.codes + i);  // int8 + 128
  }
}

// scales [16], codes [64], d, dmin
void decode_q2_k(const Block& b) {
  const float d = b.f16_at(80);
  const float dmin = b.f16_at(82);
  for (int group = 0; group < 16; ++group) {
    const uint8_t scale = b.bytes[group];
    b.scales[group] = d * static_cast<float>(scale & 15u);
    b.biases[group] = -(dmin * static_cast<float>(scale >> 4));
    const uint8_t* packed = b.bytes + 16 + group / 8 * 32 + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    for (int i = 0; i < 16; i += 8) {
      store8((load8(packed + i) >> shift) & each(3), b.codes + group * 16 + i);
    }
  }
}

// high bits [32], low bits [64], scales [12] (low four bits of 16 in 8 bytes, then the high two in
// 4), d
void decode_q3_k(const Block& b) {
  const float d = b.f16_at(108);
  const uint8_t* packed_scales = b.bytes + 96;
  for (int group = 0; group < 16; ++group) {
    const int low = (packed_scales[group % 8] >> (group / 8 * 4)) & 15;
    const int high = (packed_scales[8 + group % 4] >> (group / 4 * 2)) & 3;
    b.scales[group] = d * static_cast<float>((low | high << 4) - 32);
    b.biases[group] = -4.0f * b.scales[group];
    const uint8_t* high_bits = b.bytes + group % 2 * 16;
    const uint8_t* packed = b.bytes + 32 + group / 8 * 32 + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    const int high_shift = group / 2;
    for (int i = 0; i < 16; ++i) {
      b.codes[group * 16 + i] = static_cast<uint8_t>(((packed[i] >> shift) & 3u) |
                                                     (((high_bits[i] >> high_shift) & 1u) << 2));
    }
  }
}

// The eight 6-bit scales and minima of Q4_K and Q5_K in 12 bytes.
void decode_k4_scales(const Block& b) {
  const float d = b.f16_at(0);
  const float dmin = b.f16_at(2);
  const uint8_t* packed = b.bytes + 4;
  for (int group = 0; group < 8; ++group) {
    int scale = 0;
    int min = 0;
    if (group < 4) {
      scale = packed[group] & 63;
      min = packed[group + 4] & 63;
    } else {
      scale = (packed[group + 4] & 15) | (packed[group - 4] >> 6 << 4);
      min = (packed[group + 4] >> 4) | (packed[group] >> 6 << 4);
    }
    b.scales[group] = d * static_cast<float>(scale);
    b.biases[group] = -(dmin * static_cast<float>(min));
  }
}

// d, dmin, scales [12], codes [128]
void decode_q4_k(const Block& b) {
  decode_k4_scales(b);
  for (int pair = 0; pair < 4; ++pair) {
    split_nibbles(b.bytes + 16 + pair * 32, 32, b.codes + pair * 64);
  }
}

// d, dmin, scales [12], fifth bits [32], codes [128]
void decode_q5_k(const Block& b) {
  decode_k4_scales(b);
  for (int pair = 0; pair < 4; ++pair) {
    split_nibbles(b.bytes + 48 + pair * 32, 32, b.codes + pair * 64);
  }
  for (int group = 0; group < 8; ++group) {
    uint8_t* codes = b.codes + group * 32;
    for (int i = 0; i < 32; i += 8) {
      const uint64_t fifth = (load8(b.bytes + 16 + i) >> group) & each(1);
      store8(load8(codes + i) | fifth << 4, codes + i);
    }
  }
}

// low bits [128], high bits [64], scales [16] int8, d
void decode_q6_k(const Block& b) {
  const float d = b.f16_at(208);
  for (int group = 0; group < 16; ++group) {
    b.scales[group] = d * static_cast<float>(static_cast<int8_t>(b.bytes[192 + group]));
    b.biases[group] = -32.0f * b.scales[group];
    const int half = group / 8;     // 128 weights each
    const int run = group % 8 / 2;  // 32 weights each
    const uint8_t* low = b.bytes + half * 64 + run % 2 * 32 + group % 2 * 16;
    const uint8_t* high = b.bytes + 128 + half * 32 + group % 2 * 16;
    const int low_shift = run / 2 * 4;
    const int high_shift = run * 2;
    for (int i = 0; i < 16; i += 8) {
      const uint64_t low4 = (load8(low + i) >> low_shift) & each(15);
      const uint64_t high2 = (load8(high + i) >> high_shift) & each(3);
      store8(low4 | high2 << 4, b.codes + group * 16 + i);
    }
  }
}

struct FormatRow {
  Encoding encoding;
  BlockForm form;
  void (*decode)(const Block&);
};

constexpr FormatRow kFormats[] = {
    {Encoding::q4_0, {4, 32, 8}, decode_q4_0},
    {Encoding::q4_1, {4, 32, std::nullopt}, decode_q4_1},
    {Encoding::q5_0, {5, 32, 16}, decode_q5_0},
    {Encoding::q5_1, {5, 32, std::nullopt}, decode_q5_1},
    {Encoding::q8_0, {8, 32, 128}, decode_q8_0},
    {Encoding::q2_k, {2, 16, std::nullopt}, decode_q2_k},
    {Encoding::q3_k, {3, 16, 4}, decode_q3_k},
    {Encoding::q4_k, {4, 32, std::nullopt}, decode_q4_k},
    {Encoding::q5_k, {5, 32, std::nullopt}, decode_q5_k},
    {Encoding::q6_k, {6, 16, 32}, decode_q6_k},
};

const FormatRow& format_of(Encoding encoding) {
  for (const FormatRow& row : kFormats) {
    if (row.encoding == encoding) {
      return row;
    }
  }
  CHECK(false, "expected a block encoding");
}

}  // namespace

BlockForm block_form(Encoding encoding) {
  return format_of(encoding).form;
}

void decode_row(Encoding encoding, std::span<const std::byte> row, std::span<uint8_t> codes,
                std::span<float> scales, std::span<float> biases) {
  const FormatRow& format = format_of(encoding);
  const auto weights = static_cast<size_t>(tensor::block_weights(encoding));
  const auto bytes = static_cast<size_t>(tensor::block_bytes(encoding));
  const size_t groups = weights / static_cast<size_t>(format.form.group_size);
  const size_t blocks = row.size() / bytes;
  CHECK(blocks * weights == codes.size() && blocks * bytes == row.size(), "a row of whole blocks");
  CHECK(scales.size() == blocks * groups && biases.size() == scales.size(), "one pair a group");
  const auto* from = reinterpret_cast<const uint8_t*>(row.data());
  for (size_t block = 0; block < blocks; ++block) {
    format.decode({from + block * bytes, codes.data() + block * weights,
                   scales.data() + block * groups, biases.data() + block * groups});
  }
}

}  // namespace pome::quant
