#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace pome {

// One output of a model and the events it must become; README.md shows the form.
struct DialectCase {
  std::string title = {};
  bool inside = false;
  std::string output_lines = {};  // as in the file
  std::string output = {};
  std::string events = {};  // one a line
};

struct CaseFile {
  std::filesystem::path path = {};
  std::string comment = {};
  std::vector<DialectCase> cases = {};
};

CaseFile read_case_file(const std::filesystem::path& path);

// Every .cases file of a folder, by name. Fails the test if there are fewer than `least`.
std::vector<CaseFile> read_case_files(const std::filesystem::path& folder, size_t least);

// Reads `output` in the given pieces, and says its events as the file does.
using ReadPieces =
    std::function<std::string(const DialectCase&, const std::vector<std::string_view>&)>;

// Whole, a byte at a time, and in two pieces at every byte: all must be the events of the file.
// With UPDATE=1 the file becomes what the whole output gives.
void check_case_file(CaseFile& file, const ReadPieces& read);

}  // namespace pome
