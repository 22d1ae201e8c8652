#include "fake_device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"

namespace pome::simulation {

using kvcache::GroupKind;
using scheduler::Row;
using scheduler::StepPlan;

uint64_t extend(uint64_t prefix, Token token) {
  uint64_t x = prefix * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(token) + 1;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 32);
}

Token next_token(uint64_t prefix, int32_t vocab_tokens) {
  return static_cast<Token>((prefix >> 7) % static_cast<uint64_t>(vocab_tokens));
}

FakeDevice::FakeDevice(const kvcache::CacheSpec& spec, const std::vector<int32_t>& group_pages,
                       int32_t vocab_tokens)
    : spec_(spec), vocab_tokens_(vocab_tokens) {
  for (size_t group = 0; group < group_pages.size(); ++group) {
    const int32_t tokens = is_state(group) ? 1 : spec.page_tokens;
    memory_.emplace_back(static_cast<size_t>(group_pages[group] * tokens), 0);
  }
}

std::vector<Token> FakeDevice::launch(const StepPlan& plan,
                                      const std::vector<Token>& sampled_before) {
  std::vector<Token> sampled;
  for (const Row& row : plan.rows) {
    copy_pages(row);
    uint64_t prefix = kEmptyPrefix;
    if (row.first_position > 0) {
      prefix = memory_[0].at(place(row, 0, row.first_position - 1));
    }
    for (size_t group = 0; group < memory_.size(); ++group) {
      if (is_state(group) && row.first_position > 0) {
        CHECK(row.state_in.has_value(), "a recurrent row goes on from a state");
        EXPECT_EQ(memory_[group].at(static_cast<size_t>(*row.state_in)), prefix)
            << "the state is another prefix's";
      }
    }
    for (int32_t i = 0; i < row.count; ++i) {
      const auto* host = std::get_if<scheduler::HostTokens>(&row.input);
      const Token token = host != nullptr
                              ? host->tokens.at(static_cast<size_t>(i))
                              : sampled_before.at(static_cast<size_t>(
                                    std::get<scheduler::FromStepInFlight>(row.input).output));
      prefix = extend(prefix, token);
      for (size_t group = 0; group < memory_.size(); ++group) {
        if (!is_state(group)) {
          memory_[group].at(place(row, group, row.first_position + i)) = prefix;
        }
      }
    }
    for (size_t group = 0; group < memory_.size(); ++group) {
      if (is_state(group)) {
        memory_[group].at(static_cast<size_t>(row.state_out.value())) = prefix;
      }
    }
    if (row.samples) {
      sampled.push_back(next_token(prefix, vocab_tokens_));
    }
  }
  return sampled;
}

void FakeDevice::copy_pages(const Row& row) {
  for (const kvcache::PageCopy& copy : row.copies) {
    std::vector<uint64_t>& memory = memory_.at(static_cast<size_t>(copy.group));
    const auto page = [&](PageId id) {
      return memory.begin() + static_cast<int32_t>(id) * spec_.page_tokens;
    };
    std::copy_n(page(copy.from), spec_.page_tokens, page(copy.to));
  }
}

void FakeDevice::check_reads(const Row& row, const std::vector<uint64_t>& prefixes) const {
  for (size_t group = 0; group < memory_.size(); ++group) {
    if (is_state(group)) {
      continue;
    }
    const int32_t window = spec_.groups[group].window;
    const int32_t first =
        spec_.groups[group].kind == GroupKind::window ? row.first_position - window + 1 : 0;
    const auto end =
        std::min<int32_t>(row.first_position + row.count, static_cast<int32_t>(prefixes.size()));
    for (int32_t position = std::max(first, 0); position < end; ++position) {
      ASSERT_EQ(memory_[group].at(place(row, group, position)),
                prefixes[static_cast<size_t>(position)])
          << "position " << position << " of sequence " << static_cast<uint64_t>(row.sequence)
          << " in group " << group << " holds something else";
    }
  }
}

void FakeDevice::spoil(const StepPlan& plan) {
  for (const Row& row : plan.rows) {
    for (const kvcache::PageCopy& copy : row.copies) {
      const auto page = memory_.at(static_cast<size_t>(copy.group)).begin() +
                        static_cast<int32_t>(copy.to) * spec_.page_tokens;
      std::fill_n(page, spec_.page_tokens, 0);
    }
    for (size_t group = 0; group < memory_.size(); ++group) {
      if (is_state(group)) {
        memory_[group].at(static_cast<size_t>(row.state_out.value())) = 0;
        continue;
      }
      for (int32_t i = 0; i < row.count; ++i) {
        memory_[group].at(place(row, group, row.first_position + i)) = 0;
      }
    }
  }
}

size_t FakeDevice::place(const Row& row, size_t group, int32_t position) const {
  const kvcache::PageTable& table = row.page_groups.at(group);
  int32_t block = position / spec_.page_tokens - table.first_block;
  CHECK(block >= 0, "a position whose page was given up");
  for (const kvcache::PageRun& run : table.runs) {
    if (block < run.count) {
      const int32_t page = static_cast<int32_t>(run.first) + block;
      CHECK(page > 0, "the sink is nobody's page");
      return static_cast<size_t>(page * spec_.page_tokens + position % spec_.page_tokens);
    }
    block -= run.count;
  }
  CHECK(false, "a position without a page");
  return 0;
}

bool FakeDevice::is_state(size_t group) const {
  return spec_.groups[group].kind == GroupKind::state;
}

}  // namespace pome::simulation
