// Keys and values of a step's tokens into the pages of the KV pool. The same text is compiled by
// Metal, checked by clang with address spaces, and run as C++ by append_metal_test.cpp.
#include <metal_stdlib>
using namespace metal;

// The stand-in for Metal's library has its own: no other compiler takes these attributes.
#ifndef GROUP_MEMORY
#define GROUP_MEMORY(index) [[threadgroup(index)]]
#define INSTANTIATE(name, ...) \
  template [[host_name(name)]] [[kernel]] decltype(__VA_ARGS__) __VA_ARGS__;
#endif

struct AppendShape {
  int tokens;
  int heads;
  int dim;
  int slots;       // of the pool; a token whose slot lies outside is skipped
  int head_bytes;  // of coded heads
  int group_size;
};

constant constexpr int kHeadThreads = 256;  // the largest head
constant constexpr float kHalfMax = 65504.0f;
constant constexpr float kHalfStep = 1.0f / 2048;  // half the distance of two halves, relative
constant constexpr float kSmallestHalf = 1.0f / 33554432;  // half the smallest half
constant constexpr ulong kRotationSigns = 0x9e64b3a51c7de08bUL;  // rotation.h has the same

template <typename T>
[[kernel]] void append_floats(device const float* k [[buffer(0)]],
                              device const float* v [[buffer(1)]],
                              device const int* slots [[buffer(2)]],
                              device T* k_pages [[buffer(3)]], device T* v_pages [[buffer(4)]],
                              constant AppendShape& shape [[buffer(5)]],
                              uint3 group [[threadgroup_position_in_grid]],
                              uint3 thread_in_group [[thread_position_in_threadgroup]]) {
  const int elements = shape.heads * shape.dim;
  const int column = int(group.x) * kHeadThreads + int(thread_in_group.x);
  const int slot = slots[group.y];
  if (column >= elements || slot < 0 || slot >= shape.slots) {
    return;
  }
  const size_t from = size_t(group.y) * size_t(elements) + size_t(column);
  const size_t to = size_t(slot) * size_t(elements) + size_t(column);
  k_pages[to] = T(k[from]);
  v_pages[to] = T(v[from]);
}

// The largest power of two of columns, 64 at most, that still fits: rotation.h.
inline int rotated_columns(int left) {
  int columns = 64;
  while (columns > left) {
    columns /= 2;
  }
  return columns;
}

// One head's columns, one a thread, in `x`: signs, Walsh-Hadamard, scale, block by block.
inline void rotate_head(threadgroup float* x, int column, int dim) {
  int first = 0;
  int columns = rotated_columns(dim);
  while (first + columns <= column && first + columns < dim) {
    first += columns;
    columns = rotated_columns(dim - first);
  }
  const int place = column - first;
  const bool inside = column < dim;
  if (inside && (kRotationSigns >> place & 1) != 0) {
    x[column] = -x[column];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int step = 1; step < 64; step *= 2) {
    float turned = 0.0f;
    const bool turns = inside && step < columns;
    if (turns) {
      const float other = x[first + (place ^ step)];
      turned = (place & step) != 0 ? other - x[column] : x[column] + other;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (turns) {
      x[column] = turned;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (inside) {
    x[column] *= columns >= 32 ? 0.125f : 0.25f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

// A head of one token: group.x is the head, group.y the token, group.z 0 for keys and 1 for values.
template <int kBits>
[[kernel]] void append_coded(device const float* k [[buffer(0)]],
                             device const float* v [[buffer(1)]],
                             device const int* slots [[buffer(2)]],
                             device uchar* k_pages [[buffer(3)]],
                             device uchar* v_pages [[buffer(4)]],
                             constant AppendShape& shape [[buffer(5)]],
                             threadgroup float* x GROUP_MEMORY(0),
                             threadgroup uchar* codes GROUP_MEMORY(1),
                             uint3 group [[threadgroup_position_in_grid]],
                             uint3 thread_in_group [[thread_position_in_threadgroup]]) {
  const int slot = slots[group.y];
  if (slot < 0 || slot >= shape.slots) {
    return;  // the whole group
  }
  const int column = int(thread_in_group.x);
  const bool inside = column < shape.dim;
  const size_t head = size_t(group.y) * size_t(shape.heads) + group.x;
  if (inside) {
    const size_t at = head * size_t(shape.dim) + size_t(column);
    x[column] = group.z == 0 ? k[at] : v[at];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (group.z == 0) {
    rotate_head(x, column, shape.dim);
  }
  const float levels = float((1 << kBits) - 1);
  const int first = column / shape.group_size * shape.group_size;
  const int last = min(first + shape.group_size, shape.dim);
  half scale = half(0.0f);
  half bias = half(0.0f);
  if (inside) {
    float low = x[first];
    float high = x[first];
    bool finite = true;
    for (int c = first; c < last; ++c) {
      low = min(low, x[c]);
      high = max(high, x[c]);
      finite = finite && isfinite(x[c]);
    }
    low = clamp(low, -kHalfMax, kHalfMax);
    high = clamp(high, -kHalfMax, kHalfMax);
    const float below = max(low - (abs(low) * kHalfStep + kSmallestHalf), -kHalfMax);
    bias = half(finite ? below : NAN);
    const float step = finite ? (high - float(bias)) / levels : 0.0f;
    scale = half(step + (step * kHalfStep + kSmallestHalf));
    const float inverse = float(scale) > 0.0f ? 1.0f / float(scale) : 0.0f;
    const float scaled = (x[column] - float(bias)) * inverse;
    codes[column] = finite ? uchar(rint(clamp(scaled, 0.0f, levels))) : uchar(0);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  device uchar* pages = group.z == 0 ? k_pages : v_pages;
  device uchar* row = pages + (size_t(slot) * size_t(shape.heads) + group.x) * size_t(shape.head_bytes);
  const int code_bytes = shape.dim * kBits / 8;
  if (kBits == 8 && inside) {
    row[column] = codes[column];
  }
  if (kBits == 4 && column < code_bytes) {
    row[column] = uchar(codes[2 * column] | (codes[2 * column + 1] << 4));
  }
  if (inside && column == first) {
    device half* factors =
        reinterpret_cast<device half*>(row + code_bytes) + column / shape.group_size * 2;
    factors[0] = scale;
    factors[1] = bias;
  }
}

INSTANTIATE("append_float32", append_floats<float>)
INSTANTIATE("append_float16", append_floats<half>)
INSTANTIATE("append_bfloat16", append_floats<bfloat>)
INSTANTIATE("append_int8", append_coded<8>)
INSTANTIATE("append_int4", append_coded<4>)
