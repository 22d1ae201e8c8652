#include "protocol/native/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "protocol/object_reader.h"

namespace pome::protocol::native {
namespace {

using enum FieldUse;

constexpr size_t kFolderBytesMax = 1024;
constexpr size_t kPrefixBytesMax = 64;
constexpr int64_t kStepsMax = 1'000'000'000;

constexpr Field kProfile[] = {
    {"output_dir", honoured, "a folder below the server's SGLANG_TORCH_PROFILER_DIR, or in it"},
    {"start_step", honoured, "the engine's step that the profile begins with; default: the next"},
    {"num_steps", honoured, "the profile ends after so many steps; default: with /stop_profile"},
    {"activities", honoured,
     "`CPU`: a trace for Perfetto; `GPU`: a Metal capture too, where the server can make one"},
    {"profile_prefix", honoured,
     "what the files' names begin with: up to 64 of letters, digits, `.`, `_` and `-`"},
    {"profile_id", honoured, "stands after the prefix, in place of the time; the same characters"},
    {"merge_profiles", hint, "one process serves, so there is one trace"},
    {"with_stack", refused, "Instruments records stacks: docs/benchmarks.md", is_false},
    {"record_shapes", refused, "a trace has each step's rows and tokens", is_false},
    {"profile_by_stage", refused, "a step has rows of both stages; the trace shows them", is_false},
    {"profile_stages", refused, "a step has rows of both stages; the trace shows them", is_empty},
};

// SGLang's clients write numbers as strings too.
std::optional<int64_t> step_count(ObjectReader& reader, std::string_view name, int64_t lowest) {
  const json::value* value = reader.value(name);
  if (value == nullptr || !value->is_string()) {
    return reader.integer(name, {lowest, kStepsMax});
  }
  const json::string& text = value->get_string();
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number < lowest ||
      number > kStepsMax) {
    reader.fail(name, fmt::format("expected a whole number from {} to {}", lowest, kStepsMax));
    return std::nullopt;
  }
  return number;
}

std::string file_word(ObjectReader& reader, std::string_view name) {
  const std::string word = reader.string(name, kPrefixBytesMax).value_or("");
  const bool plain = std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (!plain || word.starts_with('.')) {
    reader.fail(name, "expected letters, digits, '.', '_' and '-', and no '.' at the beginning");
  }
  return word;
}

void read_activities(ObjectReader& reader, ProfileRequest& request) {
  const json::array* list = reader.array("activities");
  if (list == nullptr || list->empty()) {
    return;
  }
  bool cpu = false;
  request.gpu = false;
  for (const json::value& item : *list) {
    if (item == "CPU") {
      cpu = true;
    } else if (item == "GPU") {
      request.gpu = true;
    } else {
      reader.fail("activities",
                  fmt::format("expected CPU and GPU, got {}; the system's own profiler records the "
                              "rest (docs/benchmarks.md)",
                              printable(to_string(item)).substr(0, 40)));
    }
  }
  request.gpu_alone = request.gpu && !cpu;
}

}  // namespace

const FieldTable& profile_fields() {
  static constexpr FieldTable table{"POST /start_profile", kProfile};
  return table;
}

Result<ProfileRequest> parse_profile_request(const json::value& body) {
  ProfileRequest request;
  const auto object = request_object(body, profile_fields(), request.hints);
  if (!object) {
    return object.error();
  }
  ObjectReader reader(**object);
  request.output_dir = reader.string("output_dir", kFolderBytesMax).value_or("");
  if (request.output_dir.find('\0') != std::string::npos) {
    reader.fail("output_dir", "expected a path without NUL");
  }
  request.start_step = step_count(reader, "start_step", 0);
  request.num_steps = step_count(reader, "num_steps", 1);
  request.prefix = file_word(reader, "profile_prefix");
  if (const std::string id = file_word(reader, "profile_id"); !id.empty()) {
    request.prefix += (request.prefix.empty() ? "" : "-") + id;
  }
  read_activities(reader, request);
  POME_TRY(reader.status());
  return request;
}

}  // namespace pome::protocol::native
