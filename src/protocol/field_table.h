#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace pome::protocol {

// What a request field does to the answer.
enum class FieldUse {
  honoured,  // read by the endpoint's parser
  hint,      // cannot change the answer: accepted, and named in the debug log
  refused,   // would change the answer and is not supported: 400 that names it
};

struct Field {
  std::string_view name;
  FieldUse use = FieldUse::honoured;
  std::string_view
      note;  // one line for docs/api-fields.md; for a refused field, what to do instead
  // A refused field with a value that asks for nothing (`tools: []`) is accepted. `null` always is.
  bool (*asks_for_nothing)(const json::value&) = nullptr;
};

// What stands in no table: an API that ignores it has it named among the hints.
enum class UnknownFields { refused, hints };

struct FieldTable {
  std::string_view endpoint;  // "POST /v1/chat/completions", "messages of POST …"
  std::span<const Field> fields;
  UnknownFields unknown = UnknownFields::refused;
};

// Holds every key of `object` against the table. Refused and unknown fields are an error that names
// the field (`prefix` stands before it: "sampling_params."); the names of the hints come back.
Result<std::vector<std::string>> check_fields(const json::object& object, const FieldTable& table,
                                              std::string_view prefix = {});

// The object that a request's body is, held against the endpoint's table; the names of its hints
// are added to `hints`.
Result<const json::object*> request_object(const json::value& body, const FieldTable& table,
                                           std::vector<std::string>& hints);

// One Markdown section a table, as docs/api-fields.md holds it.
std::string fields_markdown(const FieldTable& table);

// ASCII only, at the same length: what a message may quote of a name that came from outside.
std::string printable(std::string_view text);

// The values that ask for nothing, for the tables.
bool is_false(const json::value& value);
bool is_true(const json::value& value);
bool is_zero(const json::value& value);
bool is_one(const json::value& value);
bool is_minus_one(const json::value& value);
bool is_empty(const json::value& value);  // "", [], {}

}  // namespace pome::protocol
