#include "server/handlers/anthropic/content_blocks.h"

#include <fmt/format.h>

#include "protocol/anthropic/replies.h"

namespace pome::server {
namespace {

namespace anthropic = protocol::anthropic;

// Clients keep it with the thought and send both back; some drop a thought without one. It proves
// nothing and is read by nobody, so a hash (FNV-1a) will do, which is the same however often the
// thought is said.
std::string signature_of(std::string_view thought) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : thought) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return fmt::format("pome-{:016x}", hash);
}

// Anthropic's prefix in place of OpenAI's; a model's own id stays.
std::string call_id(const std::string& id) {
  constexpr std::string_view kDrawn = "call_";
  return id.starts_with(kDrawn) ? "toolu_" + id.substr(kDrawn.size()) : id;
}

}  // namespace

std::string ContentBlocks::add(const Delta& delta) {
  std::string events;
  parts_.add(
      delta, [&](std::string_view piece) { events += think(piece); },
      [&](std::string_view piece) { events += say(piece); },
      [&](const CallPiece& piece) { events += call(piece); });
  return events;
}

std::string ContentBlocks::think(std::string_view piece) {
  std::string events;
  if (kind_ != Kind::thinking) {
    events = open(Kind::thinking, anthropic::thinking_block("", ""));
  }
  text_ += piece;
  if (!hides_thinking_) {
    events += anthropic::block_delta(index_, "thinking_delta", "thinking", piece);
  }
  return events;
}

std::string ContentBlocks::say(std::string_view piece) {
  std::string events;
  if (kind_ != Kind::text) {
    events = open(Kind::text, anthropic::text_block(""));
  }
  text_ += piece;
  return events + anthropic::block_delta(index_, "text_delta", "text", piece);
}

std::string ContentBlocks::call(const CallPiece& piece) {
  std::string events;
  if (!piece.id.empty()) {  // the first piece of a call
    events = open(Kind::tool_use,
                  anthropic::tool_use_block(call_id(piece.id), piece.name, json::object()));
    id_ = call_id(piece.id);
    name_ = piece.name;
  }
  if (piece.arguments.empty()) {
    return events;
  }
  text_ += piece.arguments;
  return events +
         anthropic::block_delta(index_, "input_json_delta", "partial_json", piece.arguments);
}

std::string ContentBlocks::open(Kind kind, json::object block) {
  std::string events = close();
  kind_ = kind;
  ++index_;
  return events + anthropic::block_start(index_, std::move(block));
}

std::string ContentBlocks::close() {
  if (kind_ == Kind::none) {
    return {};
  }
  std::string events;
  if (kind_ == Kind::thinking) {
    events = anthropic::block_delta(index_, "signature_delta", "signature", signature_of(text_));
  }
  blocks_.push_back(whole_block());
  kind_ = Kind::none;
  text_.clear();
  return events + anthropic::block_stop(index_);
}

std::string ContentBlocks::finish() {
  return close();
}

json::object ContentBlocks::whole_block() const {
  if (kind_ == Kind::thinking) {
    return anthropic::thinking_block(hides_thinking_ ? std::string_view() : text_,
                                     signature_of(text_));
  }
  if (kind_ == Kind::text) {
    return anthropic::text_block(text_);
  }
  const Result<json::value> input = parse_json(text_, {.depth_max = 256});
  return anthropic::tool_use_block(id_, name_, input ? *input : json::value(json::object()));
}

}  // namespace pome::server
