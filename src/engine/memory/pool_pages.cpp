#include "engine/memory/pool_pages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace pome::engine {
namespace {

using kvcache::CacheGroup;
using kvcache::GroupKind;

constexpr int64_t kSlotsRunning = 2;       // the state before a row and the one after it
constexpr int64_t kSnapshotsRunning = 2;   // kept states for each running sequence
constexpr int64_t kStepsHeld = 3;          // two in flight, and what the one before gave up
constexpr int64_t kWindowsCachedPart = 4;  // of the tokens of full attention layers

int64_t pages_for(int64_t tokens, int64_t page_tokens) {
  return (tokens + page_tokens - 1) / page_tokens;
}

int64_t window_pages_running(const MemoryDemand& demand, const CacheGroup& group) {
  const int64_t page_tokens = demand.cache.page_tokens;
  const int64_t one = pages_for(group.window, page_tokens) + 1;
  return demand.max_running_requests * one +
         kStepsHeld * pages_for(std::max<int64_t>(1, demand.step_tokens_max), page_tokens);
}

int64_t group_bytes(const MemoryDemand& demand, const CacheGroup& group, int64_t pages) {
  return pages * group.bytes_per_page * demand.pool_copies;
}

std::string name_of(GroupKind kind) {
  switch (kind) {
    case GroupKind::window:
      return "KV windows";
    case GroupKind::state:
      return "states";
    case GroupKind::full:
    case GroupKind::cross:
      break;
  }
  return "KV pool";
}

}  // namespace

int64_t snapshots_wished(const MemoryDemand& demand) {
  return kSnapshotsRunning * demand.max_running_requests;
}

std::vector<int64_t> pages_by_group(const MemoryDemand& demand, int64_t pages, int64_t snapshots) {
  std::vector<int64_t> counts;
  for (const CacheGroup& group : demand.cache.groups) {
    int64_t count = pages;
    if (group.kind == GroupKind::window) {
      count = std::min(pages, window_pages_running(demand, group) + pages / kWindowsCachedPart);
    } else if (group.kind == GroupKind::state) {
      count = kSlotsRunning * demand.max_running_requests + snapshots;
    }
    counts.push_back(count + 1);
  }
  return counts;
}

int64_t pool_bytes(const MemoryDemand& demand, const std::vector<int64_t>& group_pages) {
  CHECK(group_pages.size() == demand.cache.groups.size(), "one page count for each cache group");
  int64_t bytes = 0;
  for (size_t g = 0; g < group_pages.size(); ++g) {
    bytes += group_bytes(demand, demand.cache.groups[g], group_pages[g]);
  }
  return bytes;
}

int64_t pages_that_fit(const MemoryDemand& demand, int64_t bytes, int64_t snapshots,
                       int64_t pages_max) {
  int64_t fits = 0;
  int64_t too_many = pages_max + 1;
  while (fits + 1 < too_many) {
    const int64_t pages = fits + (too_many - fits) / 2;
    const bool enough = pool_bytes(demand, pages_by_group(demand, pages, snapshots)) <= bytes;
    (enough ? fits : too_many) = pages;
  }
  return fits;
}

std::vector<MemoryItem> pool_items(const MemoryDemand& demand,
                                   const std::vector<int64_t>& group_pages) {
  std::vector<MemoryItem> items;
  for (const GroupKind kind : {GroupKind::full, GroupKind::window, GroupKind::state}) {
    MemoryItem item{.name = name_of(kind)};
    int64_t count = 0;
    bool found = false;
    for (size_t g = 0; g < group_pages.size(); ++g) {
      const CacheGroup& group = demand.cache.groups[g];
      if (group.kind == kind || (kind == GroupKind::full && group.kind == GroupKind::cross)) {
        found = true;
        item.bytes += group_bytes(demand, group, group_pages[g]);
        count = std::max(count, group_pages[g] - 1);
      }
    }
    if (!found) {
      continue;
    }
    item.holds = kind == GroupKind::state
                     ? fmt::format("{} states", count)
                     : fmt::format("{} tokens", count * demand.cache.page_tokens);
    item.holds += demand.pool_copies > 1 ? ", and room for a copy" : "";
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace pome::engine
