#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "kvcache/paged_cache.h"

// PagedCache under random sequences, steps in flight, evictions and flushes, over a fake memory:
// what a device would write and read at the pages that the tables named when a step was built. A
// step's writes and reads happen at any moment before it is done and are ordered only where one
// needs the other, so a page or slot that is handed out too early is overwritten under a reader.
namespace pome::kvcache {
namespace {

uint64_t setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

// One running sequence as its client sees it.
struct Running {
  SequenceId id{};
  std::string cache_namespace;
  std::vector<Token> tokens;     // all that it will ever have
  std::vector<uint64_t> prefix;  // prefix[n]: what a model knows after n tokens
  int32_t opened = 0;
  int32_t grown = 0;
  int32_t committed = 0;
  int32_t row_kept = 0;  // tokens of a row that was grown and goes with a later step
};

// One row as the device sees it: what it was told when its step was built.
struct DeviceRow {
  SequenceId id{};
  std::vector<uint64_t> prefix;
  int32_t first = 0;
  int32_t count = 0;
  std::vector<PageTable> tables;
  StateSlots slots;
  bool wrote = false;
  bool read = false;
  bool state_read = false;
  bool state_wrote = false;

  bool finished() const { return wrote && read && state_read && state_wrote; }
};

struct Step {
  int64_t step = 0;
  std::vector<DeviceRow> rows;
};

struct World {
  CacheSpec spec;
  std::vector<int32_t> group_pages;
  PagedCacheOptions options;
  int32_t length_max = 40;
  int32_t row_tokens_max = 8;
  size_t running_max = 5;
  bool roomy = false;  // nothing is ever evicted, everything is shared
};

class Simulation {
 public:
  Simulation(uint64_t seed, const World& world)
      : random_(seed), world_(world), cache_(world.spec, world.group_pages, world.options) {
    memory_.resize(world.spec.groups.size());
    for (size_t g = 0; g < memory_.size(); ++g) {
      const bool state = world.spec.groups[g].kind == GroupKind::state;
      const int32_t cells = world.group_pages[g] * (state ? 1 : world.spec.page_tokens);
      memory_[g].assign(static_cast<size_t>(cells), 0);
    }
  }

  void run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      act();
      cache_.check_integrity();
    }
    while (!steps_.empty() && !testing::Test::HasFatalFailure()) {
      finish_step();
    }
    while (!running_.empty()) {
      close(0);
    }
    cache_.check_integrity();
    for (size_t g = 0; g < cache_.group_count(); ++g) {
      EXPECT_EQ(cache_.pages_available(g), world_.group_pages[g] - 1) << "pages leaked";
    }
  }

  int64_t hits() const { return hits_; }
  CacheStats stats() const { return cache_.stats(); }

 private:
  int32_t pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  bool is_state(size_t group) const { return world_.spec.groups[group].kind == GroupKind::state; }

  void act() {
    const int32_t dice = pick(1, 1000);
    if (dice <= 150) {
      open();
    } else if (dice <= 500) {
      build_step();
    } else if (dice <= 800) {
      run_something();
    } else if (dice <= 960) {
      finish_step();
    } else if (dice <= 997) {
      if (!running_.empty()) {
        close(static_cast<size_t>(pick(0, static_cast<int32_t>(running_.size()) - 1)));
      }
    } else if (!world_.roomy) {
      flush();
    }
  }

  // Few different tokens and namespaces, so that prefixes are shared and part at any position.
  void open() {
    if (running_.size() >= world_.running_max) {
      return;
    }
    Running opened;
    opened.id = SequenceId{++ids_};
    opened.cache_namespace = chance(80) ? "" : "salt";
    const int32_t length = pick(1, world_.length_max);
    const int32_t straight = pick(0, length);
    // A flush stands for changed weights: the same tokens then leave other numbers behind.
    uint64_t known = mix(flushes_, opened.cache_namespace.size());
    opened.prefix.push_back(known);
    for (int32_t i = 0; i < length; ++i) {
      opened.tokens.push_back(i < straight ? 0 : pick(-1, 1));
      known = mix(known, static_cast<uint64_t>(opened.tokens.back()) + 5);
      opened.prefix.push_back(known);
    }
    const int32_t limit = chance(80) ? length - 1 : pick(0, length + 3);
    const int32_t matched = cache_.match(opened.cache_namespace, opened.tokens, limit);
    if (world_.roomy) {
      ASSERT_EQ(matched, expected_match(opened, limit));
    }
    const std::vector<int32_t> takes =
        cache_.pages_opened(opened.cache_namespace, opened.tokens, limit);
    const std::vector<int32_t> before = available();
    ASSERT_EQ(cache_.open(opened.id, opened.cache_namespace, opened.tokens, limit), matched);
    for (size_t g = 0; g < before.size(); ++g) {
      ASSERT_EQ(before[g] - takes[g], cache_.pages_available(g));
    }
    ASSERT_LE(matched, limit);
    ASSERT_EQ(matched % world_.spec.page_tokens, 0);
    opened.opened = opened.grown = opened.committed = matched;
    hits_ += matched;
    running_.push_back(std::move(opened));
  }

