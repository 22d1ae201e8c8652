#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace pome::text {

// What a template makes of messages, found out by rendering small ones.
struct TemplateHabits {
  bool takes_strings = true;     // content may be a string
  bool takes_parts = false;      // content may be a list of parts
  bool takes_system = true;      // a first message of role system shows
  bool knows_developer = false;  // the role is named in the template
};

// Messages as the template expects them: null fields dropped, text parts joined or kept,
// "developer" as "system" where the template does not know it, a call's arguments as an object, and
// reasoning under each of its names. Errors name the message.
Result<json::array> shape_messages(const json::array& messages, const TemplateHabits& habits);

// Each system message joins the next user message, or becomes one at the end; the first stays when
// `keep_first`.
json::array fold_system_messages(const json::array& messages, bool keep_first);

// A system message stands somewhere but in the first place.
bool has_late_system_message(const json::array& messages);

}  // namespace pome::text
