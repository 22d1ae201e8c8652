#include "server/journal/request_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>

namespace pome::server {
namespace {

// Milliseconds of UTC, as every log collector reads them.
std::string timestamp(std::chrono::system_clock::time_point at) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(at);
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(at - whole);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)), rest.count());
}

// As many digits as say something: JSON's printer would turn 0.7f into 0.699999988079071.
double shortened(float value) {
  return std::round(static_cast<double>(value) * 1e6) / 1e6;
}

// Numbers without JSON's exponents, objects member by member, everything else as JSON.
void append_pair(std::string& line, const std::string& name, const json::value& value) {
  if (const json::object* members = value.if_object()) {
    for (const auto& [member, inner] : *members) {
      append_pair(line, fmt::format("{}.{}", name, std::string_view(member.data(), member.size())),
                  inner);
    }
  } else if (value.is_double()) {
    line += fmt::format(" {}={}", name, value.get_double());
  } else {
    line += fmt::format(" {}={}", name, to_string(value));
  }
}

}  // namespace

std::string request_line(LogFormat format, std::string_view event, const json::object& fields,
                         std::chrono::system_clock::time_point at) {
  if (format == LogFormat::json) {
    json::object line{{"timestamp", timestamp(at)}, {"event", event}};
    for (const auto& [name, value] : fields) {
      line[name] = value;
    }
    return to_string(line);
  }
  std::string line(event);
  for (const auto& [name, value] : fields) {
    append_pair(line, std::string(name.data(), name.size()), value);
  }
  return line;
}

json::object sampling_body(const protocol::GenerationFields& fields) {
  const protocol::GenerationFields none;
  const sampling::Params& params = fields.sampling;
  json::object body{{"temperature", shortened(params.temperature)},
                    {"top_p", shortened(params.top_p)},
                    {"top_k", params.top_k}};
  const auto add = [&body](const char* name, float value, float neutral) {
    if (value != neutral) {
      body[name] = shortened(value);
    }
  };
  add("min_p", params.min_p, none.sampling.min_p);
  add("frequency_penalty", params.frequency_penalty, none.sampling.frequency_penalty);
  add("presence_penalty", params.presence_penalty, none.sampling.presence_penalty);
  add("repetition_penalty", params.repetition_penalty, none.sampling.repetition_penalty);
  if (params.seed) {
    body["seed"] = *params.seed;
  }
  if (params.min_tokens > 0) {
    body["min_tokens"] = params.min_tokens;
  }
  if (!params.logit_bias.empty()) {
    body["logit_biases"] = params.logit_bias.size();
  }
  if (!fields.stop.empty()) {
    body["stops"] = fields.stop.size();
  }
  if (fields.ignore_eos) {
    body["ignore_eos"] = true;
  }
  if (fields.top_logprobs >= 0) {
    body["top_logprobs"] = fields.top_logprobs;
  }
  return body;
}

std::string_view beginning_of(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) {
    return text;
  }
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

}  // namespace pome::server
