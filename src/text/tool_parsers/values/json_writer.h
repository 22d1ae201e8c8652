#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pome::text {

// Compact JSON that is written piece by piece and can be closed at any moment. Commas come by
// themselves; a key and its comma are held back until its value begins. Text is UTF-8.
class JsonWriter {
 public:
  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  void key(std::string_view name);
  void begin_string();
  void string_text(std::string_view text);
  void end_string();
  void scalar(std::string_view json);  // a whole value: a number, a word, or JSON made elsewhere

  // Ends the open string, drops a key without a value, and closes what is open.
  void complete();

  bool empty() const { return !began_; }  // no value has begun
  std::string take();                     // what was written since the last take()

 private:
  struct Open {
    char closer;
    bool has_values = false;
  };
  void begin_value();

  std::string text_;
  std::vector<Open> open_;
  std::string key_;
  bool has_key_ = false;
  bool in_string_ = false;
  bool began_ = false;
};

}  // namespace pome::text
