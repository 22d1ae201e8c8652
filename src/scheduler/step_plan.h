#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "kvcache/page_run.h"

// What one engine step does, as plain integers: it can be recorded, replayed and sent to another
// rank.
namespace pome::scheduler {

// Where a row's input tokens come from.
struct HostTokens {
  std::vector<Token> tokens;
};
struct FromStepInFlight {
  int32_t output = 0;  // the place of the token among what the step before samples, on the device
};
struct EmbeddingSpan {
  int64_t embedding =
      0;  // an entry of the engine's embedding table (media), `count` positions from `first`
  int32_t first = 0;
};
using RowInput = std::variant<HostTokens, FromStepInFlight, EmbeddingSpan>;

enum class OutputKind : uint8_t { logits = 1, hidden = 2 };

// The row's positions [begin, count) leave the step as this kind.
struct OutputSpan {
  int32_t begin = 0;
  OutputKind kind = OutputKind::logits;
};

// `count` tokens of one sequence, from `first_position` on. Prefill chunks, decode tokens, drafts
// and verifications are all rows.
struct Row {
  SequenceId sequence{};
  SlotId slot{};
  int32_t first_position = 0;  // an upper bound while an uncommitted verification is in flight
  int32_t count = 0;
  RowInput input;
  std::vector<OutputSpan> outputs;  // one that samples: its last position; scored: from the first
  bool samples = false;             // a token after the last position
  std::vector<int32_t>
      tree_parents;  // draft trees only: parent position in the row, -1 for the root
  std::vector<kvcache::PageTable> page_groups;  // one per cache group
  std::vector<kvcache::PageCopy> copies;        // before anything is written, in any order
  std::optional<SlotId> state_in;               // recurrent models: the snapshot to start from …
  std::optional<SlotId> state_out;              // … and where the state after the row is kept
};

struct StepPlan {
  int64_t step = 0;
  std::vector<Row> rows;  // decode rows first, then prefill chunks

  int32_t token_count() const {
    int32_t total = 0;
    for (const Row& row : rows) {
      total += row.count;
    }
    return total;
  }
};

// What commit() learns about one row: how many of its tokens stand, and what was sampled after
// them.
struct RowResult {
  int32_t accepted = 0;
  std::vector<Token> sampled;
};

}  // namespace pome::scheduler
