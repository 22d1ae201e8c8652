#include "engine/steps/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pome::engine {
namespace {

using kvcache::PageRun;
using scheduler::Row;
using testing::ElementsAre;

std::vector<int32_t> values(mx::array array) {
  array = mx::contiguous(array);
  mx::eval(array);
  return {array.data<int32_t>(), array.data<int32_t>() + array.size()};
}

kvcache::CacheSpec spec_of() {
  kvcache::CacheSpec spec;
  spec.page_tokens = 4;
  spec.groups.resize(1);
  return spec;
}

scheduler::StepPlan mixed_plan() {
  scheduler::StepPlan plan;
  Row decode;
  decode.first_position = 5;
  decode.count = 1;
  decode.input = scheduler::HostTokens{{70}};
  decode.outputs = {{0, scheduler::OutputKind::logits}};
  decode.page_groups = {{0, {PageRun{PageId{9}, 1}, PageRun{PageId{2}, 1}}}};
  Row chunk;
  chunk.first_position = 3;
  chunk.count = 6;
  chunk.input = scheduler::HostTokens{{1, 2, 3, 4, 5, 6}};
  chunk.outputs = {{5, scheduler::OutputKind::logits}};
  chunk.page_groups = {{0, {PageRun{PageId{4}, 3}}}};
  plan.rows = {decode, chunk};
  return plan;
}

TEST(Gather, LaysOutDecodeRowsAndChunksAsOneRaggedBatch) {
  const layers::Forward forward = gather(mixed_plan(), spec_of(), nullptr);
  EXPECT_THAT(values(forward.tokens), ElementsAre(70, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values(forward.positions), ElementsAre(5, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(values(forward.row_offsets), ElementsAre(0, 1, 7));
  EXPECT_THAT(values(forward.kv_lengths), ElementsAre(6, 9));
  EXPECT_THAT(values(forward.output_tokens), ElementsAre(0, 6));
  EXPECT_EQ(forward.rope_positions.shape(), (mx::Shape{1, 7}));
  EXPECT_EQ(forward.row_count, 2);
  EXPECT_EQ(forward.token_count, 7);
  EXPECT_EQ(forward.output_count, 2);
  EXPECT_THAT(forward.row_tokens, ElementsAre(1, 6));
  EXPECT_EQ(forward.kv_length_max, 9);
}

TEST(Gather, PadsPageTablesWithTheSinkAndFindsEachTokensSlot) {
  const layers::Forward forward = gather(mixed_plan(), spec_of(), nullptr);
  ASSERT_EQ(forward.groups.size(), 1U);
  EXPECT_EQ(forward.groups[0].page_table.shape(), (mx::Shape{2, 3}));
  EXPECT_THAT(values(forward.groups[0].page_table), ElementsAre(9, 2, 0, 4, 5, 6));
  EXPECT_THAT(values(forward.groups[0].slots),
              ElementsAre(2 * 4 + 1, 4 * 4 + 3, 5 * 4, 5 * 4 + 1, 5 * 4 + 2, 5 * 4 + 3, 6 * 4));
}

TEST(Gather, NamesTheSinkWhereAWindowGroupGaveItsPagesUp) {
  kvcache::CacheSpec spec = spec_of();
  spec.groups.resize(2);
  spec.groups[1].kind = kvcache::GroupKind::window;
  spec.groups[1].window = 3;
  scheduler::StepPlan plan = mixed_plan();
  plan.rows[0].page_groups.push_back({0, {PageRun{PageId{1}, 2}}});
  plan.rows[1].first_position = 7;
  plan.rows[1].page_groups[0].runs = {PageRun{PageId{4}, 4}};
  plan.rows[1].page_groups.push_back({1, {PageRun{PageId{8}, 3}}});
  const layers::Forward forward = gather(plan, spec, nullptr);
  EXPECT_THAT(values(forward.groups[0].page_table), ElementsAre(9, 2, 0, 0, 4, 5, 6, 7));
  EXPECT_THAT(values(forward.groups[1].page_table), ElementsAre(1, 2, 0, 0, 0, 8, 9, 10));
  EXPECT_THAT(values(forward.groups[1].slots),
              ElementsAre(2 * 4 + 1, 8 * 4 + 3, 9 * 4, 9 * 4 + 1, 9 * 4 + 2, 9 * 4 + 3, 10 * 4));
}

TEST(Gather, TakesTokensFromTheStepInFlight) {
  scheduler::StepPlan plan = mixed_plan();
  plan.rows[0].input = scheduler::FromStepInFlight{1};
  const std::vector<int32_t> sampled = {30, 31, 32};
  const mx::array before(sampled.data(), {3}, mx::int32);
  EXPECT_THAT(values(gather(plan, spec_of(), nullptr, before).tokens),
              ElementsAre(31, 1, 2, 3, 4, 5, 6));
  plan.rows.pop_back();
  EXPECT_THAT(values(gather(plan, spec_of(), nullptr, before).tokens), ElementsAre(31));
}

}  // namespace
}  // namespace pome::engine
