#pragma once

#include "protocol/field_table.h"

namespace pome::protocol::native {

const FieldTable& generate_fields();
const FieldTable& sampling_fields();  // the keys of sampling_params
const FieldTable& tokenize_fields();
const FieldTable& detokenize_fields();
const FieldTable& parse_calls_fields();
const FieldTable& separate_reasoning_fields();
const FieldTable& abort_fields();

}  // namespace pome::protocol::native
