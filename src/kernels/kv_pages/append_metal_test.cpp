// append.metal compiled and run as C++: one thread of the machine for each thread of a group.
#include <gtest/gtest.h>

#include <barrier>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/kernel_testing.h"
#include "kernels/kv_pages/append_on_metal.h"
#include "kernels/kv_pages/kv_pages.h"
#include "kernels/metal/launch.h"

// The attributes of Metal mean nothing here.
#pragma GCC diagnostic ignored "-Wattributes"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include <metal_stdlib>

namespace {
std::barrier<>* group_barrier = nullptr;
}
void threadgroup_barrier(mem_flags) {
  group_barrier->arrive_and_wait();
}

namespace as_metal {
#include "kernels/kv_pages/append.metal"
}  // namespace as_metal

namespace pome::kernels {
namespace {

using kvcache::KvElement;
using testing::array_of;
using testing::int_array;
using testing::normal_floats;
using testing::same_bits;
using testing::values_of;

constexpr int kTokens = 5;
constexpr int kHeads = 3;
constexpr int kPages = 3;
constexpr int kPageTokens = 4;

struct Step {
  int dim;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<int32_t> slots{11, 0, 12, 6, -1};  // the third and the last lie outside

  explicit Step(int head) : dim(head) {
    k = normal_floats(static_cast<size_t>(kTokens) * kHeads * dim, 1);
    v = normal_floats(k.size(), 2);
    k[3] = 100.0f;
    v[1] = std::nanf("");
    std::fill_n(v.begin() + dim, dim, 0.25f);
    std::fill_n(k.begin() + dim, dim, 0.0f);
  }
  // Without the tokens that are skipped, for the twin.
  KvPages expected(const KvPages& pages) const {
    const auto inside = [&](const std::vector<float>& all) {
      const auto token = static_cast<std::ptrdiff_t>(kHeads) * dim;
      std::vector<float> some(all.begin(), all.begin() + 2 * token);
      some.insert(some.end(), all.begin() + 3 * token, all.begin() + 4 * token);
      return array_of(some, {3, kHeads, dim});
    };
    return reference::paged_append(pages, inside(k), inside(v), int_array({11, 0, 6}, {3}));
  }
};

// Runs body(group, thread) for every thread of every group.
template <typename Body>
void run_groups(uint groups_x, uint groups_y, uint groups_z, uint threads, Body body) {
  std::barrier<> together(threads);
  group_barrier = &together;
  std::vector<std::jthread> workers;
  for (uint thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      for (uint z = 0; z < groups_z; ++z) {
        for (uint y = 0; y < groups_y; ++y) {
          for (uint x = 0; x < groups_x; ++x) {
            body(uint3{x, y, z}, uint3{thread, 0, 0});
            together.arrive_and_wait();
          }
        }
      }
    });
  }
}

template <typename Stored>
void check_floats(mx::Dtype dtype, int dim) {
  const Step step(dim);
  const mx::Shape shape{kPages, kPageTokens, kHeads, dim};
  const KvPages twin = step.expected({mx::zeros(shape, dtype), mx::zeros(shape, dtype)});
  const size_t size = size_t{kPages} * kPageTokens * kHeads * dim;
  std::vector<Stored> k(size, Stored(0.0f));
  std::vector<Stored> v(size, Stored(0.0f));
  const as_metal::AppendShape sizes{kTokens, kHeads, dim, kPages * kPageTokens, 0, 0};
  run_groups((kHeads * dim + 255) / 256, kTokens, 1, 256, [&](uint3 group, uint3 thread) {
    as_metal::append_floats<Stored>(step.k.data(), step.v.data(), step.slots.data(), k.data(),
                                    v.data(), sizes, group, thread);
  });
  const auto bytes = [](const void* from, size_t count) {
    const auto* start = static_cast<const uint8_t*>(from);
    return std::vector<uint8_t>(start, start + count);
  };
  const size_t count = size * sizeof(Stored);
  const auto twin_bytes = [&](const mx::array& half) {
    return values_of<uint8_t>(mx::view(half, mx::uint8));
  };
  EXPECT_TRUE(same_bits(bytes(k.data(), count), twin_bytes(twin.k))) << dim;
  // A NaN's payload is anybody's.
  const std::vector<float> expected = values_of(mx::astype(twin.v, mx::float32));
  for (size_t i = 0; i < size; ++i) {
    const auto got = static_cast<float>(v[i]);
    EXPECT_TRUE(got == expected[i] || (std::isnan(got) && std::isnan(expected[i]))) << i;
  }
}

static_assert(as_metal::kRotationSigns == kRotationSigns);

TEST(AppendMetal, WritesTheTwinsFloats) {
  for (const int dim : {8, 64, 80, 256}) {
    check_floats<float>(mx::float32, dim);
    check_floats<half>(mx::float16, dim);
    check_floats<bfloat>(mx::bfloat16, dim);
  }
}

