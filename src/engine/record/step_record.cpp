#include "engine/record/step_record.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

#include "scheduler/step_plan_json.h"

namespace pome::engine {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

template <typename T>
json::array numbers(const std::vector<T>& values) {
  json::array array;
  for (const T value : values) {
    array.emplace_back(value);
  }
  return array;
}

json::object line_of(const RecordedPool& pool) {
  return {{"page_tokens", pool.page_tokens}, {"group_pages", numbers(pool.group_pages)}};
}

// A parameter that is not finite has no JSON; requests with one are refused before they get here.
json::object line_of(const RecordedSequence& one) {
  const sampling::Params& p = one.sampling;
  json::array bias;
  for (const auto& [token, add] : p.logit_bias) {
    bias.push_back(json::array{token, add});
  }
  return {{"prompt", numbers(one.prompt)},
          {"sequence", static_cast<uint64_t>(one.sequence)},
          {"stop_tokens", numbers(one.stop_tokens)},
          {"seed", one.seed},
          {"temperature", p.temperature},
          {"top_p", p.top_p},
          {"top_k", p.top_k},
          {"min_p", p.min_p},
          {"frequency_penalty", p.frequency_penalty},
          {"presence_penalty", p.presence_penalty},
          {"repetition_penalty", p.repetition_penalty},
          {"logit_bias", std::move(bias)},
          {"min_tokens", p.min_tokens}};
}

json::object line_of(const scheduler::StepPlan& plan) {
  return scheduler::to_json(plan);
}

json::object line_of(const RecordedTokens& said) {
  json::array tokens;
  for (const auto& [sequence, token] : said.tokens) {
    tokens.push_back(json::array{static_cast<uint64_t>(sequence), token});
  }
  return {{"committed", said.step}, {"tokens", std::move(tokens)}};
}

json::object line_of(const RecordedFault& fault) {
  return {{"failed", fault.step}};
}

// Keeps the first error, so that the readers below stay flat.
class Fields {
 public:
  explicit Fields(const json::object& object) : object_(object) {}

  const json::value& at(std::string_view key) {
    static const json::value kNull;
    const json::value* value = find(object_, key);
    return value != nullptr ? *value : (fail(fmt::format("expected the key '{}'", key)), kNull);
  }
  int64_t integer(const json::value& value, int64_t low, int64_t high) {
    const std::optional<int64_t> number = as_int(value);
    if (!number || *number < low || *number > high) {
      fail("expected an integer in range");
      return low;
    }
    return *number;
  }
  int32_t int32(const json::value& value, int64_t low) {
    return static_cast<int32_t>(integer(value, low, kInt32Max));
  }
  uint64_t uint64(const json::value& value) {
    if (value.is_uint64()) {  // Boost.JSON's kind for what a signed integer cannot hold
      return value.get_uint64();
    }
    return static_cast<uint64_t>(integer(value, 0, std::numeric_limits<int64_t>::max()));
  }
  float number(const json::value& value) {
    if (!value.is_number()) {
      fail("expected a number");
      return 0.0f;
    }
    return value.to_number<float>();
  }
  const json::array& array(const json::value& value) {
    static const json::array kEmpty;
    return value.is_array() ? value.get_array() : (fail("expected an array"), kEmpty);
  }
  std::vector<int32_t> int32s(const json::value& value, int64_t low) {
    std::vector<int32_t> values;
    for (const json::value& item : array(value)) {
      values.push_back(int32(item, low));
    }
    return values;
  }
  const json::array& pair(const json::value& value) {
    static const json::array kZeros{0, 0};
    const json::array& items = array(value);
    return items.size() == 2 ? items : (fail("expected a pair"), kZeros);
  }
  void fail(std::string why) {
    if (!error) {
      error = invalid("[record] " + std::move(why));
    }
  }
  std::optional<Error> error = {};

