#pragma once

#include "base/result.h"

namespace pome::apps {

// One line on standard error, and the exit code that belongs to it.
int failed(const Error& error);
int misused(const Error& error);

}  // namespace pome::apps
