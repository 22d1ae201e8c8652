#include "engine/steps/gather.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "base/check.h"

namespace pome::engine {
namespace {

using scheduler::Row;
using scheduler::StepPlan;

mx::array int32_array(const std::vector<int32_t>& values) {
  return mx::array(values.data(), {static_cast<int32_t>(values.size())}, mx::int32);
}

// Tokens that the host knows, and for each token of the step its place: in that list, or past its
// end in the list of tokens that the step in flight will sample.
struct Inputs {
  std::vector<int32_t> host_tokens;
  std::vector<int32_t> places;
  bool from_flight = false;
};

Inputs inputs_of(const StepPlan& plan) {
  Inputs inputs;
  for (const Row& row : plan.rows) {
    if (const auto* host = std::get_if<scheduler::HostTokens>(&row.input)) {
      CHECK(static_cast<int32_t>(host->tokens.size()) == row.count, "a row has its tokens");
      inputs.host_tokens.insert(inputs.host_tokens.end(), host->tokens.begin(), host->tokens.end());
    }
  }
  const auto flight_begin = static_cast<int32_t>(inputs.host_tokens.size());
  int32_t next_host = 0;
  for (const Row& row : plan.rows) {
    if (const auto* flight = std::get_if<scheduler::FromStepInFlight>(&row.input)) {
      CHECK(row.count == 1, "a sampled token is one token");
      inputs.places.push_back(flight_begin + flight->output);
      inputs.from_flight = true;
      continue;
    }
    CHECK(std::holds_alternative<scheduler::HostTokens>(row.input), "no model takes embeddings");
    for (int32_t i = 0; i < row.count; ++i) {
      inputs.places.push_back(next_host++);
    }
  }
  return inputs;
}

mx::array tokens_of(const StepPlan& plan, const std::optional<mx::array>& sampled_before) {
  const Inputs inputs = inputs_of(plan);
  if (!inputs.from_flight) {
    return int32_array(inputs.host_tokens);
  }
  CHECK(sampled_before.has_value(), "a row takes its token from a step that is not in flight");
  const mx::array all = inputs.host_tokens.empty()
                            ? *sampled_before
                            : mx::concatenate({int32_array(inputs.host_tokens), *sampled_before});
  return mx::take(all, int32_array(inputs.places));
}

layers::GroupForward group_of(const StepPlan& plan, size_t group, int32_t page_tokens) {
  std::vector<std::vector<int32_t>> tables;
  size_t pages_max = 1;
  for (const Row& row : plan.rows) {
    const kvcache::PageTable& pages = row.page_groups.at(group);
    // What a window group has given up is the sink: no query looks there.
    std::vector<int32_t>& table = tables.emplace_back(static_cast<size_t>(pages.first_block), 0);
    for (const kvcache::PageRun& run : pages.runs) {
      for (int32_t i = 0; i < run.count; ++i) {
        table.push_back(static_cast<int32_t>(run.first) + i);
      }
    }
    pages_max = std::max(pages_max, table.size());
  }
  std::vector<int32_t> padded;
  std::vector<int32_t> slots;
  for (size_t r = 0; r < plan.rows.size(); ++r) {
    const Row& row = plan.rows[r];
    std::vector<int32_t>& table = tables[r];
    for (int32_t position = row.first_position; position < row.first_position + row.count;
         ++position) {
      const int32_t page = table.at(static_cast<size_t>(position / page_tokens));
      slots.push_back(page * page_tokens + position % page_tokens);
    }
    table.resize(pages_max, 0);
    padded.insert(padded.end(), table.begin(), table.end());
  }
  const mx::Shape shape = {static_cast<int32_t>(plan.rows.size()), static_cast<int32_t>(pages_max)};
  return {.page_table = mx::array(padded.data(), shape, mx::int32), .slots = int32_array(slots)};
}

}  // namespace

layers::Forward gather(const StepPlan& plan, const kvcache::CacheSpec& spec, kvpool::KvPool* pool,
                       const std::optional<mx::array>& sampled_before) {
  CHECK(!plan.rows.empty(), "an empty step is not run");
  std::vector<int32_t> positions;
  std::vector<int32_t> row_offsets = {0};
  std::vector<int32_t> kv_lengths;
  std::vector<int32_t> outputs;
  std::vector<int32_t> row_tokens;
  for (const Row& row : plan.rows) {
    const int32_t begin = row_offsets.back();
    for (int32_t i = 0; i < row.count; ++i) {
      positions.push_back(row.first_position + i);
    }
    for (const scheduler::OutputSpan& span : row.outputs) {
      for (int32_t i = span.begin; i < row.count; ++i) {
        outputs.push_back(begin + i);
      }
    }
    row_offsets.push_back(begin + row.count);
    kv_lengths.push_back(row.first_position + row.count);
    row_tokens.push_back(row.count);
  }
  std::vector<layers::GroupForward> groups;
  for (size_t group = 0; group < spec.groups.size(); ++group) {
    groups.push_back(group_of(plan, group, spec.page_tokens));
  }
  const int32_t token_count = row_offsets.back();
  const mx::array position_array = int32_array(positions);
  return {.tokens = tokens_of(plan, sampled_before),
          .positions = position_array,
          .rope_positions = mx::reshape(position_array, {1, token_count}),
          .row_offsets = int32_array(row_offsets),
          .kv_lengths = int32_array(kv_lengths),
          .adapter_slots = mx::zeros({token_count}, mx::int32),
          .output_tokens = int32_array(outputs),
          .groups = std::move(groups),
          .row_count = static_cast<int32_t>(plan.rows.size()),
          .token_count = token_count,
          .output_count = static_cast<int32_t>(outputs.size()),
          .row_tokens = std::move(row_tokens),
          .kv_length_max = *std::max_element(kv_lengths.begin(), kv_lengths.end()),
          .pool = pool,
          .trace = {}};
}

}  // namespace pome::engine
