#pragma once

#include <vector>

#include "server/http/exchange.h"

namespace pome::server {

// The routes with the page's files beside them. `/` is the page for whoever asks for HTML, and
// stays what it was for everybody else; it is there before a model, and no key is asked for.
std::vector<Route> with_playground(std::vector<Route> routes);

}  // namespace pome::server
