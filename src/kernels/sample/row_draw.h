#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sample/row_scan.h"
#include "kernels/sample/sample_rows.h"

namespace pome::kernels {

// One row on its way to a token: begun, scanned block by block, planned, searched block by block
// and concluded, or searched again.
struct RowDraw {
  enum class Search {
    none,     // the token stands
    list,     // the tokens from a bound on, among which the filters choose
    anybody,  // the best score of all
  };

  const SampleRow* row = nullptr;
  const float* raw = nullptr;  // [V]
  RowScan scan = {};
  std::vector<float> edited = {};  // the row with its edits
  Search search = Search::none;
  float reach = 0.0f;    // how far below the best the list goes, in logits over temperature
  float bound = 0.0f;    // Search::list: the least logit of the list
  Candidate score = {};  // Search::anybody: a score that one token has
  std::vector<float> weights = {};
  int32_t token = 0;
  bool broken = false;

  bool greedy() const { return row->temperature <= 0.0f || row->top_k == 1; }
  bool has_top_k() const { return !greedy() && row->top_k > 0 && row->top_k < scan.count; }
  bool has_top_p() const { return !greedy() && row->top_p < 1.0f; }
};

}  // namespace pome::kernels
