#pragma once

#include "protocol/field_table.h"

namespace pome::protocol::openai {

const FieldTable& chat_fields();
const FieldTable& completion_fields();
const FieldTable&
message_fields();  // one entry of `messages`; other keys go to the template as they are

}  // namespace pome::protocol::openai