  // The longest prefix, by whole pages and checkpoints, that anybody has computed.
  int32_t expected_match(const Running& opened, int32_t limit) const {
    int32_t longest = 0;
    for (const Running& other : history_) {
      int32_t common = 0;
      const auto most =
          std::min({other.committed, limit, static_cast<int32_t>(opened.tokens.size())});
      while (common < most && other.prefix[static_cast<size_t>(common) + 1] ==
                                  opened.prefix[static_cast<size_t>(common) + 1]) {
        ++common;
      }
      const bool state = std::any_of(world_.spec.groups.begin(), world_.spec.groups.end(),
                                     [](const auto& g) { return g.kind == GroupKind::state; });
      const int32_t unit = state ? world_.spec.checkpoint_tokens : world_.spec.page_tokens;
      longest = std::max(longest, common / unit * unit);
    }
    return world_.options.prefix_cache ? longest : 0;
  }

  std::vector<int32_t> available() const {
    std::vector<int32_t> counts;
    for (size_t g = 0; g < cache_.group_count(); ++g) {
      counts.push_back(cache_.pages_available(g));
    }
    return counts;
  }

  static int32_t pages_of(const PageTable& table) { return table.blocks() - table.first_block; }

  void build_step() {
    if (steps_.size() == 2) {
      return;
    }
    Step step;
    step.step = ++step_;
    for (Running& sequence : running_) {
      const auto left = static_cast<int32_t>(sequence.tokens.size()) - sequence.grown;
      if (left > 0 && chance(70)) {
        const int32_t count = std::min(left, pick(1, world_.row_tokens_max));
        grow(sequence, sequence.row_kept > 0 ? sequence.row_kept : count, step);
      }
    }
    if (!step.rows.empty()) {
      cache_.step_built(step.step);
      steps_.push_back(std::move(step));
    }
  }

  void grow(Running& sequence, int32_t count, Step& step) {
    count = cache_.row_tokens(sequence.grown, count);
    const int32_t tokens = sequence.grown + count;
    const std::vector<int32_t> before = available();
    const uint64_t version = cache_.match_version();
    if (!cache_.grow(sequence.id, tokens)) {
      ASSERT_EQ(available(), before);
      ASSERT_EQ(cache_.match_version(), version);
      const int32_t page = world_.spec.page_tokens;
      const int32_t blocks = (tokens + page - 1) / page - (sequence.grown + page - 1) / page;
      bool lacks = false;
      for (size_t g = 0; g < before.size(); ++g) {
        lacks = lacks || before[g] < (is_state(g) ? 1 : blocks);
      }
      ASSERT_TRUE(lacks) << "refused although every group has the pages";
      const bool alone = running_.size() == 1 && steps_.empty();
      const auto length = static_cast<int64_t>(sequence.tokens.size());
      ASSERT_FALSE(alone && length <= cache_.tokens_max(world_.row_tokens_max))
          << "a sequence that is alone and not too long cannot go on";
      return;
    }
    ASSERT_FALSE(world_.roomy && cache_.match_version() != version) << "evicted without need";
    sequence.row_kept = chance(3) ? count : 0;
    if (sequence.row_kept > 0) {
      return;
    }
    DeviceRow row{.id = sequence.id,
                  .prefix = sequence.prefix,
                  .first = sequence.grown,
                  .count = count,
                  .tables = {},
                  .slots = cache_.state_slots(sequence.id)};
    for (size_t g = 0; g < cache_.group_count(); ++g) {
      row.tables.push_back(cache_.table(sequence.id, g));
      if (is_state(g)) {
        ASSERT_EQ(row.slots.in.has_value(), sequence.grown > 0);
        ASSERT_TRUE(row.slots.out.has_value());
        continue;
      }
      const auto length = static_cast<int32_t>(sequence.tokens.size());
      const int32_t needed = cache_.pages_needed(g, sequence.opened, length, world_.row_tokens_max);
      ASSERT_LE(pages_of(row.tables[g]) - opened_pages(g, sequence.opened), needed);
    }
    sequence.grown = tokens;
    step.rows.push_back(std::move(row));
  }

