#include "protocol/native/parsing.h"

#include <fmt/format.h>

#include "protocol/field_table.h"
#include "protocol/generation_fields.h"
#include "protocol/native/fields.h"
#include "protocol/object_reader.h"

namespace pome::protocol::native {
namespace {

std::string read_text(ObjectReader& reader) {
  std::optional<std::string> text = reader.string("text", std::string::npos);
  if (!text) {
    reader.fail("text", "expected a string");
  }
  return text.value_or("");
}

}  // namespace

Result<ParseCallsRequest> parse_calls_request(const json::value& body) {
  std::vector<std::string> hints;
  const auto object = request_object(body, parse_calls_fields(), hints);
  if (!object) {
    return object.error();
  }
  ParseCallsRequest request;
  ObjectReader reader(**object);
  request.text = read_text(reader);
  request.parser = reader.string("tool_call_parser", kNameBytesMax).value_or("");
  if (const json::array* tools = reader.array("tools")) {
    request.tools = *tools;
    for (const json::value& tool : *tools) {
      if (!tool.is_object()) {
        reader.fail("tools", fmt::format("expected objects, got {}", json_type_name(tool)));
        break;
      }
    }
  }
  POME_TRY(reader.status());
  return request;
}

Result<SeparateReasoningRequest> parse_separate_reasoning_request(const json::value& body) {
  std::vector<std::string> hints;
  const auto object = request_object(body, separate_reasoning_fields(), hints);
  if (!object) {
    return object.error();
  }
  SeparateReasoningRequest request;
  ObjectReader reader(**object);
  request.text = read_text(reader);
  request.parser = reader.string("reasoning_parser", kNameBytesMax).value_or("");
  POME_TRY(reader.status());
  return request;
}

}  // namespace pome::protocol::native
