#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "protocol/field_table.h"

namespace pome::protocol::native {

// What POST /start_profile is asked. An empty body asks for all defaults.
struct ProfileRequest {
  std::string output_dir = {};  // empty: the server's own
  std::string prefix = {};      // plain letters, for file names
  std::optional<int64_t> start_step = {};
  std::optional<int64_t> num_steps = {};
  bool gpu = true;         // a capture too: activity GPU
  bool gpu_alone = false;  // of the activities only GPU was named
  std::vector<std::string> hints = {};
};
Result<ProfileRequest> parse_profile_request(const json::value& body);

const FieldTable& profile_fields();

}  // namespace pome::protocol::native
