#include "models/sequences/sequences.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace pome::models {
namespace {

int32_t blocks_of(const SequenceOptions& options) {
  return (options.tokens_max + options.page_tokens - 1) / options.page_tokens;
}

kvpool::KvPool make_pool(const LanguageModel& model, const SequenceOptions& options) {
  const kvcache::CacheSpec spec = model.cache_spec(options.page_tokens, options.format);
  const int32_t pages = 1 + options.sequences * blocks_of(options);
  return kvpool::KvPool(spec, {.group_pages = std::vector<int32_t>(spec.groups.size(), pages),
                               .format = options.format});
}

mx::array device(const std::vector<int32_t>& values) {
  return mx::array(values.data(), {static_cast<int32_t>(values.size())}, mx::int32);
}

}  // namespace

Sequences::Sequences(const LanguageModel& model, const SequenceOptions& options)
    : model_(model),
      options_(options),
      blocks_(blocks_of(options)),
      pool_(make_pool(model, options)),
      lengths_(static_cast<size_t>(options.sequences), 0) {}

StepOutput Sequences::step(const std::vector<RowTokens>& rows, Trace trace) {
  layers::Forward f = build(rows);
  f.trace = std::move(trace);
  return model_.forward(f);
}

StepOutput Sequences::step(const std::vector<RowTokens>& rows, const mx::array& tokens) {
  layers::Forward f = build(rows);
  CHECK(static_cast<size_t>(f.token_count) == tokens.size(),
        "one token on the device for each token of the rows");
  f.tokens = tokens;
  return model_.forward(f);
}

// Blocks of all sequences interleave, the last ones first.
int32_t Sequences::page(int32_t sequence, int32_t block) const {
  return 1 + (blocks_ - 1 - block) * options_.sequences + sequence;
}

layers::Forward Sequences::build(const std::vector<RowTokens>& rows) {
  std::vector<int32_t> tokens, positions, slots, offsets{0}, kv_lengths, outputs, table;
  std::vector<int32_t> row_tokens;
  for (const RowTokens& row : rows) {
    int32_t& length = lengths_[static_cast<size_t>(row.sequence)];
    const auto count = static_cast<int32_t>(row.tokens.size());
    CHECK(length + count <= options_.tokens_max, "a sequence past tokens_max");
    for (int32_t i = 0; i < count; ++i) {
      const int32_t position = length + i;
      const bool last = i == count - 1;
      if (row.outputs == Outputs::all || (row.outputs == Outputs::last && last)) {
        outputs.push_back(static_cast<int32_t>(tokens.size()));
      }
      tokens.push_back(row.tokens[static_cast<size_t>(i)]);
      positions.push_back(position);
      slots.push_back(page(row.sequence, position / options_.page_tokens) * options_.page_tokens +
                      position % options_.page_tokens);
    }
    length += count;
    offsets.push_back(static_cast<int32_t>(tokens.size()));
    kv_lengths.push_back(length);
    row_tokens.push_back(count);
  }
  const int32_t kv_length_max = *std::max_element(kv_lengths.begin(), kv_lengths.end());
  const int32_t table_blocks = (kv_length_max + options_.page_tokens - 1) / options_.page_tokens;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int32_t block = 0; block < table_blocks; ++block) {
      const bool used = block * options_.page_tokens < kv_lengths[r];
      table.push_back(used ? page(rows[r].sequence, block) : 0);
    }
  }
  const auto row_count = static_cast<int32_t>(rows.size());
  const auto token_count = static_cast<int32_t>(tokens.size());
  const layers::GroupForward group{
      .page_table = mx::reshape(device(table), {row_count, table_blocks}), .slots = device(slots)};
  return layers::Forward{
      .tokens = device(tokens),
      .positions = device(positions),
      .rope_positions = mx::reshape(device(positions), {1, token_count}),
      .row_offsets = device(offsets),
      .kv_lengths = device(kv_lengths),
      .adapter_slots = mx::zeros({token_count}, mx::int32),
      .output_tokens = device(outputs),
      .groups = std::vector<layers::GroupForward>(pool_.spec().groups.size(), group),
      .row_count = row_count,
      .token_count = token_count,
      .output_count = static_cast<int32_t>(outputs.size()),
      .row_tokens = std::move(row_tokens),
      .kv_length_max = kv_length_max,
      .pool = &pool_,
      .trace = {}};
}

}  // namespace pome::models
