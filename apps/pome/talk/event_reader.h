#pragma once

#include <string>
#include <string_view>

namespace pome::apps {

// Server-sent events as the endpoints write them: "data: {…}" lines, in pieces of any size.
class EventReader {
 public:
  template <typename OnData>
  void push(std::string_view bytes, const OnData& on_data) {
    buffer_ += bytes;
    size_t begin = 0;
    for (size_t end = 0; (end = buffer_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      std::string_view line(buffer_.data() + begin, end - begin);
      if (line.ends_with('\r')) {
        line.remove_suffix(1);
      }
      if (line.starts_with("data:")) {
        on_data(line.substr(line.size() > 5 && line[5] == ' ' ? 6 : 5));
      }
    }
    buffer_.erase(0, begin);
  }
  // What no line has ended.
  const std::string& rest() const { return buffer_; }

 private:
  std::string buffer_;
};

}  // namespace pome::apps
