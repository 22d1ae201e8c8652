#pragma once

#include "protocol/field_table.h"

namespace pome::protocol::anthropic {

const FieldTable& messages_fields();
const FieldTable& count_tokens_fields();
const FieldTable& message_fields();  // one entry of `messages`
const FieldTable& block_fields();    // a content block, of whatever type
const FieldTable& tool_fields();     // one entry of `tools`

}  // namespace pome::protocol::anthropic
