#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pome::hub {

std::string lower_case(std::string_view text);
std::string trimmed(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);

// "98.4 MB": decimal units, as disks and download pages count.
std::string format_bytes(int64_t bytes);

// Standard base64 with padding (RFC 4648), for Basic authorization.
std::string base64(std::string_view bytes);

// "a%40b" into "a@b"; a percent sign without two hex digits stays.
std::string percent_decoded(std::string_view text);

// What may not stand in one part of a URL path becomes %XX.
std::string percent_encoded(std::string_view part);

// The file's bytes, or nothing where it cannot be read or is longer than `bytes_max`.
std::optional<std::string> read_small_file(const std::filesystem::path& path, size_t bytes_max);

// Atomic: a reader sees the old content or the new one. False with errno set when it cannot be
// written.
bool write_small_file(const std::filesystem::path& path, std::string_view content);

// A path inside a repository as a server names it: relative, no empty, "." or ".." part, no
// backslash or control byte.
bool is_safe_relative_path(std::string_view path);

// One component that may become a file name: letters, digits, '.', '_', '-'; not starting with a
// dot.
bool is_safe_name(std::string_view name);

}  // namespace pome::hub
