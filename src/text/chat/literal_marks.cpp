#include "text/chat/literal_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

namespace pome::text {
namespace {

constexpr std::string_view kMark = "\xF4\x8F\xBF\xBD";  // U+10FFFD
constexpr std::string_view kSelf = "x";                 // the private-use character itself

}  // namespace

LiteralMarks::LiteralMarks(std::vector<std::string> special_texts)
    : texts_(std::move(special_texts)), begins_(256, false) {
  for (size_t index = 0; index < texts_.size(); ++index) {
    const std::string& text = texts_[index];
    if (text.empty()) {
      continue;
    }
    index_of_.emplace(text, index);
    lengths_.push_back(text.size());
    begins_[static_cast<unsigned char>(text.front())] = true;
  }
  std::sort(lengths_.begin(), lengths_.end(), std::greater<>());
  lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
}

const std::string* LiteralMarks::find_at(std::string_view text, size_t at, size_t& index) const {
  if (!begins_[static_cast<unsigned char>(text[at])]) {
    return nullptr;
  }
  for (const size_t length : lengths_) {
    if (length > text.size() - at) {
      continue;
    }
    const auto found = index_of_.find(text.substr(at, length));
    if (found != index_of_.end()) {
      index = found->second;
      return &texts_[index];
    }
  }
  return nullptr;
}

std::string LiteralMarks::mark(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    size_t index = 0;
    if (const std::string* special = find_at(text, at, index)) {
      out += fmt::format("{}{}{}", kMark, index, kMark);
      at += special->size();
    } else if (text.substr(at, kMark.size()) == kMark) {
      out += fmt::format("{}{}{}", kMark, kSelf, kMark);
      at += kMark.size();
    } else {
      out += text[at++];
    }
  }
  return out;
}

json::value LiteralMarks::mark(const json::value& value) const {
  if (const json::string* text = value.if_string()) {
    return json::value(mark(std::string_view(text->data(), text->size())));
  }
  if (const json::array* array = value.if_array()) {
    json::array out;
    out.reserve(array->size());
    for (const json::value& element : *array) {
      out.push_back(mark(element));
    }
    return out;
  }
  if (const json::object* object = value.if_object()) {
    json::object out;
    for (const auto& [key, element] : *object) {
      out[mark(std::string_view(key.data(), key.size()))] = mark(element);
    }
    return out;
  }
  return value;
}

LiteralMarks::Restored LiteralMarks::restore(std::string_view rendered) const {
  Restored out;
  out.text.reserve(rendered.size());
  while (true) {
    const size_t begin = rendered.find(kMark);
    out.text += rendered.substr(0, begin);
    if (begin == std::string_view::npos) {
      return out;
    }
    rendered.remove_prefix(begin + kMark.size());
    const size_t end = rendered.find(kMark);
    if (end == std::string_view::npos) {
      continue;  // a template cut a mark in two: what is left of it stands for nothing
    }
    const std::string_view name = rendered.substr(0, end);
    size_t index = texts_.size();
    const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (name == kSelf) {
      out.text += kMark;
    } else if (error == std::errc() && rest == name.data() + name.size() && index < texts_.size()) {
      const size_t at = out.text.size();
      out.text += texts_[index];
      out.literal.push_back({at, out.text.size()});
    } else {
      continue;  // not a name: this mark stood alone, the next one may begin a whole one
    }
    rendered.remove_prefix(end + kMark.size());
  }
}

}  // namespace pome::text
