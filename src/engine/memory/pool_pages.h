#pragma once

#include <cstdint>
#include <vector>

#include "engine/memory/memory_plan.h"

// How many pages and slots each cache group gets.
namespace pome::engine {

// States of a recurrent model that are kept for reuse, when there is room.
int64_t snapshots_wished(const MemoryDemand& demand);

// Pages of each group, the sink included, when `pages` hold the tokens of full attention layers.
//   full    pages
//   window  what the running sequences hold at one time, and a quarter of `pages` for prefixes that
//           are not running: a window of each sequence, unaligned; two steps in flight; the pages
//           that the step before gave up. Never more than `pages`.
//   state   two slots for a running sequence, one for a snapshot
std::vector<int64_t> pages_by_group(const MemoryDemand& demand, int64_t pages, int64_t snapshots);

// Of all groups; twice when an append may need a copy of the pool.
int64_t pool_bytes(const MemoryDemand& demand, const std::vector<int64_t>& group_pages);

// The most pages for full attention layers, at most `pages_max`, whose pool has at most `bytes`; 0
// when not even one fits.
int64_t pages_that_fit(const MemoryDemand& demand, int64_t bytes, int64_t snapshots,
                       int64_t pages_max);

// One item for each kind of group that the model has.
std::vector<MemoryItem> pool_items(const MemoryDemand& demand,
                                   const std::vector<int64_t>& group_pages);

}  // namespace pome::engine
