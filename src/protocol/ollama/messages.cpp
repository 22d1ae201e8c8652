#include "protocol/ollama/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>

#include "protocol/object_reader.h"
#include "protocol/ollama/fields.h"

namespace pome::protocol::ollama {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"system", "user", "assistant", "tool"};

// Calls that no result has answered yet.
struct OpenCall {
  std::string id;
  std::string name;
};

class Reading {
 public:
  explicit Reading(std::vector<std::string>& hints) : hints_(hints) {}

  Result<json::object> read(const json::value& value, const std::string& where) {
    const json::object* message = value.if_object();
    if (message == nullptr) {
      return invalid(fmt::format("'{}': expected an object, got {}", where, json_type_name(value)),
                     where);
    }
    const Result<std::vector<std::string>> used =
        check_fields(*message, message_fields(), where + ".");
    if (!used) {
      return used.error();
    }
    hints_.insert(hints_.end(), used->begin(), used->end());
    ObjectReader reader(*message, where + ".");
    const std::string role = reader.string("role", 64).value_or("");
    if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
      reader.fail("role", fmt::format("expected one of {}", fmt::join(kRoles, ", ")));
    }
    const std::string content = reader.string("content", std::string::npos).value_or("");
    json::object out{{"role", role}, {"content", content}};
    if (const auto thinking = reader.string("thinking", std::string::npos)) {
      out["reasoning_content"] = *thinking;
    }
    json::array calls = read_calls(reader, where);
    if (!calls.empty()) {
      out["content"] = content.empty() ? json::value(nullptr) : json::value(content);
      out["tool_calls"] = std::move(calls);
    }
    const auto name = reader.string("tool_name", std::string::npos);
    const auto id = reader.string("tool_call_id", std::string::npos);
    if (role == "tool") {
      out["tool_call_id"] = id_of_result(id, name);
    }
    if (name) {
      out["name"] = *name;
    }
    POME_TRY(reader.status());
    return out;
  }

 private:
  json::array read_calls(ObjectReader& reader, const std::string& where) {
    json::array out;
    const json::array* calls = reader.array("tool_calls");
    if (calls == nullptr) {
      return out;
    }
    for (size_t i = 0; i < calls->size(); ++i) {
      Result<json::object> call =
          read_call((*calls)[i], fmt::format("{}.tool_calls[{}]", where, i));
      if (!call) {
        reader.fail(call.error());
        return out;
      }
      out.push_back(std::move(*call));
    }
    return out;
  }

  Result<json::object> read_call(const json::value& value, const std::string& where) {
    const json::object* call = value.if_object();
    const json::object* function = call == nullptr ? nullptr : find_object(*call, "function");
    if (function == nullptr) {
      return invalid(fmt::format("'{}': expected an object with a function", where), where);
    }
    ObjectReader reader(*function, where + ".function.");
    const auto name = reader.string("name", std::string::npos);
    if (!name) {
      reader.fail("name", "expected a string, got nothing");
    }
    const json::object* arguments = reader.object("arguments");
    POME_TRY(reader.status());
    ObjectReader outer(*call, where + ".");
    const auto given = outer.string("id", std::string::npos);
    POME_TRY(outer.status());
    // Nine characters, which is what the pickiest templates take.
    const std::string id = given && !given->empty() ? *given : fmt::format("call{:05}", drawn_++);
    open_.push_back({id, *name});
    return json::object{
        {"id", id},
        {"type", "function"},
        {"function",
         json::object{{"name", *name},
                      {"arguments", arguments == nullptr ? json::object() : *arguments}}}};
  }

  // The call that a result answers: by id, by name, or the first one that is open.
  std::string id_of_result(const std::optional<std::string>& id,
                           const std::optional<std::string>& name) {
    auto call = std::find_if(open_.begin(), open_.end(), [&](const OpenCall& open) {
      return id ? open.id == *id : !name || open.name == *name;
    });
    const std::string found = id ? *id : call != open_.end() ? call->id : std::string("call00000");
    if (call != open_.end()) {
      open_.erase(call);
    }
    return found;
  }

  std::vector<std::string>& hints_;
  std::deque<OpenCall> open_;
  int drawn_ = 0;
};

}  // namespace

Result<json::array> read_messages(const json::array& messages, std::vector<std::string>& hints) {
  if (messages.size() > kMessagesMax) {
    return invalid(fmt::format("'messages': expected at most {} messages, got {}", kMessagesMax,
                               messages.size()),
                   "messages");
  }
  Reading reading(hints);
  json::array out;
  for (size_t i = 0; i < messages.size(); ++i) {
    Result<json::object> message = reading.read(messages[i], fmt::format("messages[{}]", i));
    if (!message) {
      return message.error();
    }
    out.push_back(std::move(*message));
  }
  return out;
}

}  // namespace pome::protocol::ollama
