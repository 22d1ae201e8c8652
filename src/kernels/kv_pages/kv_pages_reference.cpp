#include <algorithm>
#include <vector>

#include "kernels/kv_pages/kv_pages.h"

namespace pome::kernels::reference {
namespace {

constexpr float kHalfMax = 65504.0f;
constexpr float kStep = 0x1p-11f;
constexpr float kSmallest = 0x1p-25f;

mx::array last_axis(const mx::array& a, int begin, int end) {
  mx::Shape start(a.ndim(), 0);
  mx::Shape stop = a.shape();
  start.back() = begin;
  stop.back() = end;
  return mx::slice(a, start, stop);
}

mx::array with_last_axis(const mx::array& a, const mx::Shape& last) {
  mx::Shape shape(a.shape().begin(), a.shape().end() - 1);
  shape.insert(shape.end(), last.begin(), last.end());
  return mx::reshape(a, shape);
}

struct Encoded {
  mx::array codes;    // [.., n, g] f32
  mx::array factors;  // [.., n, 2] f16: scale and bias
};

// Groups [.., n, g].
Encoded encode_groups(const mx::array& x, float levels) {
  const mx::array finite = mx::equal(mx::sum(x * mx::array(0.0f), -1, true), mx::array(0.0f));
  const mx::array bound(kHalfMax);
  const mx::array low = mx::clip(mx::min(x, -1, true), mx::array(-kHalfMax), bound);
  const mx::array high = mx::clip(mx::max(x, -1, true), mx::array(-kHalfMax), bound);
  const mx::array below = mx::maximum(
      low - (mx::abs(low) * mx::array(kStep) + mx::array(kSmallest)), mx::array(-kHalfMax));
  const mx::array nan(std::numeric_limits<float>::quiet_NaN());
  const mx::array bias = mx::astype(mx::where(finite, below, nan), mx::float16);
  const mx::array wide_bias = mx::astype(bias, mx::float32);
  const mx::array step = mx::where(finite, (high - wide_bias) / mx::array(levels), mx::array(0.0f));
  const mx::array scale =
      mx::astype(step + (step * mx::array(kStep) + mx::array(kSmallest)), mx::float16);
  const mx::array wide_scale = mx::astype(scale, mx::float32);
  const mx::array inverse =
      mx::where(wide_scale > mx::array(0.0f), mx::array(1.0f) / wide_scale, mx::array(0.0f));
  const mx::array scaled = (x - wide_bias) * inverse;
  const mx::array bounded =
      mx::round(mx::minimum(mx::maximum(scaled, mx::array(0.0f)), mx::array(levels)));
  return {mx::where(finite, bounded, mx::array(0.0f)), mx::concatenate({scale, bias}, -1)};
}

mx::array decode_groups(const mx::array& codes, const mx::array& factors) {
  const mx::array wide = mx::astype(factors, mx::float32);
  return codes * last_axis(wide, 0, 1) + last_axis(wide, 1, 2);
}

// Whole groups of a head, and the columns of the last, shorter one.
struct Groups {
  int whole = 0;
  int size = 0;
  int rest = 0;
  explicit Groups(const CodedHeads& coded)
      : whole(coded.dim / coded.format.group_size),
        size(coded.format.group_size),
        rest(coded.dim % coded.format.group_size) {}
  int columns() const { return whole * size; }
};

// One block of columns [.., n].
mx::array rotate_block(const mx::array& x, Rotated what) {
  const int columns = x.shape(-1);
  std::vector<float> signs;
  for (int c = 0; c < columns; ++c) {
    signs.push_back(rotation_negates(c) ? -1.0f : 1.0f);
  }
  mx::array block = x * mx::array(signs.begin(), {columns}, mx::float32);
  for (int step = 1; step < columns; step *= 2) {
    const mx::array pairs = with_last_axis(block, {columns / (2 * step), 2 * step});
    const mx::array a = last_axis(pairs, 0, step);
    const mx::array b = last_axis(pairs, step, 2 * step);
    block = mx::flatten(mx::concatenate({a + b, a - b}, -1), -2, -1);
  }
  return block * mx::array(rotation_scale(columns, what));
}

mx::array append(const mx::array& half, const mx::array& values, const mx::array& slots,
                 const std::optional<CodedHeads>& coded) {
  const mx::Shape flat{half.shape(0) * half.shape(1), half.shape(2), half.shape(3)};
  const mx::array rows = coded ? encode_heads(values, *coded) : mx::astype(values, half.dtype());
  return mx::reshape(mx::scatter(mx::reshape(half, flat), slots, mx::expand_dims(rows, 1), 0),
                     half.shape());
}

}  // namespace

mx::array encode_heads(const mx::array& values, const CodedHeads& coded) {
  const Groups groups(coded);
  const bool wide = coded.format.element == kvcache::KvElement::int8;
  std::vector<mx::array> codes;
  std::vector<mx::array> factors;
  const auto add = [&](int begin, int end, int size) {
    const Encoded part = encode_groups(with_last_axis(last_axis(values, begin, end), {-1, size}),
                                       wide ? 255.0f : 15.0f);
    codes.push_back(mx::flatten(part.codes, -2, -1));
    factors.push_back(mx::flatten(part.factors, -2, -1));
  };
  if (groups.whole > 0) {
    add(0, groups.columns(), groups.size);
  }
  if (groups.rest > 0) {
    add(groups.columns(), coded.dim, groups.rest);
  }
  mx::array bytes = mx::concatenate(codes, -1);
  if (!wide) {
    const mx::array pairs = with_last_axis(bytes, {coded.dim / 2, 2});
    bytes = mx::squeeze(last_axis(pairs, 0, 1) + last_axis(pairs, 1, 2) * mx::array(16.0f), -1);
  }
  const mx::array halves = mx::contiguous(mx::concatenate(factors, -1));
  return mx::concatenate({mx::astype(bytes, mx::uint8), mx::view(halves, mx::uint8)}, -1);
}

mx::array decode_heads(const mx::array& rows, const CodedHeads& coded) {
  const Groups groups(coded);
  const auto code_bytes = static_cast<int>(coded.format.code_bytes(coded.dim));
  mx::array codes = last_axis(rows, 0, code_bytes);
  if (coded.format.element == kvcache::KvElement::int4) {
    const mx::array pairs = mx::expand_dims(codes, -1);
    codes = mx::flatten(mx::concatenate({mx::bitwise_and(pairs, mx::array(15, mx::uint8)),
                                         mx::right_shift(pairs, mx::array(4, mx::uint8))},
                                        -1),
                        -2, -1);
  }
  codes = mx::astype(codes, mx::float32);
  const mx::array halves =
      mx::view(mx::contiguous(last_axis(rows, code_bytes, rows.shape(-1))), mx::float16);
  std::vector<mx::array> parts;
  if (groups.whole > 0) {
    const mx::array whole =
        decode_groups(with_last_axis(last_axis(codes, 0, groups.columns()), {-1, groups.size}),
                      with_last_axis(last_axis(halves, 0, 2 * groups.whole), {-1, 2}));
    parts.push_back(mx::flatten(whole, -2, -1));
  }
  if (groups.rest > 0) {
    parts.push_back(decode_groups(last_axis(codes, groups.columns(), coded.dim),
                                  last_axis(halves, 2 * groups.whole, 2 * groups.whole + 2)));
  }
  return mx::concatenate(parts, -1);
}

mx::array rotate_heads(const mx::array& values, Rotated what) {
  const int dim = values.shape(-1);
  std::vector<mx::array> blocks;
  for (int begin = 0; begin < dim;) {
    const int columns = rotated_block(dim - begin);
    blocks.push_back(rotate_block(last_axis(values, begin, begin + columns), what));
    begin += columns;
  }
  return mx::concatenate(blocks, -1);
}

KvPages paged_append(const KvPages& pages, const mx::array& k, const mx::array& v,
                     const mx::array& slots) {
  const mx::array keys = pages.coded ? rotate_heads(k, Rotated::key) : k;
  return {append(pages.k, keys, slots, pages.coded), append(pages.v, v, slots, pages.coded),
          pages.coded};
}

KvPages copy_pages(const KvPages& pages, const mx::array& from, const mx::array& to) {
  const mx::array none(0);
  const mx::array count(pages.pages());
  const auto known = [&](const mx::array& page) {
    return mx::logical_and(mx::greater_equal(page, none), mx::less(page, count));
  };
  // The sink is copied to itself where a page is outside the pool.
  const mx::array both = mx::logical_and(known(from), known(to));
  const mx::array source = mx::where(both, from, none);
  const mx::array target = mx::where(both, to, none);
  const auto copied = [&](const mx::array& half) {
    const mx::array rows = mx::expand_dims(mx::take(half, source, 0), 1);
    return mx::scatter(half, target, rows, 0);
  };
  return {copied(pages.k), copied(pages.v), pages.coded};
}

}  // namespace pome::kernels::reference
