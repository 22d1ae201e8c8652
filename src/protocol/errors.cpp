#include "protocol/errors.h"

namespace pome::protocol {
namespace {

struct CodeRow {
  ErrorCode code;
  int status;
  const char* type;
  const char* name;  // the "code" of the body where the field at fault does not say it better
};

constexpr CodeRow kCodes[] = {
    {ErrorCode::invalid_argument, 400, "invalid_request_error", nullptr},
    {ErrorCode::unauthorized, 401, "authentication_error", "invalid_api_key"},
    {ErrorCode::forbidden, 403, "permission_error", "forbidden"},
    {ErrorCode::not_found, 404, "not_found_error", "not_found"},
    {ErrorCode::method_not_allowed, 405, "invalid_request_error", "method_not_allowed"},
    {ErrorCode::timeout, 408, "timeout_error", "request_timeout"},
    {ErrorCode::too_large, 413, "invalid_request_error", "request_too_large"},
    {ErrorCode::unsupported_media, 415, "invalid_request_error", "unsupported_media_type"},
    {ErrorCode::queue_full, 429, "rate_limit_error", "queue_full"},
    {ErrorCode::cancelled, 499, "cancelled_error", "request_cancelled"},
    {ErrorCode::internal, 500, "internal_server_error", "internal_error"},
    {ErrorCode::unavailable, 503, "service_unavailable_error", "unavailable"},
};

const CodeRow& row_of(ErrorCode code) {
  for (const CodeRow& row : kCodes) {
    if (row.code == code) {
      return row;
    }
  }
  CHECK(false, "an error code without an HTTP status");
  return kCodes[0];
}

}  // namespace

int http_status(ErrorCode code) {
  return row_of(code).status;
}

std::string_view error_type(ErrorCode code) {
  return row_of(code).type;
}

json::object error_body(const Error& error) {
  const CodeRow& row = row_of(error.code);
  json::object inner;
  inner["message"] = error.message;
  inner["type"] = row.type;
  inner["param"] = error.field.empty() ? json::value(nullptr) : json::value(error.field);
  inner["code"] = row.name == nullptr ? json::value(nullptr) : json::value(row.name);
  if (error.code == ErrorCode::not_found && error.field == "model") {
    inner["code"] = "model_not_found";
  }
  json::object body;
  body["error"] = std::move(inner);
  return body;
}

std::string sse_event(const json::value& value) {
  return "data: " + to_string(value) + "\n\n";
}

}  // namespace pome::protocol