  int32_t opened_pages(size_t group, int32_t opened) const {
    const CacheGroup& g = world_.spec.groups[group];
    const int32_t seen = g.kind == GroupKind::window ? std::max(0, opened - g.window + 1) : 0;
    return opened / world_.spec.page_tokens - seen / world_.spec.page_tokens;
  }

  // ---- the device

  uint64_t& cell(size_t group, const PageTable& table, int32_t position) {
    const int32_t page_tokens = world_.spec.page_tokens;
    int32_t block = position / page_tokens - table.first_block;
    for (const PageRun& run : table.runs) {
      if (block >= 0 && block < run.count) {
        const int32_t page = static_cast<int32_t>(run.first) + block;
        return memory_[group].at(static_cast<size_t>(page * page_tokens + position % page_tokens));
      }
      block -= run.count;
    }
    ADD_FAILURE() << "position " << position << " has no page in group " << group;
    return memory_[group][0];
  }

  void write(DeviceRow& row) {
    row.wrote = true;
    for (size_t g = 0; g < memory_.size(); ++g) {
      for (int32_t p = row.first; p < row.first + row.count && !is_state(g); ++p) {
        cell(g, row.tables[g], p) = row.prefix[static_cast<size_t>(p) + 1];
      }
    }
  }

  void read(DeviceRow& row) {
    row.read = true;
    for (size_t g = 0; g < memory_.size(); ++g) {
      if (is_state(g)) {
        continue;
      }
      const CacheGroup& group = world_.spec.groups[g];
      const bool windowed = group.kind == GroupKind::window;
      for (int32_t p = windowed ? std::max(0, row.first - group.window + 1) : 0;
           p < row.first + row.count; ++p) {
        ASSERT_EQ(cell(g, row.tables[g], p), row.prefix[static_cast<size_t>(p) + 1])
            << "position " << p << " of group " << g << " is not what was written there";
      }
    }
  }

  uint64_t& state(SlotId slot) {
    for (size_t g = 0; g < memory_.size(); ++g) {
      if (is_state(g)) {
        return memory_[g].at(static_cast<size_t>(slot));
      }
    }
    return memory_[0][0];
  }

  // The recurrence itself: the state after a token is a function of the state before and the token.
  void read_state(DeviceRow& row) {
    row.state_read = true;
    if (row.slots.in) {
      ASSERT_EQ(state(*row.slots.in), row.prefix[static_cast<size_t>(row.first)])
          << "the state at " << row.first << " is not what was kept there";
    }
  }

  void write_state(DeviceRow& row) {
    row.state_wrote = true;
    if (row.slots.out) {
      ASSERT_NE(*row.slots.out, SlotId{0});
      state(*row.slots.out) = row.prefix[static_cast<size_t>(row.first + row.count)];
    }
  }

  // What a row may do now: a read follows the writes that it needs, and nothing else is ordered.
  std::vector<std::function<void()>> possible(size_t step_index) {
    std::vector<std::function<void()>> actions;
    for (DeviceRow& row : steps_[step_index].rows) {
      bool before_wrote = true;
      bool before_state = true;
      for (size_t s = 0; s < step_index; ++s) {
        for (const DeviceRow& other : steps_[s].rows) {
          before_wrote = before_wrote && (other.id != row.id || other.wrote);
          before_state = before_state && (other.id != row.id || other.state_wrote);
        }
      }
      if (!row.wrote) {
        actions.push_back([this, &row] { write(row); });
      } else if (!row.read && before_wrote) {
        actions.push_back([this, &row] { read(row); });
      }
      if (!row.state_read && before_state) {
        actions.push_back([this, &row] { read_state(row); });
      } else if (row.state_read && !row.state_wrote) {
        actions.push_back([this, &row] { write_state(row); });
      }
    }
    return actions;
  }

  void run_something() {
    if (steps_.empty()) {
      return;
    }
    const auto actions =
        possible(static_cast<size_t>(pick(0, static_cast<int32_t>(steps_.size()) - 1)));
    if (!actions.empty()) {
      actions[static_cast<size_t>(pick(0, static_cast<int32_t>(actions.size()) - 1))]();
    }
  }

  void finish_step() {
    if (steps_.empty()) {
      return;
    }
    for (auto actions = possible(0); !actions.empty(); actions = possible(0)) {
      actions[static_cast<size_t>(pick(0, static_cast<int32_t>(actions.size()) - 1))]();
    }
    const Step step = std::move(steps_.front());
    steps_.pop_front();
    const bool done_first = chance(50);
    if (done_first) {
      cache_.step_done(step.step);
    }
    for (const DeviceRow& row : step.rows) {
      ASSERT_TRUE(row.finished());
      commit(row);
    }
    if (!done_first) {
      cache_.step_done(step.step);
    }
  }

