#include "engine/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "engine/compute_device.h"
#include "engine/record/step_record.h"
#include "engine/token_lane.h"
#include "models/llm/load_model.h"

namespace pome::engine {
namespace {

using scheduler::StepPlan;

class Replay {
 public:
  explicit Replay(StepRunner& runner) : runner_(runner) {}

  // False once nothing more can be replayed.
  bool take(const RecordLine& line) {
    if (const auto* sequence = std::get_if<RecordedSequence>(&line)) {
      states_.insert_or_assign(
          sequence->sequence,
          sampling::SequenceState(sequence->sampling, sequence->seed, sequence->prompt,
                                  sequence->stop_tokens, sampling::WantedLogprobs()));
    } else if (const auto* plan = std::get_if<StepPlan>(&line)) {
      if (runner_.steps_in_flight() > 1 || !inputs_are_there(*plan)) {
        report_.ended_by = fmt::format("step {} takes tokens that no step gives", plan->step);
        return false;
      }
      runner_.launch(*plan);
      sample_if_alone();
    } else if (const auto* said = std::get_if<RecordedTokens>(&line)) {
      return commit(*said);
    } else if (const auto* fault = std::get_if<RecordedFault>(&line)) {
      report_.ended_by = fmt::format("step {} failed when it was recorded", fault->step);
      return false;
    }
    return true;
  }

  const ReplayReport& report() const { return report_; }

 private:
  bool inputs_are_there(const StepPlan& plan) const {
    int32_t sampled = 0;
    if (runner_.steps_in_flight() == 1) {
      for (const scheduler::Row& row : runner_.oldest().rows) {
        sampled += row.samples ? 1 : 0;
      }
    }
    return std::all_of(plan.rows.begin(), plan.rows.end(), [&](const scheduler::Row& row) {
      const auto* flight = std::get_if<scheduler::FromStepInFlight>(&row.input);
      return flight == nullptr || flight->output < sampled;
    });
  }

  void sample_if_alone() {
    if (runner_.steps_in_flight() == 1) {
      runner_.sample([this](const scheduler::Row& row) {
        const auto state = states_.find(row.sequence);
        return RowSampling{.state = state == states_.end() ? nullptr : &state->second};
      });
    }
  }

  bool commit(const RecordedTokens& recorded) {
    if (runner_.steps_in_flight() == 0 || runner_.oldest().step != recorded.step) {
      report_.ended_by = fmt::format("step {} was committed and never launched", recorded.step);
      return false;
    }
    const StepPlan plan = runner_.oldest();
    const std::vector<Said> said = runner_.finish_oldest();
    ++report_.steps;
    std::map<SequenceId, Token> now;
    for (size_t r = 0; r < said.size(); ++r) {
      if (said[r].token) {
        now[plan.rows[r].sequence] = said[r].token->token;
      }
    }
    for (const auto& [sequence, token] : recorded.tokens) {
      const auto found = now.find(sequence);
      compare(recorded.step, sequence, token, found == now.end() ? -1 : found->second);
      // What was recorded goes on, so that one difference is not followed by nothing but others.
      if (const auto state = states_.find(sequence); state != states_.end()) {
        state->second.accept(token);
      }
    }
    if (runner_.steps_in_flight() == 1) {
      sample_if_alone();
    }
    return true;
  }

  void compare(int64_t step, SequenceId sequence, Token recorded, Token now) {
    ++report_.tokens;
    if (recorded == now) {
      return;
    }
    if (report_.different++ == 0) {
      report_.first_difference = fmt::format("step {}, sequence {}: recorded {}, now {}", step,
                                             static_cast<uint64_t>(sequence), recorded, now);
    }
  }

