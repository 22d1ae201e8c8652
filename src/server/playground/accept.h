#pragma once

#include <string_view>

namespace pome::server {

// How much the Accept header's value wants the media type, 0 to 1: by its own name, and not by a
// range such as */*.
double named_quality(std::string_view accept, std::string_view media_type);

// Whether a page is wanted at least as much as JSON: browsers name text/html, API clients do not.
bool wants_page(std::string_view accept);

}  // namespace pome::server
