#include "kvpool/kv_pool.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/backend.h"
#include "kvpool/page_memory.h"

namespace pome::kvpool {
namespace {

int64_t array_bytes(const kvcache::CacheSpec& spec, const kvcache::CacheGroup& group, int32_t pages,
                    const kvcache::KvFormat& format) {
  return int64_t{pages} * spec.page_tokens * group.kv_heads * format.head_bytes(group.head_dim);
}

mx::Dtype dtype_of(const kvcache::KvFormat& format) {
  switch (format.element) {
    case kvcache::KvElement::float16:
      return mx::float16;
    case kvcache::KvElement::bfloat16:
      return mx::bfloat16;
    case kvcache::KvElement::float32:
      return mx::float32;
    case kvcache::KvElement::int8:
    case kvcache::KvElement::int4:
      break;
  }
  return mx::uint8;
}

// One half of a layer.
mx::Shape shape_of(const kvcache::CacheSpec& spec, const kvcache::CacheGroup& group, int32_t pages,
                   const kvcache::KvFormat& format) {
  const int64_t bytes = format.head_bytes(group.head_dim);
  const auto last = format.coded() ? static_cast<int32_t>(bytes) : group.head_dim;
  return {pages, spec.page_tokens, group.kv_heads, last};
}

std::optional<kernels::CodedHeads> coding_of(const kvcache::CacheGroup& group,
                                             const kvcache::KvFormat& format) {
  return format.coded() ? std::optional(kernels::CodedHeads{group.head_dim, format}) : std::nullopt;
}

void check_options(const kvcache::CacheSpec& spec, const KvPoolOptions& options) {
  CHECK(spec.page_tokens > 0, "a page holds at least one token");
  CHECK(options.group_pages.size() == spec.groups.size(), "one page count for each cache group");
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    const kvcache::CacheGroup& group = spec.groups[g];
    CHECK(group.kind == kvcache::GroupKind::full || group.kind == kvcache::GroupKind::window,
          "this pool holds keys and values of full and window groups");
    CHECK(group.kv_heads > 0 && group.head_dim > 0, "a cache group without heads");
    CHECK(options.group_pages[g] >= 2, "a cache group needs the sink and one page");
  }
}

}  // namespace

KvPool::KvPool(const kvcache::CacheSpec& spec, const KvPoolOptions& options)
    : spec_(spec), options_(options) {
  check_options(spec, options);
  int32_t layer_count = 0;
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    const kvcache::CacheGroup& group = spec.groups[g];
    const int64_t bytes = array_bytes(spec, group, options.group_pages[g], options.format);
    bytes_reserved_ += 2 * PageMemory::room(bytes) * static_cast<int64_t>(group.layers.size());
    for (int32_t layer : group.layers) {
      layer_count = std::max(layer_count, layer + 1);
    }
  }
  PageMemory memory(bytes_reserved_);
  layers_.resize(static_cast<size_t>(layer_count));
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    const kvcache::CacheGroup& group = spec.groups[g];
    const mx::Shape shape = shape_of(spec, group, options.group_pages[g], options.format);
    const std::optional<kernels::CodedHeads> coded = coding_of(group, options.format);
    for (int32_t layer : group.layers) {
      CHECK(!layers_[static_cast<size_t>(layer)], "a layer belongs to one cache group");
      mx::array k = memory.cut(shape, dtype_of(options.format));
      mx::array v = memory.cut(shape, dtype_of(options.format));
      layers_[static_cast<size_t>(layer)] =
          LayerPages{static_cast<int32_t>(g), {std::move(k), std::move(v), coded}};
    }
  }
}

void KvPool::append(int32_t layer, const mx::array& k, const mx::array& v, const mx::array& slots) {
  const kernels::KvPages next = kernels::paged_append(at(layer).pages, k, v, slots);
  layers_[static_cast<size_t>(layer)]->pages = next;
}