  StepRunner& runner_;
  std::map<SequenceId, sampling::SequenceState> states_;
  ReplayReport report_;
};

bool knows(const RecordedPool& pool, const kvcache::PageCopy& copy) {
  const auto group = static_cast<size_t>(copy.group);
  const auto known = [&](PageId page) {
    return static_cast<int32_t>(page) >= 1 && static_cast<int32_t>(page) < pool.group_pages[group];
  };
  return group < pool.group_pages.size() && known(copy.from) && known(copy.to);
}

// A record is a file from anywhere: what it names must exist.
Status check_plan(const StepPlan& plan, const RecordedPool& pool, int32_t vocab_tokens) {
  for (const scheduler::Row& row : plan.rows) {
    bool right = row.page_groups.size() == pool.group_pages.size() && row.count >= 1 &&
                 row.first_position <= std::numeric_limits<int32_t>::max() - row.count;
    for (size_t group = 0; right && group < row.page_groups.size(); ++group) {
      const kvcache::PageTable& table = row.page_groups[group];
      int64_t blocks = table.first_block;
      for (const kvcache::PageRun& run : table.runs) {
        right = right && static_cast<int32_t>(run.first) >= 1 &&
                int64_t{static_cast<int32_t>(run.first)} + run.count <= pool.group_pages[group];
        blocks += run.count;
      }
      right = right && table.first_block <= row.first_position / pool.page_tokens &&
              blocks * pool.page_tokens >= int64_t{row.first_position} + row.count;
    }
    right = right && std::all_of(row.copies.begin(), row.copies.end(),
                                 [&](const kvcache::PageCopy& copy) { return knows(pool, copy); });
    if (const auto* host = std::get_if<scheduler::HostTokens>(&row.input)) {
      right = right && static_cast<int32_t>(host->tokens.size()) == row.count &&
              std::all_of(host->tokens.begin(), host->tokens.end(),
                          [&](Token token) { return token >= 0 && token < vocab_tokens; });
    } else {
      right =
          right && row.count == 1 && std::holds_alternative<scheduler::FromStepInFlight>(row.input);
    }
    if (!right) {
      return invalid(
          fmt::format("[record] step {} names tokens or pages that are not there", plan.step));
    }
  }
  return {};
}

Status check_pool(const RecordedPool& pool, const kvcache::CacheSpec& spec) {
  if (pool.group_pages.size() != spec.groups.size()) {
    return invalid(
        fmt::format("[record] the record has {} cache groups and the model {}: is it "
                    "another model's?",
                    pool.group_pages.size(), spec.groups.size()));
  }
  return {};
}

}  // namespace

Result<ReplayReport> replay(const std::filesystem::path& record, const EngineOptions& options,
                            const ModelLoader& loader) {
  auto reader = StepRecordReader::open(record);
  if (!reader) {
    return reader.error();
  }
  auto first = reader->next();
  if (!first) {
    return first.error();
  }
  const auto* pool = *first ? std::get_if<RecordedPool>(&**first) : nullptr;
  if (pool == nullptr) {
    return invalid("[record] expected the pool's sizes in the first line");
  }
  POME_TRY(set_up_mlx(options));
  auto model = loader();
  if (!model) {
    return model.error();
  }
  const kvpool::KvPoolOptions in_pool = pool_options(options, pool->group_pages);
  kvcache::CacheSpec spec = cache_spec_of(**model, options, pool->page_tokens);
  POME_TRY(check_pool(*pool, spec));
  StepRunner runner(std::move(*model), std::move(spec), in_pool, options.trace);
  Replay replay(runner);
  try {
    while (true) {
      auto line = reader->next();
      if (!line) {
        return line.error();
      }
      if (const auto* plan = *line ? std::get_if<StepPlan>(&**line) : nullptr) {
        POME_TRY(check_plan(*plan, *pool, runner.model().info().vocab_tokens));
      }
      if (!*line || !replay.take(**line)) {
        return replay.report();
      }
    }
  } catch (const std::exception& fault) {
    return Error{
        ErrorCode::internal, fmt::format("[record] line {}: {}", reader->line(), fault.what()), {}};
  }
}

Result<ReplayReport> replay(const std::filesystem::path& record, const EngineOptions& options) {
  return replay(record, options, [&] { return models::load_model(options.model_path); });
}

}  // namespace pome::engine
