#pragma once

#include <string_view>

#include "base/result.h"

namespace pome::apps {

// One line on standard error, and the exit code that belongs to it.
int failed(const Error& error);
int misused(const Error& error);

// What a command says of itself: on standard output with code 0 when that was asked for, else on
// standard error with the code of a wrong command line.
int show_usage(std::string_view text, bool asked);

}  // namespace pome::apps
