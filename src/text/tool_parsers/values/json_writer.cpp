#include "text/tool_parsers/values/json_writer.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace pome::text {
namespace {

void append_escaped(std::string_view text, std::string& out) {
  for (const char byte : text) {
    switch (byte) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(byte) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
        } else {
          out += byte;
        }
    }
  }
}

}  // namespace

void JsonWriter::begin_value() {
  CHECK(!in_string_, "a value inside a string");
  began_ = true;
  if (open_.empty()) {
    return;
  }
  if (open_.back().has_values) {
    text_ += ',';
  }
  open_.back().has_values = true;
  if (open_.back().closer == '}') {
    CHECK(has_key_, "a value without a key");
    text_ += '"';
    append_escaped(key_, text_);
    text_ += "\":";
    has_key_ = false;
  }
}

void JsonWriter::begin_object() {
  begin_value();
  text_ += '{';
  open_.push_back({'}'});
}

void JsonWriter::end_object() {
  CHECK(!open_.empty() && open_.back().closer == '}' && !has_key_, "no object to end");
  text_ += '}';
  open_.pop_back();
}

void JsonWriter::begin_array() {
  begin_value();
  text_ += '[';
  open_.push_back({']'});
}

void JsonWriter::end_array() {
  CHECK(!open_.empty() && open_.back().closer == ']', "no array to end");
  text_ += ']';
  open_.pop_back();
}

void JsonWriter::key(std::string_view name) {
  CHECK(!open_.empty() && open_.back().closer == '}' && !has_key_, "a key outside an object");
  key_ = name;
  has_key_ = true;
}

void JsonWriter::begin_string() {
  begin_value();
  text_ += '"';
  in_string_ = true;
}

void JsonWriter::string_text(std::string_view text) {
  CHECK(in_string_, "text outside a string");
  append_escaped(text, text_);
}

void JsonWriter::end_string() {
  CHECK(in_string_, "no string to end");
  text_ += '"';
  in_string_ = false;
}

void JsonWriter::scalar(std::string_view json) {
  begin_value();
  text_ += json;
}

void JsonWriter::complete() {
  if (in_string_) {
    end_string();
  }
  has_key_ = false;
  while (!open_.empty()) {
    text_ += open_.back().closer;
    open_.pop_back();
  }
}

std::string JsonWriter::take() {
  return std::exchange(text_, {});
}

}  // namespace pome::text
