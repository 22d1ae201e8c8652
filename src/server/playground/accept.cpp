#include "server/playground/accept.h"

#include <algorithm>

#include "server/http/request.h"

namespace pome::server {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Cuts off what stands before the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return trimmed(part);
}

// "0", "0.5", "1.000"; anything else is 0.
double parse_quality(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1') ||
      (text.size() > 1 && text[1] != '.')) {
    return 0.0;
  }
  double value = text[0] - '0';
  double place = 0.1;
  for (const char digit : text.substr(std::min<size_t>(2, text.size()))) {
    if (digit < '0' || digit > '9') {
      return 0.0;
    }
    value += place * (digit - '0');
    place /= 10;
  }
  return std::min(value, 1.0);
}

}  // namespace

double named_quality(std::string_view accept, std::string_view media_type) {
  double best = 0.0;
  while (!accept.empty()) {
    std::string_view range = take_until(accept, ',');
    if (!equal_ignoring_case(take_until(range, ';'), media_type)) {
      continue;
    }
    double quality = 1.0;
    while (!range.empty()) {
      const std::string_view parameter = take_until(range, ';');
      if (parameter.size() > 2 && equal_ignoring_case(parameter.substr(0, 2), "q=")) {
        quality = parse_quality(parameter.substr(2));
      }
    }
    best = std::max(best, quality);
  }
  return best;
}

bool wants_page(std::string_view accept) {
  const double page =
      std::max(named_quality(accept, "text/html"), named_quality(accept, "application/xhtml+xml"));
  return page > 0.0 && page >= named_quality(accept, "application/json");
}

}  // namespace pome::server
