#include "hub/transfer/http.h"

#include <fmt/format.h>

#include <exception>
#include <string_view>

#include "base/json.h"
#include "bridge/bridge.h"
#include "hub/transfer/settings.h"
#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

struct Exchange {
  const HttpSink& sink;
  const std::atomic<bool>* stop;
  HttpResponse head;
  std::exception_ptr thrown;  // must not cross the Rust frames
};

HttpResponse parse_head(std::string_view text) {
  HttpResponse head;
  const auto parsed = parse_json(text);
  if (!parsed || !parsed.value().is_object()) {
    return head;
  }
  const json::object& object = parsed.value().get_object();
  head.status = static_cast<int>(find_int(object, "status").value_or(0));
  head.url = find_string(object, "url").value_or("");
  if (const json::object* headers = find_object(object, "headers")) {
    for (const auto& [name, value] : *headers) {
      head.headers[lower_case(name)] = value.is_string() ? std::string(value.get_string()) : "";
    }
  }
  return head;
}

int32_t on_head(void* context, PomeText text) {
  auto& exchange = *static_cast<Exchange*>(context);
  try {
    exchange.head = parse_head({reinterpret_cast<const char*>(text.data), text.bytes});
    return !exchange.sink.on_head || exchange.sink.on_head(exchange.head) ? 0 : 1;
  } catch (...) {
    exchange.thrown = std::current_exception();
    return 1;
  }
}

int32_t on_body(void* context, PomeText part) {
  auto& exchange = *static_cast<Exchange*>(context);
  try {
    const std::span bytes(reinterpret_cast<const std::byte*>(part.data), part.bytes);
    return !exchange.sink.on_body || exchange.sink.on_body(bytes) ? 0 : 1;
  } catch (...) {
    exchange.thrown = std::current_exception();
    return 1;
  }
}

int32_t stop_asked(void* context) {
  return static_cast<const Exchange*>(context)->stop->load() ? 1 : 0;
}

Error explain(int32_t code, const HttpRequest& request, std::string_view message) {
  const std::string host = url_host(request.url);
  switch (code) {
    case POME_HTTP_STOPPED:
      return {ErrorCode::cancelled, "stopped", ""};
    case POME_HTTP_TIMEOUT:
      return {ErrorCode::timeout, fmt::format("{} did not answer in time", host), ""};
    case POME_HTTP_UNREACHABLE:
      return {ErrorCode::unavailable,
              fmt::format("cannot reach {} ({}): is the network up, and HTTPS_PROXY right?", host,
                          message),
              ""};
    case POME_HTTP_TLS:
      return {ErrorCode::unavailable,
              fmt::format("the certificate of {} was not accepted ({}): a company's own CA belongs "
                          "into SSL_CERT_FILE",
                          host, message),
              ""};
    case POME_HTTP_BROKEN:
      return {ErrorCode::unavailable, fmt::format("the connection to {} broke ({})", host, message),
              ""};
    case POME_REFUSED:
      return invalid(fmt::format("cannot send a request to {}: {}", host, message));
    default:
      return {ErrorCode::internal, fmt::format("[http] {}", message), ""};
  }
}

}  // namespace

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

Result<HttpResponse> http_exchange(const HttpRequest& request, const HttpSink& sink) {
  json::object headers;
  for (const auto& [name, value] : request.headers) {
    headers[name] = value;
  }
  const json::object object = {{"method", request.method},
                               {"url", request.url},
                               {"headers", headers},
                               {"body", request.body},
                               {"ca_file", request.ca_file},
                               {"proxy", request.proxy},
                               {"redirects", request.redirects_max},
                               {"connect_timeout_s", request.connect_timeout_s},
                               {"read_timeout_s", request.read_timeout_s}};
  const std::string text = to_string(json::value(object));
  Exchange exchange{sink, request.stop, {}, nullptr};
  bridge::Buffer error;
  const int32_t code =
      pome_http_exchange(bridge::text(text), on_head, on_body, request.stop ? stop_asked : nullptr,
                         &exchange, error.out());
  if (exchange.thrown) {
    std::rethrow_exception(exchange.thrown);
  }
  if (code != POME_OK) {
    return explain(code, request, error.text());
  }
  return std::move(exchange.head);
}

Result<HttpText> http_text(const HttpRequest& request, size_t bytes_max) {
  HttpText answer;
  bool too_long = false;
  HttpSink sink;
  sink.on_body = [&](std::span<const std::byte> part) {
    too_long = answer.body.size() + part.size() > bytes_max;
    if (!too_long) {
      answer.body.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    return !too_long;
  };
  auto head = http_exchange(request, sink);
  if (too_long) {
    return Error{ErrorCode::too_large,
                 fmt::format("{} sent more than {} bytes", url_host(request.url), bytes_max), ""};
  }
  if (!head) {
    return head.error();
  }
  answer.head = std::move(head).value();
  return answer;
}

}  // namespace pome::hub