  void commit(const DeviceRow& row) {
    const auto found = std::find_if(running_.begin(), running_.end(),
                                    [&](const Running& one) { return one.id == row.id; });
    if (found == running_.end()) {
      return;  // it was closed in mid-flight
    }
    found->committed = row.first + row.count;
    std::vector<Token> known(found->tokens.begin(), found->tokens.begin() + found->committed);
    cache_.commit(found->id, known, found->committed, world_.roomy || chance(85));
    cache_.check_integrity();
    if (world_.roomy) {
      history_.push_back(*found);
    }
    if (chance(found->committed == static_cast<int32_t>(found->tokens.size()) ? 60 : 4)) {
      close(static_cast<size_t>(found - running_.begin()));
    }
  }

  void close(size_t index) {
    cache_.close(running_[index].id);
    ASSERT_FALSE(cache_.holds(running_[index].id));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void flush() {
    cache_.flush_cache();
    ++flushes_;
    for (const Running& one : running_) {
      ASSERT_EQ(cache_.match(one.cache_namespace, one.tokens, world_.length_max), 0);
    }
    ASSERT_EQ(cache_.stats().nodes, 0);
  }

  std::mt19937_64 random_;
  const World world_;
  PagedCache cache_;
  std::vector<std::vector<uint64_t>> memory_;  // by group: cells of pages, or slots
  std::vector<Running> running_;
  std::vector<Running> history_;  // everything that was ever shared
  std::deque<Step> steps_;        // in flight
  uint64_t ids_ = 0;
  uint64_t flushes_ = 0;
  int64_t step_ = 0;
  int64_t hits_ = 0;
};

CacheGroup group_of(GroupKind kind, int32_t window = 0) {
  CacheGroup group;
  group.kind = kind;
  group.window = window;
  return group;
}

World random_world(uint64_t seed, bool roomy) {
  std::mt19937_64 random(seed * 77 + 1);
  const auto pick = [&random](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  World world;
  world.roomy = roomy;
  world.spec.page_tokens = pick(1, 5);
  world.spec.checkpoint_tokens = world.spec.page_tokens * pick(1, 4);
  world.options.eviction = pick(0, 1) == 0 ? Eviction::lru : Eviction::lfu;
  world.options.prefix_cache = pick(0, 19) > 0;
  world.row_tokens_max = pick(1, 12);
  const CacheGroup full = group_of(GroupKind::full);
  const CacheGroup window = group_of(GroupKind::window, pick(1, 24));
  const CacheGroup narrow = group_of(GroupKind::window, pick(1, 6));
  const CacheGroup state = group_of(GroupKind::state);
  const std::vector<std::vector<CacheGroup>> kinds = {{full},
                                                      {window, full},
                                                      {full, state},
                                                      {full, window, narrow},
                                                      {full, full, window},
                                                      {state},
                                                      {window, state},
                                                      {narrow, full, state},
                                                      {window}};
  world.spec.groups = kinds[seed % kinds.size()];
  for (const CacheGroup& group : world.spec.groups) {
    const bool slots = group.kind == GroupKind::state;
    const int32_t one = slots ? 3 : world.length_max / world.spec.page_tokens + 1;
    const int32_t tight = 1 + pick(slots ? 1 : one / 3 + 1, slots ? 12 : 3 * one);
    world.group_pages.push_back(roomy ? 4000 : tight);
  }
  return world;
}

void run_seeds(bool roomy, uint64_t count, int operations) {
  const uint64_t first = setting("POME_SEED", 1);
  const uint64_t seeds = setting("POME_SEEDS", count);
  int64_t hits = 0;
  CacheStats total;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE("POME_SEED=" + std::to_string(seed) + " POME_SEEDS=1 runs this again");
    Simulation simulation(seed, random_world(seed, roomy));
    simulation.run(operations);
    ASSERT_FALSE(testing::Test::HasFailure());
    hits += simulation.hits();
    total.evictions_total += simulation.stats().evictions_total;
    total.window_evictions_total += simulation.stats().window_evictions_total;
    total.snapshot_evictions_total += simulation.stats().snapshot_evictions_total;
  }
  EXPECT_GT(hits, 0);
  EXPECT_EQ(total.evictions_total > 0, !roomy);
  EXPECT_EQ(total.window_evictions_total > 0, !roomy);
  EXPECT_EQ(total.snapshot_evictions_total > 0, !roomy);
}

TEST(PagedCacheProperty, EveryRowReadsWhatWasWrittenUnderPressure) {
  run_seeds(false, 360, 400);
}

TEST(PagedCacheProperty, EveryPrefixThatWasSharedIsFoundWhileNothingIsEvicted) {
  run_seeds(true, 72, 250);
}

}  // namespace
}  // namespace pome::kvcache
