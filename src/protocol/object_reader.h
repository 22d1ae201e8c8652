#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"

namespace pome::protocol {

struct IntRange {
  int64_t min = 0;
  int64_t max = 0;
};

struct NumberRange {
  double min = 0.0;
  double max = 0.0;
  bool min_excluded = false;
};

struct ListLimits {
  size_t items_max = 0;
  size_t item_bytes_max = 0;
};

// Reads typed fields of one JSON object. A field that is absent or null reads as nullopt; a wrong
// type or range is remembered as the object's error, which names the field, and reads as nullopt.
// Only the first error is kept; ask status() once at the end.
class ObjectReader {
 public:
  // `prefix` stands before the names in messages ("sampling_params.").
  explicit ObjectReader(const json::object& object, std::string prefix = {});

  std::optional<int64_t> integer(std::string_view name, IntRange range);
  // The whole range of unsigned and signed 64-bit integers, as bits.
  std::optional<uint64_t> seed(std::string_view name);
  std::optional<double> number(std::string_view name, NumberRange range);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name, size_t bytes_max);
  // One string or a list of strings, none of them empty.
  std::vector<std::string> strings(std::string_view name, ListLimits limits);
  // A list of non-negative token ids.
  std::vector<Token> tokens(std::string_view name, size_t items_max);
  // The same of a value inside the field.
  std::vector<Token> tokens_in(std::string_view name, const json::value& list, size_t items_max);
  const json::object* object(std::string_view name);
  const json::array* array(std::string_view name);
  const json::value* value(std::string_view name) const;  // nullptr when absent or null

  void fail(std::string_view name, std::string_view message);
  void fail(Error error);
  Status status() const;

 private:
  std::string full_name(std::string_view name) const;
  void wrong_type(std::string_view name, std::string_view expected, const json::value& value);

  const json::object& object_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace pome::protocol
