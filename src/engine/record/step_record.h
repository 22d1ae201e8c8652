#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "sampling/params.h"
#include "scheduler/step_plan.h"

namespace pome::engine {

// The first line: the pool that the plans' pages are of.
struct RecordedPool {
  int32_t page_tokens = 0;
  std::vector<int32_t> group_pages = {};  // by cache group, the sink included
};

struct RecordedSequence {
  SequenceId sequence{};
  std::vector<Token> prompt = {};
  std::vector<Token> stop_tokens = {};
  uint64_t seed = 0;
  sampling::Params sampling = {};
};

// The tokens of a committed step that stood, in the order of its rows.
struct RecordedTokens {
  int64_t step = 0;
  std::vector<std::pair<SequenceId, Token>> tokens = {};
};

// An exception ended the step.
struct RecordedFault {
  int64_t step = 0;
};

using RecordLine = std::variant<RecordedPool, RecordedSequence, scheduler::StepPlan, RecordedTokens,
                                RecordedFault>;

json::object to_json(const RecordLine& line);
Result<RecordLine> record_line_from_json(const json::value& value);

// Writes a record. Off until it is opened; write() costs one branch then.
class StepRecorder {
 public:
  // Truncates the file. Refused with the flag's name when it cannot be written.
  Status open(const std::filesystem::path& path);
  bool is_open() const { return file_.is_open(); }
  // At once on disk, for the line before a crash is the one that is wanted.
  void write(const RecordLine& line);

 private:
  std::ofstream file_;
};

class StepRecordReader {
 public:
  static Result<StepRecordReader> open(const std::filesystem::path& path);
  // The next line, or nothing at the end. A last line that was cut off is the end.
  Result<std::optional<RecordLine>> next();
  int64_t line() const { return line_; }  // the number of the line read last, from 1

 private:
  std::ifstream file_;
  int64_t line_ = 0;
};

}  // namespace pome::engine
