#include "protocol/native/parsing.h"

#include <fmt/format.h>

#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"
#include "text/answer/answer_parser.h"

// Finished texts read as the answers of a model are.
namespace pome::server {
namespace {

namespace native = protocol::native;

Error unknown(std::string_view field, const std::vector<std::string>& known) {
  return invalid(fmt::format("'{}': expected one of {}", field, fmt::join(known, ", ")),
                 std::string(field));
}

Error unnamed(std::string_view field) {
  return invalid(fmt::format("'{}': name one, because the served model has none", field),
                 std::string(field));
}

json::array calls_body(const std::vector<text::ToolEvent>& events) {
  json::array calls;
  std::string arguments;
  std::string name;
  for (const text::ToolEvent& event : events) {
    if (event.kind == text::ToolEvent::Kind::call_begins) {
      name = event.text;
      arguments.clear();
    } else if (event.kind == text::ToolEvent::Kind::arguments) {
      arguments += event.text;
    } else if (event.kind == text::ToolEvent::Kind::call_ends) {
      calls.push_back(
          json::object{{"tool_index", calls.size()}, {"name", name}, {"parameters", arguments}});
    }
  }
  return calls;
}

Result<json::object> parse_calls(const ServerContext& context, const Request& http) {
  const Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  const Result<native::ParseCallsRequest> request = native::parse_calls_request(*body);
  if (!request) {
    return request.error();
  }
  const std::string name =
      request->parser.empty() ? context.text.forms.calls_name() : request->parser;
  if (name.empty()) {
    return unnamed("tool_call_parser");
  }
  const std::optional<text::ToolDialect> dialect = text::find_tool_dialect(name);
  if (!dialect) {
    return unknown("tool_call_parser", text::tool_dialect_names());
  }
  const text::AnswerDelta read = text::AnswerParser({.forms = {.calls = dialect},
                                                     .tools = text::DeclaredTools(request->tools)})
                                     .finish(request->text);
  return json::object{{"normal_text", read.content}, {"calls", calls_body(read.calls)}};
}

Result<json::object> separate_reasoning(const ServerContext& context, const Request& http) {
  const Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  const auto request = native::parse_separate_reasoning_request(*body);
  if (!request) {
    return request.error();
  }
  const std::string name =
      request->parser.empty() ? context.text.forms.reasoning_name() : request->parser;
  if (name.empty()) {
    return unnamed("reasoning_parser");
  }
  const text::ReasoningStyle* style = text::find_reasoning_style(name);
  if (style == nullptr) {
    return unknown("reasoning_parser", text::reasoning_style_names());
  }
  const text::AnswerDelta read =
      text::AnswerParser({.forms = {.reasoning = style}, .begins_inside = style->begins_inside})
          .finish(request->text);
  return json::object{{"reasoning_text", read.reasoning}, {"text", read.content}};
}

}  // namespace

asio::awaitable<void> handle_parse_calls(ServerContext& context, Exchange& exchange) {
  return reply_with(context, exchange, parse_calls);
}

asio::awaitable<void> handle_separate_reasoning(ServerContext& context, Exchange& exchange) {
  return reply_with(context, exchange, separate_reasoning);
}

}  // namespace pome::server
