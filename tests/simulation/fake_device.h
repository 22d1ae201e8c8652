#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "kvcache/cache_spec.h"
#include "scheduler/step_plan.h"

namespace pome::simulation {

// A prefix is known by its hash, and the next token is a function of it: what a sequence says does
// not depend on how it was scheduled.
uint64_t extend(uint64_t prefix, Token token);
Token next_token(uint64_t prefix, int32_t vocab_tokens);
inline constexpr uint64_t kEmptyPrefix = 1;

// Stands for the device: pages and state slots hold the hash of the prefix that was written there.
// A step's writes happen when it is launched, and its reads are checked when it is read, after the
// writes of the step behind it: so a page that is handed out too early is found.
class FakeDevice {
 public:
  FakeDevice(const kvcache::CacheSpec& spec, const std::vector<int32_t>& group_pages,
             int32_t vocab_tokens);

  // Runs a step; returns what its rows sampled. `sampled_before`: of the step before.
  std::vector<Token> launch(const scheduler::StepPlan& plan,
                            const std::vector<Token>& sampled_before);
  // Every position that a row's queries see must hold `prefixes[position]`; fails the test if not.
  void check_reads(const scheduler::Row& row, const std::vector<uint64_t>& prefixes) const;
  // The step threw midway: what it wrote is anything.
  void spoil(const scheduler::StepPlan& plan);

 private:
  void copy_pages(const scheduler::Row& row);
  size_t place(const scheduler::Row& row, size_t group, int32_t position) const;
  bool is_state(size_t group) const;

  const kvcache::CacheSpec spec_;
  const int32_t vocab_tokens_;
  std::vector<std::vector<uint64_t>> memory_;  // by group: page · page_tokens + offset, or slot
};

}  // namespace pome::simulation
