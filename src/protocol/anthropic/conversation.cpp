#include "protocol/anthropic/conversation.h"

#include <fmt/format.h>

#include <set>

#include "protocol/anthropic/fields.h"

namespace pome::protocol::anthropic {
namespace {

Error expected(const std::string& where, std::string_view what, const json::value* got) {
  return invalid(fmt::format("'{}': expected {}, got {}", where, what,
                             got == nullptr ? "nothing" : json_type_name(*got)),
                 where);
}

void join(std::string& text, std::string_view more) {
  if (!text.empty() && !more.empty()) {
    text += '\n';
  }
  text += more;
}

// One content block, its fields held against the table.
class Block {
 public:
  static Result<Block> read(const json::value& value, std::string where,
                            std::vector<std::string>& hints) {
    const json::object* object = value.if_object();
    if (object == nullptr) {
      return expected(where, "a content block", &value);
    }
    Block block(*object, std::move(where));
    // The type first: fields of a type that is not known here say little.
    block.type_ = find_string(*object, "type").value_or("");
    if (block.type_ != "text" && block.type_ != "tool_use" && block.type_ != "tool_result" &&
        block.type_ != "thinking" && block.type_ != "redacted_thinking") {
      return block.unknown_type();
    }
    Result<std::vector<std::string>> used =
        check_fields(*object, block_fields(), block.where_ + ".");
    if (!used) {
      return used.error();
    }
    hints.insert(hints.end(), used->begin(), used->end());
    return block;
  }

  const std::string& type() const { return type_; }
  const std::string& where() const { return where_; }
  const json::value* value(std::string_view name) const {
    const json::value* found = find(object_, name);
    return found == nullptr || found->is_null() ? nullptr : found;
  }
  Result<std::string> text(std::string_view name) const {
    const json::value* found = value(name);
    if (found == nullptr || !found->is_string()) {
      return expected(fmt::format("{}.{}", where_, name), "a string", found);
    }
    return std::string(found->get_string());
  }

 private:
  Block(const json::object& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  Error unknown_type() const {
    const std::string field = where_ + ".type";
    const json::value* type = value("type");
    if (type == nullptr || !type->is_string()) {
      return expected(field, "a string", type);
    }
    return invalid(
        fmt::format("'{}': expected text, tool_use, tool_result, thinking or redacted_thinking, "
                    "got \"{}\"; this model reads text only",
                    field, printable(std::string_view(type_).substr(0, 32))),
        field);
  }

  const json::object& object_;
  std::string where_;
  std::string type_;
};

// Text blocks alone, joined; from `first` on.
Result<std::string> read_text(const json::value& content, const std::string& where,
                              std::vector<std::string>& hints, size_t first = 0) {
  if (content.is_string()) {
    return std::string(content.get_string());
  }
  const json::array* blocks = content.if_array();
  if (blocks == nullptr) {
    return expected(where, "a string or a list of text blocks", &content);
  }
  std::string text;
  for (size_t i = first; i < blocks->size(); ++i) {
    Result<Block> block = Block::read((*blocks)[i], fmt::format("{}[{}]", where, i), hints);
    if (!block) {
      return block.error();
    }
    if (block->type() != "text") {
      const std::string field = block->where() + ".type";
      return invalid(fmt::format("'{}': expected text, got \"{}\"", field, block->type()), field);
    }
    const Result<std::string> piece = block->text("text");
    if (!piece) {
      return piece.error();
    }
    join(text, *piece);
  }
  return text;
}

// An agent's note to the vendor, with a checksum that is another in each request: no prefix would
// ever be shared behind it, and it says nothing to a model.
bool is_billing_note(const json::value& block) {
  const json::object* object = block.if_object();
  const auto text = object == nullptr ? std::nullopt : find_string(*object, "text");
  return text && text->starts_with("x-anthropic-billing-header:");
}

Result<std::string> read_system(const json::value& system, std::vector<std::string>& hints) {
  const json::array* blocks = system.if_array();
  if (blocks == nullptr || blocks->empty() || !is_billing_note((*blocks)[0])) {
    return read_text(system, "system", hints);
  }
  hints.emplace_back("system[0]");
  return read_text(system, "system", hints, 1);
}

class Reading {
 public:
  explicit Reading(std::vector<std::string>& hints) : hints_(hints) {}

  Status add(const json::value& value, const std::string& where) {
    const json::object* message = value.if_object();
    if (message == nullptr) {
      return expected(where, "an object", &value);
    }
    const Result<std::vector<std::string>> used =
        check_fields(*message, message_fields(), where + ".");
    if (!used) {
      return used.error();
    }
    const auto role = find_string(*message, "role");
    if (role != "user" && role != "assistant" && role != "system") {
      return invalid(fmt::format("'{}.role': expected user or assistant", where), where + ".role");
    }
    if (*role != role_) {
      finish_turn();
      role_ = *role;
    }
    return add_content(find(*message, "content"), where + ".content");
  }

  Result<Conversation> finish(const std::string& last_where) {
    const bool ends_with_answer = role_ == "assistant" && !text_.empty();
    if (!calls_.empty()) {
      return invalid(
          fmt::format("'{}': a tool_use needs its tool_result in a next message", last_where),
          last_where);
    }
    if (role_ == "assistant" && !ends_with_answer) {
      begun_ = false;  // nothing to go on from
    }
    finish_turn();
    return Conversation{std::move(messages_), ends_with_answer};
  }

