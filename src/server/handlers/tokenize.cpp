#include "protocol/native/tokenize.h"

#include "server/handlers/answer.h"
#include "server/handlers/handlers.h"

namespace pome::server {
namespace {

namespace native = protocol::native;

Result<json::object> tokenize(const ServerContext& context, const Request& http) {
  Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  Result<native::TokenizeRequest> request = native::parse_tokenize_request(*body);
  if (!request) {
    return request.error();
  }
  POME_TRY(check_model_name(context, request->model));
  const Result<int32_t> context_tokens = known_context(context);
  if (!context_tokens) {
    return context_tokens.error();
  }
  json::array lists;
  json::array counts;
  for (const std::string& prompt : request->prompts) {
    Result<std::vector<Token>> tokens =
        encode_prompt(context.text, prompt, request->add_special_tokens, *context_tokens, "prompt");
    if (!tokens) {
      return tokens.error();
    }
    counts.push_back(static_cast<int64_t>(tokens->size()));
    lists.push_back(json::array(tokens->begin(), tokens->end()));
  }
  json::object reply;
  reply["tokens"] = request->list ? json::value(std::move(lists)) : lists[0];
  reply["count"] = request->list ? json::value(std::move(counts)) : counts[0];
  reply["max_model_len"] = *context_tokens;
  return reply;
}

Result<json::object> detokenize(const ServerContext& context, const Request& http) {
  Result<json::value> body = parse_body(http);
  if (!body) {
    return body.error();
  }
  Result<native::DetokenizeRequest> request = native::parse_detokenize_request(*body);
  if (!request) {
    return request.error();
  }
  POME_TRY(check_model_name(context, request->model));
  json::array texts;
  for (const std::vector<Token>& tokens : request->tokens) {
    texts.push_back(json::value(
        context.text.tokenizer.decode(tokens, {.skip_special = request->skip_special_tokens})));
  }
  json::object reply;
  reply["text"] = request->list ? json::value(std::move(texts)) : texts[0];
  return reply;
}

}  // namespace

asio::awaitable<void> handle_tokenize(ServerContext& context, Exchange& exchange) {
  return reply_with(context, exchange, tokenize);
}

asio::awaitable<void> handle_detokenize(ServerContext& context, Exchange& exchange) {
  return reply_with(context, exchange, detokenize);
}

}  // namespace pome::server
