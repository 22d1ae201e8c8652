#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/generation/ordered_parts.h"

namespace pome::server {

// An answer as content blocks, in the order in which the model says its parts.
class ContentBlocks {
 public:
  // `hides_thinking`: thoughts come as blocks without their text.
  explicit ContentBlocks(bool hides_thinking) : hides_thinking_(hides_thinking) {}

  // What the delta adds, as events of a stream.
  std::string add(const Delta& delta);
  // Ends the last block.
  std::string finish();
  // All blocks, once they have ended.
  json::array take() { return std::move(blocks_); }

 private:
  enum class Kind { none, thinking, text, tool_use };

  std::string think(std::string_view piece);
  std::string say(std::string_view piece);
  std::string call(const CallPiece& piece);
  std::string open(Kind kind, json::object block);
  std::string close();
  json::object whole_block() const;

  const bool hides_thinking_;
  OrderedParts parts_;
  json::array blocks_;
  // The open one.
  Kind kind_ = Kind::none;
  std::string text_;  // or arguments
  std::string id_;
  std::string name_;
  int32_t index_ = -1;
};

}  // namespace pome::server