mx::array KvPool::rope_append(int32_t layer, const mx::array& qkv, const mx::array& rope_positions,
                              const mx::array& slots, const kernels::RopeOptions& rope,
                              const std::optional<kernels::HeadNorms>& norms) {
  const kernels::RopedQuery roped =
      kernels::rope_append(qkv, rope_positions, at(layer).pages, slots, rope, norms);
  layers_[static_cast<size_t>(layer)]->pages = roped.pages;
  return roped.q;
}

void KvPool::copy_pages(const std::vector<kvcache::PageCopy>& copies) {
  for (size_t g = 0; g < spec_.groups.size(); ++g) {
    std::vector<int32_t> from;
    std::vector<int32_t> to;
    for (const kvcache::PageCopy& copy : copies) {
      if (static_cast<size_t>(copy.group) == g) {
        from.push_back(static_cast<int32_t>(copy.from));
        to.push_back(static_cast<int32_t>(copy.to));
      }
    }
    if (from.empty()) {
      continue;
    }
    const mx::Shape shape = {static_cast<int32_t>(from.size())};
    const mx::array sources(from.data(), shape, mx::int32);
    const mx::array targets(to.data(), shape, mx::int32);
    for (const int32_t layer : spec_.groups[g].layers) {
      const kernels::KvPages next = kernels::copy_pages(at(layer).pages, sources, targets);
      layers_[static_cast<size_t>(layer)]->pages = next;
    }
  }
}

mx::array KvPool::attention(int32_t layer, const mx::array& q, const kernels::PagedRows& rows,
                            const kernels::AttentionOptions& options) const {
  return kernels::paged_attention(q, at(layer).pages, rows, options);
}

bool KvPool::appends_in_place(const kvcache::CacheSpec& spec, const kvcache::KvFormat& format) {
  return std::all_of(spec.groups.begin(), spec.groups.end(), [&](const auto& group) {
    if (group.kind == kvcache::GroupKind::state) {
      return true;
    }
    const mx::array half = mx::zeros(shape_of(spec, group, 1, format), dtype_of(format));
    return kernels::appends_in_place({half, half, coding_of(group, format)});
  });
}

int64_t KvPool::attention_bytes_max(const kvcache::CacheSpec& spec, int64_t rows, int64_t tokens) {
  if (kernels::own_cpu_kernels()) {
    return 0;
  }
  int64_t bytes = 0;
  for (const kvcache::CacheGroup& group : spec.groups) {
    if (group.kind != kvcache::GroupKind::state) {
      bytes = std::max(bytes, kernels::reference::attention_bytes_max(rows, tokens, group.kv_heads,
                                                                      group.head_dim));
    }
  }
  return bytes;
}

int32_t KvPool::group_of(int32_t layer) const {
  return at(layer).group;
}

std::vector<mx::array> KvPool::handles() const {
  std::vector<mx::array> arrays;
  for (const std::optional<LayerPages>& layer : layers_) {
    if (layer) {
      arrays.push_back(layer->pages.k);
      arrays.push_back(layer->pages.v);
    }
  }
  return arrays;
}

const mx::array& KvPool::k_pages(int32_t layer) const {
  return at(layer).pages.k;
}

const mx::array& KvPool::v_pages(int32_t layer) const {
  return at(layer).pages.v;
}

int64_t KvPool::bytes_reserved() const {
  return bytes_reserved_;
}

const kvcache::CacheSpec& KvPool::spec() const {
  return spec_;
}

int32_t KvPool::pages(int32_t group) const {
  CHECK(group >= 0 && static_cast<size_t>(group) < options_.group_pages.size(),
        "no such cache group");
  return options_.group_pages[static_cast<size_t>(group)];
}

const KvPool::LayerPages& KvPool::at(int32_t layer) const {
  CHECK(layer >= 0 && static_cast<size_t>(layer) < layers_.size() &&
            layers_[static_cast<size_t>(layer)],
        "the pool has no such layer");
  return *layers_[static_cast<size_t>(layer)];
}

}  // namespace pome::kvpool
