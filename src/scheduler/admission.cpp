#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "base/check.h"
#include "scheduler/scheduler.h"

// Who of the waiting goes next, and whether there is room.
namespace pome::scheduler {
namespace {

// A prompt with so few tokens to compute is short: it may take the lane reserve.
constexpr int32_t kShortPromptTokens = 256;
// Room that prompts which are not short leave free, and the part of the pool that it is at most.
constexpr int32_t kReserveTokens = 1024;
constexpr int64_t kReservePart = 8;
// A sequence that was overtaken so often is not overtaken again.
constexpr int32_t kOvertakenMax = 64;
// Of so many waiting the longest prefix is looked for, and a short prompt behind those that wait.
constexpr size_t kLookAhead = 128;
// A long prompt behind one that waits for room is short only if much of it is cached by now, which
// is looked up in every so many steps.
constexpr int64_t kLookSteps = 16;

int32_t slots_reserved(int32_t slots) {
  return slots < 4 ? 0 : std::max(1, slots / 8);
}

int32_t common_prefix(const Sequence& a, const Sequence& b) {
  const auto [left, right] =
      std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
  return static_cast<int32_t>(left - a.tokens.begin());
}

}  // namespace

bool Scheduler::short_prompt_next() const {
  const auto is_short = [](const Sequence& sequence, int32_t cached) {
    return sequence.prompt_tokens() - cached <= kShortPromptTokens;
  };
  bool long_one = false;
  bool short_one = false;
  for (const Sequence& sequence : running_) {
    const bool reads = sequence.wants_row() && !sequence.decodes();
    const bool is_new = sequence.outputs() + sequence.outputs_pending == 0;
    long_one |= reads && !is_short(sequence, sequence.cached_tokens);
    short_one |= reads && is_new && is_short(sequence, sequence.cached_tokens);
  }
  const auto waits = [&](const Sequence& one) { return is_short(one, one.matched); };
  return long_one && (short_one || (!slots_free_.empty() &&
                                    std::any_of(waiting_.begin(), waiting_.end(), waits)));
}

void Scheduler::admit_waiting() {
  if (waiting_.empty() || slots_free_.empty()) {
    return;
  }
  if (options_.policy == Policy::lpm) {
    sort_by_prefix();
  } else if (options_.policy == Policy::priority) {
    waiting_.sort([](const Sequence& a, const Sequence& b) {
      return a.overtaken >= kOvertakenMax && b.overtaken < kOvertakenMax;
    });
  }
  std::vector<int32_t> owed = pages_owed();
  std::vector<const Sequence*> prefills = prefills_running();
  Sequence* blocked = nullptr;  // waits for room; short prompts may go past it
  size_t seen = 0;
  for (auto next = waiting_.begin(); next != waiting_.end() && seen < kLookAhead; ++seen) {
    const auto here = next++;
    if (slots_free_.empty() || (blocked != nullptr && blocked->overtaken >= kOvertakenMax)) {
      return;
    }
    const bool needs_a_prefix = here->known_tokens() > kShortPromptTokens;
    if (blocked != nullptr && needs_a_prefix && (here->arrival + step_) % kLookSteps != 0) {
      continue;
    }
    const int32_t matched = match(*here);
    if (shares_a_prefill(*here, matched, prefills)) {
      continue;
    }
    const bool is_short = here->known_tokens() - matched <= kShortPromptTokens;
    if ((blocked != nullptr && !is_short) || !has_room(*here, is_short, owed)) {
      blocked = blocked != nullptr ? blocked : &*here;
      continue;
    }
    admit(here);
    prefills.push_back(&*here);
    owed = pages_owed();
  }
}

void Scheduler::sort_by_prefix() {
  if (waiting_.size() > kLookAhead) {
    return;  // the order of arrival
  }
  std::map<SequenceId, int32_t> matched;
  for (Sequence& sequence : waiting_) {
    const bool due = sequence.admitted_before || sequence.overtaken >= kOvertakenMax;
    matched[sequence.request.sequence] =
        due ? std::numeric_limits<int32_t>::max() : match(sequence);
  }
  waiting_.sort([&](const Sequence& a, const Sequence& b) {
    const int32_t match_a = matched[a.request.sequence];
    const int32_t match_b = matched[b.request.sequence];
    return match_a != match_b ? match_a > match_b : a.arrival < b.arrival;
  });
}

int32_t Scheduler::match(Sequence& sequence) {
  if (sequence.matched_version != cache_.match_version()) {
    sequence.matched = cache_.match(sequence.request.cache_namespace, sequence.tokens,
                                    sequence.cacheable_tokens());
    sequence.matched_version = cache_.match_version();
  }
  return sequence.matched;
}

std::vector<const Sequence*> Scheduler::prefills_running() const {
  std::vector<const Sequence*> prefills;
  for (const Sequence& sequence : running_) {
    if (!sequence.end && !sequence.leaving && sequence.committed < sequence.prompt_tokens()) {
      prefills.push_back(&sequence);
    }
  }
  return prefills;
}

// Two prompts with a common prefix compute it once: the second is admitted when the first is past
// it, and finds it in the cache.
bool Scheduler::shares_a_prefill(const Sequence& sequence, int32_t matched,
                                 const std::vector<const Sequence*>& prefills) const {
  if (!options_.cache.prefix_cache) {
    return false;
  }
  const int32_t page = cache_.page_tokens();
  for (const Sequence* other : prefills) {
    if (other->request.cache_namespace != sequence.request.cache_namespace) {
      continue;
    }
    const int32_t common =
        std::min(common_prefix(sequence, *other), sequence.cacheable_tokens()) / page * page;
    if (common > matched && other->committed < common) {
      return true;
    }
  }
  return false;
}

bool Scheduler::has_room(const Sequence& sequence, bool is_short,
                         const std::vector<int32_t>& owed) const {
  if (running_.empty()) {
    return true;
  }
  const auto slots = static_cast<int32_t>(slots_free_.size());
  if (!is_short && slots <= slots_reserved(options_.max_running_requests)) {
    return false;
  }
  const auto reserve = static_cast<int32_t>(std::min<int64_t>(
      kReserveTokens, cache_.tokens_max(options_.chunk_tokens_max) / kReservePart));
  std::vector<int32_t> left(cache_.group_count());
  for (size_t group = 0; group < left.size(); ++group) {
    int32_t needed =
        owed[group] + cache_.pages_needed(group, sequence.matched, tokens_expected(sequence),
                                          options_.chunk_tokens_max);
    if (!is_short) {
      needed += cache_.pages_needed(group, 0, reserve, options_.chunk_tokens_max);
    }
    left[group] = cache_.pages_available(group) - needed;
    if (left[group] < 0) {
      return false;
    }
  }
  // Walks the tree, so it is asked last.
  const std::vector<int32_t> opened =
      cache_.pages_opened(sequence.request.cache_namespace, sequence.tokens, sequence.matched);
  return std::equal(opened.begin(), opened.end(), left.begin(), std::less_equal<>());
}

// What the running sequences are still expected to take, by group.
std::vector<int32_t> Scheduler::pages_owed() const {
  std::vector<int32_t> owed(cache_.group_count(), 0);
  for (const Sequence& sequence : running_) {
    if (sequence.end) {
      continue;
    }
    const int32_t row_tokens = sequence.left() <= 1 ? 1 : options_.chunk_tokens_max;
    for (size_t group = 0; group < owed.size(); ++group) {
      owed[group] +=
          cache_.pages_needed(group, sequence.built, tokens_expected(sequence), row_tokens);
    }
  }
  return owed;
}

int32_t Scheduler::tokens_expected(const Sequence& sequence) const {
  const int32_t left = sequence.request.max_tokens - sequence.outputs();
  const int32_t expected = left > 0 ? std::min(left, new_token_ratio_.expect(left)) : 0;
  return std::max(sequence.built, sequence.known_tokens() + expected);
}

void Scheduler::admit(Sequences::iterator sequence) {
  sequence->built = sequence->committed =
      cache_.open(sequence->request.sequence, sequence->request.cache_namespace, sequence->tokens,
                  sequence->cacheable_tokens());
  sequence->slot = slots_free_.back();
  slots_free_.pop_back();
  sequence->admission = ++admissions_;
  sequence->overtaken = 0;
  if (!sequence->admitted_before) {
    sequence->admitted_before = true;
    sequence->cached_tokens = sequence->built;
  }
  for (Sequence& other : waiting_) {
    other.overtaken += other.arrival < sequence->arrival ? 1 : 0;
  }
  running_.splice(running_.end(), waiting_, sequence);
}

// Before the first of a lower rank: where a new or retracted sequence waits.
Scheduler::Sequences::iterator Scheduler::place_of(const Sequence& sequence) {
  return std::find_if(waiting_.begin(), waiting_.end(), [&](const Sequence& other) {
    if (options_.policy == Policy::priority &&
        other.request.priority != sequence.request.priority) {
      return other.request.priority < sequence.request.priority;
    }
    return sequence.arrival < other.arrival;
  });
}

}  // namespace pome::scheduler