 private:
  const json::object& object_;
};

RecordedSequence sequence_from(Fields& in) {
  RecordedSequence one;
  one.sequence = SequenceId{in.uint64(in.at("sequence"))};
  one.prompt = in.int32s(in.at("prompt"), 0);
  one.stop_tokens = in.int32s(in.at("stop_tokens"), 0);
  one.seed = in.uint64(in.at("seed"));
  sampling::Params& p = one.sampling;
  p.temperature = in.number(in.at("temperature"));
  p.top_p = in.number(in.at("top_p"));
  p.top_k = in.int32(in.at("top_k"), -1);
  p.min_p = in.number(in.at("min_p"));
  p.frequency_penalty = in.number(in.at("frequency_penalty"));
  p.presence_penalty = in.number(in.at("presence_penalty"));
  p.repetition_penalty = in.number(in.at("repetition_penalty"));
  for (const json::value& item : in.array(in.at("logit_bias"))) {
    const json::array& entry = in.pair(item);
    p.logit_bias[in.int32(entry[0], 0)] = in.number(entry[1]);
  }
  p.min_tokens = in.int32(in.at("min_tokens"), 0);
  if (one.prompt.empty()) {
    in.fail("expected a prompt");
  }
  return one;
}

RecordedTokens tokens_from(Fields& in) {
  RecordedTokens said;
  said.step = in.integer(in.at("committed"), 0, std::numeric_limits<int64_t>::max());
  for (const json::value& item : in.array(in.at("tokens"))) {
    const json::array& entry = in.pair(item);
    said.tokens.emplace_back(SequenceId{in.uint64(entry[0])}, in.int32(entry[1], 0));
  }
  return said;
}

RecordedPool pool_from(Fields& in) {
  return {.page_tokens = in.int32(in.at("page_tokens"), 1),
          .group_pages = in.int32s(in.at("group_pages"), 2)};
}

}  // namespace

json::object to_json(const RecordLine& line) {
  return std::visit([](const auto& kind) { return line_of(kind); }, line);
}

Result<RecordLine> record_line_from_json(const json::value& value) {
  if (!value.is_object()) {
    return invalid("[record] expected an object");
  }
  const json::object& object = value.get_object();
  if (find(object, "rows") != nullptr) {
    auto plan = scheduler::step_plan_from_json(value);
    return plan ? Result<RecordLine>(std::move(*plan)) : plan.error();
  }
  Fields in(object);
  RecordLine line;
  if (find(object, "prompt") != nullptr) {
    line = sequence_from(in);
  } else if (find(object, "committed") != nullptr) {
    line = tokens_from(in);
  } else if (find(object, "failed") != nullptr) {
    line = RecordedFault{in.integer(in.at("failed"), 0, std::numeric_limits<int64_t>::max())};
  } else {
    line = pool_from(in);
  }
  if (in.error) {
    return *in.error;
  }
  return line;
}

Status StepRecorder::open(const std::filesystem::path& path) {
  file_.open(path, std::ios::trunc);
  if (!file_) {
    return invalid(fmt::format("[--record-steps] cannot write to {}", path.string()));
  }
  return {};
}

void StepRecorder::write(const RecordLine& line) {
  if (file_.is_open()) {
    file_ << to_string(to_json(line)) << '\n' << std::flush;
  }
}

Result<StepRecordReader> StepRecordReader::open(const std::filesystem::path& path) {
  StepRecordReader reader;
  reader.file_.open(path);
  if (!reader.file_) {
    return invalid(fmt::format("[record] cannot read {}", path.string()));
  }
  return reader;
}

Result<std::optional<RecordLine>> StepRecordReader::next() {
  std::string text;
  if (!std::getline(file_, text)) {
    return std::optional<RecordLine>();
  }
  ++line_;
  const bool cut = file_.eof();  // the writer ends each line
  const auto value = parse_json(text);
  auto line = value ? record_line_from_json(*value) : Result<RecordLine>(value.error());
  if (!line) {
    if (cut) {
      return std::optional<RecordLine>();
    }
    return invalid(fmt::format("line {}: {}", line_, line.error().message));
  }
  return std::optional<RecordLine>(std::move(*line));
}

}  // namespace pome::engine