template <int kBits>
void check_coded(int dim, int group_size) {
  const CodedHeads coded{
      dim, {.element = kBits == 8 ? KvElement::int8 : KvElement::int4, .group_size = group_size}};
  const auto head_bytes = static_cast<int>(coded.format.head_bytes(dim));
  const mx::Shape shape{kPages, kPageTokens, kHeads, head_bytes};
  const Step step(dim);
  const KvPages twin =
      step.expected({mx::zeros(shape, mx::uint8), mx::zeros(shape, mx::uint8), coded});
  std::vector<uchar> k(static_cast<size_t>(kPages) * kPageTokens * kHeads * head_bytes, 0);
  std::vector<uchar> v = k;
  const as_metal::AppendShape sizes{kTokens,    kHeads,    dim, kPages * kPageTokens,
                                    head_bytes, group_size};
  std::vector<float> x(dim);
  std::vector<uchar> codes(dim);
  run_groups(kHeads, kTokens, 2, static_cast<uint>(dim), [&](uint3 group, uint3 thread) {
    as_metal::append_coded<kBits>(step.k.data(), step.v.data(), step.slots.data(), k.data(),
                                  v.data(), sizes, x.data(), codes.data(), group, thread);
  });
  EXPECT_TRUE(same_bits(k, values_of<uint8_t>(twin.k))) << dim << " in " << group_size;
  // A NaN's payload is anybody's: what is read back counts.
  const auto read = [&](const std::vector<uchar>& bytes) {
    return values_of(reference::decode_heads(mx::array(bytes.begin(), shape, mx::uint8), coded));
  };
  const std::vector<float> expected = values_of(reference::decode_heads(twin.v, coded));
  const std::vector<float> got = read(v);
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) << i;
  }
}

TEST(AppendMetal, CodesHeadsToTheTwinsBytes) {
  for (const auto& [dim, group_size] :
       {std::pair{8, 64}, {24, 64}, {64, 64}, {64, 32}, {80, 32}, {96, 64}, {128, 128}}) {
    check_coded<8>(dim, group_size);
    check_coded<4>(dim, group_size);
  }
}

// Pools of every kind that the trial meets.
std::vector<KvPages> kinds() {
  std::vector<KvPages> pools;
  for (const mx::Dtype dtype : {mx::float32, mx::float16, mx::bfloat16}) {
    const mx::array half = mx::zeros({1, 16, 1, 80}, dtype);
    pools.push_back({half, half});
  }
  for (const auto element : {KvElement::int8, KvElement::int4}) {
    const CodedHeads coded{80, {.element = element, .group_size = 32}};
    const auto bytes = static_cast<int>(coded.format.head_bytes(80));
    const mx::array half = mx::zeros({1, 16, 1, bytes}, mx::uint8);
    pools.push_back({half, half, coded});
  }
  return pools;
}

TEST(AppendTrial, FindsNoFaultInAnAppendThatAliases) {
  for (const KvPages& like : kinds()) {
    EXPECT_EQ(append_fault(like, paged_append), "");
  }
}

TEST(AppendTrial, SeesACopy) {
  for (const KvPages& like : kinds()) {
    EXPECT_EQ(append_fault(like, reference::paged_append), "copies the pool");
  }
}

TEST(AppendTrial, SeesOtherBytes) {
  for (const KvPages& like : kinds()) {
    // Keys and values exchanged; a slot that is off by one; and a second step that is lost.
    EXPECT_EQ(
        append_fault(like, [](const KvPages& pages, const mx::array& k, const mx::array& v,
                              const mx::array& slots) { return paged_append(pages, v, k, slots); }),
        "writes other bytes than plain operations");
    EXPECT_EQ(append_fault(like,
                           [](const KvPages& pages, const mx::array& k, const mx::array& v,
                              const mx::array& slots) {
                             return paged_append(pages, k, v, slots - mx::array(1));
                           }),
              "writes other bytes than plain operations");
    EXPECT_EQ(append_fault(like,
                           [](const KvPages& pages, const mx::array& k, const mx::array& v,
                              const mx::array& slots) {
                             return k.shape(0) == 2 ? pages : paged_append(pages, k, v, slots);
                           }),
              "writes other bytes than plain operations");
  }
}

TEST(AppendTrial, SaysWhatWasThrown) {
  EXPECT_EQ(append_fault(kinds().front(),
                         [](const KvPages&, const mx::array&, const mx::array&,
                            const mx::array&) -> KvPages {
                           throw std::runtime_error("[metal::Device] no such kernel");
                         }),
            "throws ([metal::Device] no such kernel)");
}

TEST(AppendMetal, IsTakenWhereThereIsMetalAndNowhereElse) {
  for (const KvPages& like : kinds()) {
    EXPECT_EQ(appends_on_metal(like), metal::available());
  }
}

}  // namespace
}  // namespace pome::kernels