  void add_system(std::string text) {
    messages_.push_back(json::object{{"role", "system"}, {"content", std::move(text)}});
  }

 private:
  Status add_content(const json::value* content, const std::string& where) {
    begun_ = true;
    if (content != nullptr && content->is_string()) {
      join(text_, std::string_view(content->get_string()));
      return {};
    }
    const json::array* blocks = content == nullptr ? nullptr : content->if_array();
    if (blocks == nullptr) {
      return expected(where, "a string or a list of content blocks", content);
    }
    if (blocks->empty()) {
      return invalid(fmt::format("'{}': expected at least one block", where), where);
    }
    for (size_t i = 0; i < blocks->size(); ++i) {
      Result<Block> block = Block::read((*blocks)[i], fmt::format("{}[{}]", where, i), hints_);
      if (!block) {
        return block.error();
      }
      POME_TRY(add_block(*block));
    }
    return {};
  }

  Status add_block(const Block& block) {
    if (block.type() == "text") {
      const Result<std::string> text = block.text("text");
      if (!text) {
        return text.error();
      }
      join(text_, *text);
      return {};
    }
    if ((block.type() == "tool_result") == (role_ == "assistant") || role_ == "system") {
      const std::string field = block.where() + ".type";
      return invalid(fmt::format("'{}': a message of the {} has no {}", field, role_, block.type()),
                     field);
    }
    if (block.type() == "tool_result") {
      return add_result(block);
    }
    if (block.type() == "tool_use") {
      return add_call(block);
    }
    if (block.type() == "thinking") {
      const Result<std::string> thought = block.text("thinking");
      if (!thought) {
        return thought.error();
      }
      join(reasoning_, *thought);
    }
    return {};
  }

  Status add_call(const Block& block) {
    const Result<std::string> id = block.text("id");
    if (!id) {
      return id.error();
    }
    const Result<std::string> name = block.text("name");
    if (!name) {
      return name.error();
    }
    const json::value* input = block.value("input");
    if (input == nullptr || !input->is_object()) {
      return expected(block.where() + ".input", "an object", input);
    }
    called_.insert(*id);
    calls_.push_back(json::object{
        {"id", *id},
        {"type", "function"},
        {"function", json::object{{"name", *name}, {"arguments", to_string(*input)}}}});
    return {};
  }

  Status add_result(const Block& block) {
    const Result<std::string> id = block.text("tool_use_id");
    if (!id) {
      return id.error();
    }
    if (!called_.contains(*id)) {
      const std::string field = block.where() + ".tool_use_id";
      return invalid(fmt::format("'{}': no tool_use before it has the id \"{}\"", field,
                                 printable(std::string_view(*id).substr(0, 64))),
                     field);
    }
    const json::value* is_error = block.value("is_error");
    if (is_error != nullptr && !is_error->is_bool()) {
      return expected(block.where() + ".is_error", "true or false", is_error);
    }
    const json::value* content = block.value("content");
    Result<std::string> said = content == nullptr
                                   ? Result<std::string>(std::string())
                                   : read_text(*content, block.where() + ".content", hints_);
    if (!said) {
      return said.error();
    }
    if (is_error != nullptr && is_error->get_bool()) {
      *said = "Error: " + *said;
    }
    if (!text_.empty()) {
      finish_turn();
    }
    begun_ = false;  // nothing but results so far, so no message of the user's
    messages_.push_back(json::object{{"role", "tool"}, {"tool_call_id", *id}, {"content", *said}});
    return {};
  }

  void finish_turn() {
    if (begun_ || !text_.empty()) {
      json::object message{{"role", role_}, {"content", text_}};
      if (!calls_.empty()) {
        message["content"] = text_.empty() ? json::value(nullptr) : json::value(text_);
        message["tool_calls"] = std::move(calls_);
      }
      if (!reasoning_.empty()) {
        message["reasoning_content"] = reasoning_;
      }
      messages_.push_back(std::move(message));
    }
    begun_ = false;
    text_.clear();
    reasoning_.clear();
    calls_.clear();
  }

  std::vector<std::string>& hints_;
  json::array messages_;
  std::set<std::string> called_;  // ids
  // The turn that is being read.
  std::string role_;
  bool begun_ = false;
  std::string text_;
  std::string reasoning_;
  json::array calls_;
};

}  // namespace

Result<Conversation> read_conversation(const json::value* system, const json::value* messages,
                                       std::vector<std::string>& hints) {
  Reading reading(hints);
  if (system != nullptr && !system->is_null()) {
    Result<std::string> text = read_system(*system, hints);
    if (!text) {
      return text.error();
    }
    if (!text->empty()) {
      reading.add_system(std::move(*text));
    }
  }
  const json::array* list = messages == nullptr ? nullptr : messages->if_array();
  if (list == nullptr) {
    return expected("messages", "a list of messages", messages);
  }
  if (list->empty() || list->size() > kMessagesMax) {
    return invalid(
        fmt::format("'messages': expected 1 to {} messages, got {}", kMessagesMax, list->size()),
        "messages");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    POME_TRY(reading.add((*list)[i], fmt::format("messages[{}]", i)));
  }
  return reading.finish(fmt::format("messages[{}].content", list->size() - 1));
}

}  // namespace pome::protocol::anthropic
