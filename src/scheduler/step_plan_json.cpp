#include "scheduler/step_plan_json.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace pome::scheduler {
namespace {

template <typename T>
json::array numbers(const std::vector<T>& values) {
  json::array array;
  for (const T value : values) {
    array.emplace_back(static_cast<int64_t>(value));
  }
  return array;
}

json::object input_to_json(const RowInput& input) {
  if (const auto* host = std::get_if<HostTokens>(&input)) {
    return {{"tokens", numbers(host->tokens)}};
  }
  if (const auto* flight = std::get_if<FromStepInFlight>(&input)) {
    return {{"from_output", flight->output}};
  }
  const auto& span = std::get<EmbeddingSpan>(input);
  return {{"embedding", span.embedding}, {"first", span.first}};
}

// Threes: group, from, to.
json::array copies_to_json(const std::vector<kvcache::PageCopy>& copies) {
  json::array array;
  for (const kvcache::PageCopy& copy : copies) {
    array.push_back(
        json::array{copy.group, static_cast<int32_t>(copy.from), static_cast<int32_t>(copy.to)});
  }
  return array;
}

json::object row_to_json(const Row& row) {
  json::array outputs;
  for (const OutputSpan& span : row.outputs) {
    outputs.push_back(json::array{span.begin, static_cast<int32_t>(span.kind)});
  }
  json::array groups;
  for (const kvcache::PageTable& table : row.page_groups) {
    json::array runs;
    for (const kvcache::PageRun& run : table.runs) {
      runs.push_back(json::array{static_cast<int32_t>(run.first), run.count});
    }
    groups.push_back(json::object{{"first_block", table.first_block}, {"runs", std::move(runs)}});
  }
  json::object object{{"sequence", static_cast<uint64_t>(row.sequence)},
                      {"slot", static_cast<int32_t>(row.slot)},
                      {"first_position", row.first_position},
                      {"count", row.count},
                      {"input", input_to_json(row.input)},
                      {"outputs", std::move(outputs)},
                      {"samples", row.samples},
                      {"pages", std::move(groups)}};
  if (!row.copies.empty()) {
    object["copies"] = copies_to_json(row.copies);
  }
  if (!row.tree_parents.empty()) {
    object["tree_parents"] = numbers(row.tree_parents);
  }
  if (row.state_in) {
    object["state_in"] = static_cast<int32_t>(*row.state_in);
  }
  if (row.state_out) {
    object["state_out"] = static_cast<int32_t>(*row.state_out);
  }
  return object;
}

// Reads with the first error kept, so that the code below stays flat.
class Reader {
 public:
  int64_t integer(const json::value& value, int64_t low, int64_t high) {
    const std::optional<int64_t> number = as_int(value);
    if (!number || *number < low || *number > high) {
      fail("expected an integer in range");
      return low;
    }
    return *number;
  }
  uint64_t uint64(const json::value& value) {
    if (value.is_uint64()) {  // Boost.JSON's kind for what a signed integer cannot hold
      return value.get_uint64();
    }
    return static_cast<uint64_t>(integer(value, 0, std::numeric_limits<int64_t>::max()));
  }
  int32_t int32(const json::value& value, int32_t low) {
    return static_cast<int32_t>(integer(value, low, std::numeric_limits<int32_t>::max()));
  }
  bool boolean(const json::value& value) {
    if (!value.is_bool()) {
      fail("expected true or false");
      return false;
    }
    return value.get_bool();
  }
  const json::value& field(const json::object& object, std::string_view key) {
    const json::value* value = find(object, key);
    return value != nullptr ? *value : fail(fmt::format("expected the key '{}'", key));
  }
  const json::array& array(const json::value& value) {
    static const json::array kEmpty;
    if (!value.is_array()) {
      fail("expected an array");
      return kEmpty;
    }
    return value.get_array();
  }
  const json::object& object(const json::value& value) {
    static const json::object kEmpty;
    if (!value.is_object()) {
      fail("expected an object");
      return kEmpty;
    }
    return value.get_object();
  }
  const json::value& fail(std::string why) {
    static const json::value kNull;
    if (!error) {
      error = invalid("[step plan] " + std::move(why));
    }
    return kNull;
  }
  std::optional<Error> error = {};
};

std::vector<int32_t> int32s(Reader& in, const json::value& value, int32_t low) {
  std::vector<int32_t> numbers;
  for (const json::value& item : in.array(value)) {
    numbers.push_back(in.int32(item, low));
  }
  return numbers;
}

RowInput input_from_json(Reader& in, const json::object& object) {
  if (const json::value* tokens = find(object, "tokens")) {
    return HostTokens{int32s(in, *tokens, 0)};
  }
  if (const json::value* row = find(object, "from_output")) {
    return FromStepInFlight{in.int32(*row, 0)};
  }
  return EmbeddingSpan{
      in.integer(in.field(object, "embedding"), std::numeric_limits<int64_t>::min(),
                 std::numeric_limits<int64_t>::max()),
      in.int32(in.field(object, "first"), 0)};
}

std::pair<int32_t, int32_t> pair_of(Reader& in, const json::value& value, int32_t second_low) {
  const json::array& array = in.array(value);
  if (array.size() != 2) {
    in.fail("expected a pair");
    return {0, second_low};
  }
  return {in.int32(array[0], 0), in.int32(array[1], second_low)};
}

Row row_from_json(Reader& in, const json::object& object) {
  Row row;
  row.sequence = SequenceId{in.uint64(in.field(object, "sequence"))};
  row.slot = SlotId{in.int32(in.field(object, "slot"), 0)};
  row.first_position = in.int32(in.field(object, "first_position"), 0);
  row.count = in.int32(in.field(object, "count"), 1);
  row.input = input_from_json(in, in.object(in.field(object, "input")));
  for (const json::value& item : in.array(in.field(object, "outputs"))) {
    const auto [begin, kind] = pair_of(in, item, 1);
    if (kind > 2 || begin >= row.count) {
      in.fail("expected an output inside the row");
    }
    row.outputs.push_back({begin, kind == 1 ? OutputKind::logits : OutputKind::hidden});
  }
  row.samples = in.boolean(in.field(object, "samples"));
  for (const json::value& group : in.array(in.field(object, "pages"))) {
    const json::object& fields = in.object(group);
    kvcache::PageTable& table = row.page_groups.emplace_back();
    table.first_block = in.int32(in.field(fields, "first_block"), 0);
    for (const json::value& item : in.array(in.field(fields, "runs"))) {
      const auto [first, count] = pair_of(in, item, 1);
      table.runs.push_back({PageId{first}, count});
    }
  }
  if (const json::value* copies = find(object, "copies")) {
    for (const json::value& item : in.array(*copies)) {
      const std::vector<int32_t> numbers = int32s(in, item, 0);
      if (numbers.size() != 3) {
        in.fail("expected group, from and to of a copy");
        break;
      }
      row.copies.push_back({numbers[0], PageId{numbers[1]}, PageId{numbers[2]}});
    }
  }
  if (const json::value* parents = find(object, "tree_parents")) {
    row.tree_parents = int32s(in, *parents, -1);
  }
  if (const json::value* state = find(object, "state_in")) {
    row.state_in = SlotId{in.int32(*state, 0)};
  }
  if (const json::value* state = find(object, "state_out")) {
    row.state_out = SlotId{in.int32(*state, 0)};
  }
  return row;
}

}  // namespace

json::object to_json(const StepPlan& plan) {
  json::array rows;
  for (const Row& row : plan.rows) {
    rows.push_back(row_to_json(row));
  }
  return {{"step", plan.step}, {"rows", std::move(rows)}};
}

Result<StepPlan> step_plan_from_json(const json::value& value) {
  Reader in;
  StepPlan plan;
  const json::object& object = in.object(value);
  plan.step = in.integer(in.field(object, "step"), 0, std::numeric_limits<int64_t>::max());
  for (const json::value& row : in.array(in.field(object, "rows"))) {
    plan.rows.push_back(row_from_json(in, in.object(row)));
    if (in.error) {
      break;
    }
  }
  if (in.error) {
    return *in.error;
  }
  return plan;
}

}  // namespace pome::scheduler
