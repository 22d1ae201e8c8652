#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/counters.h"
#include "kernels/highway_targets.h"
#include "kernels/sample/row_scan.h"
#include "kernels/sample/sample_cpu.h"
#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sample/logprobs_cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/highway.h>

#include "kernels/sample/scan_inl.h"

HWY_BEFORE_NAMESPACE();
namespace pome::kernels::HWY_NAMESPACE {

void scan_logprob_block(RowScan& scan, int64_t b) {
  scan_one_block(scan, b);
}

void find_best_in_block(RowScan& scan, int64_t b, float bound) {
  find_in_block(scan, b, bound);
}

}  // namespace pome::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pome::kernels {
namespace {

HWY_EXPORT(scan_logprob_block);
HWY_EXPORT(find_best_in_block);

VariantCounter count_rows("sample/logprobs_by_row");
VariantCounter count_blocks("sample/logprobs_by_block");

// One position: its row, and where its results go.
struct Position {
  const LogprobRow* row = nullptr;
  RowScan* scan = nullptr;
  float* chosen = nullptr;
  float* top_values = nullptr;
  int32_t* top_ids = nullptr;
  float* requested = nullptr;
  bool broken = false;
  float total = 0.0f;  // log of the sum of e^x
  float bound = 0.0f;
};

std::vector<Position> positions_of(const LogprobWork& work) {
  std::vector<Position> positions;
  int64_t top = 0;
  for (const LogprobRow& row : work.rows->rows) {
    top += row.top;
  }
  const auto count = static_cast<int64_t>(work.rows->rows.size());
  float* top_values = work.values + count;
  float* requested = top_values + top;
  int32_t* top_ids = work.ids;
  for (int64_t r = 0; r < count; ++r) {
    const LogprobRow& row = work.rows->rows[r];
    positions.push_back({.row = &row,
                         .chosen = work.values + r,
                         .top_values = top_values,
                         .top_ids = top_ids,
                         .requested = requested});
    top_values += row.top;
    top_ids += row.top;
    requested += row.requested_end - row.requested_begin;
  }
  return positions;
}

void begin_position(const LogprobWork& work, Position& position, RowScan& scan) {
  position.scan = &scan;
  scan.per_temperature = 1.0f;
  scan.wants_mass = true;
  scan.wants_groups = position.row->top > 0;
  scan.begin(work.logits + position.row->place * work.vocabulary, work.vocabulary);
}

void plan_position(Position& position) {
  RowScan& scan = *position.scan;
  position.broken = !scan.merge();
  if (position.broken) {
    return;
  }
  position.total = static_cast<float>(double{scan.largest} + std::log(scan.mass));
  if (position.row->top > 0) {
    position.bound = scan.bound_of_best(position.row->top);
  }
}

bool is_searched(const Position& position) {
  return position.row->top > 0 && !position.broken;
}

void end_position(const LogprobWork& work, Position& position) {
  const LogprobRow& row = *position.row;
  RowScan& scan = *position.scan;
  const auto logprob = [&](int32_t token) {
    return position.broken ? std::numeric_limits<float>::quiet_NaN()
                           : scan.logits[token] - position.total;
  };
  *position.chosen = logprob(work.tokens[row.token]);
  for (int32_t i = row.requested_begin; i < row.requested_end; ++i) {
    position.requested[i - row.requested_begin] = logprob(work.rows->requested[i]);
  }
  if (is_searched(position)) {
    scan.gather();
    scan.keep_best(row.top);
    std::sort(scan.all_found.begin(), scan.all_found.end(), better);
  }
  for (int32_t i = 0; i < row.top; ++i) {
    position.top_ids[i] = position.broken ? i : scan.all_found[i].id;
    position.top_values[i] = logprob(position.top_ids[i]);
  }
}

void run_whole_position(const LogprobWork& work, Position& position) {
  static thread_local RowScan scan;
  begin_position(work, position, scan);
  for (int64_t b = 0; b < scan.block_count(); ++b) {
    HWY_DYNAMIC_DISPATCH(scan_logprob_block)(scan, b);
  }
  plan_position(position);
  for (int64_t b = 0; is_searched(position) && b < scan.block_count(); ++b) {
    HWY_DYNAMIC_DISPATCH(find_best_in_block)(scan, b, position.bound);
  }
  end_position(work, position);
}

void run_by_block(const LogprobWork& work, std::vector<Position>& positions) {
  static thread_local std::vector<RowScan> kept;
  std::vector<RowScan>& scans = kept;  // this thread's, for the workers too
  scans.resize(std::max(scans.size(), positions.size()));
  for (size_t i = 0; i < positions.size(); ++i) {
    begin_position(work, positions[i], scans[i]);
  }
  const int64_t blocks = scans[0].block_count();
  const auto units = static_cast<int64_t>(positions.size()) * blocks;
  parallel_for(units, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      HWY_DYNAMIC_DISPATCH(scan_logprob_block)(*positions[i / blocks].scan, i % blocks);
    }
  });
  std::for_each(positions.begin(), positions.end(), plan_position);
  if (std::any_of(positions.begin(), positions.end(), is_searched)) {
    parallel_for(units, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Position& position = positions[i / blocks];
        if (is_searched(position)) {
          HWY_DYNAMIC_DISPATCH(find_best_in_block)(*position.scan, i % blocks, position.bound);
        }
      }
    });
  }
  for (Position& position : positions) {
    end_position(work, position);
  }
}

}  // namespace

void run_logprobs(const LogprobWork& work) {
  std::vector<Position> positions = positions_of(work);
  const auto count = static_cast<int64_t>(positions.size());
  if (count < kRowsAsUnits) {
    count_blocks.add();
    run_by_block(work, positions);
    return;
  }
  count_rows.add();
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      run_whole_position(work, positions[i]);
    }
  });
}

}  // namespace pome::kernels
#endif  // HWY_ONCE
