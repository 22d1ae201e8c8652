#pragma once

#include "protocol/field_table.h"

namespace pome::protocol::ollama {

const FieldTable& chat_fields();
const FieldTable& generate_fields();
const FieldTable& option_fields();   // `options` of both
const FieldTable& message_fields();  // one entry of `messages`
const FieldTable& show_fields();

}  // namespace pome::protocol::ollama
