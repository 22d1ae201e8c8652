#include "case_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/json.h"

namespace pome {
namespace {

void read_section(DialectCase& one, const std::string& name, const std::string& body) {
  // The line break before the next section is the file's.
  const std::string text = body.empty() ? body : body.substr(0, body.size() - 1);
  if (name == "output") {
    one.output = text;
  } else if (name == "output json") {
    const auto parsed = parse_json(text);
    ASSERT_TRUE(parsed && parsed->is_string()) << one.title;
    one.output = std::string(parsed->as_string());
  } else if (name == "inside") {
    one.inside = true;
  } else if (name == "events") {
    one.events = body;
    while (one.events.ends_with("\n\n")) {
      one.events.pop_back();
    }
    if (one.events == "\n") {
      one.events.clear();
    }
    return;
  } else {
    FAIL() << one.title << ": unknown section " << name;
  }
  one.output_lines += "--- " + name + "\n" + body;
}

void write_case_file(const CaseFile& file) {
  std::ofstream out(file.path, std::ios::binary);
  out << file.comment;
  for (const DialectCase& one : file.cases) {
    out << "\n=== " << one.title << "\n" << one.output_lines << "--- events\n" << one.events;
  }
}

}  // namespace

CaseFile read_case_file(const std::filesystem::path& path) {
  CaseFile file{.path = path};
  std::ifstream in(path, std::ios::binary);
  std::string line;
  std::string section;
  std::string body;
  const auto close_section = [&] {
    if (!section.empty()) {
      read_section(file.cases.back(), section, body);
    }
    section.clear();
    body.clear();
  };
  while (std::getline(in, line)) {
    if (line.starts_with("=== ")) {
      close_section();
      file.cases.push_back({.title = line.substr(4)});
    } else if (line.starts_with("--- ") && !file.cases.empty()) {
      close_section();
      section = line.substr(4);
    } else if (!section.empty()) {
      body += line + "\n";
    } else if (line.starts_with("#")) {
      file.comment += line + "\n";
    }
  }
  close_section();
  return file;
}

std::vector<CaseFile> read_case_files(const std::filesystem::path& folder, size_t least) {
  std::vector<CaseFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".cases") {
      files.push_back(read_case_file(entry.path()));
    }
  }
  std::sort(files.begin(), files.end(),
            [](const CaseFile& a, const CaseFile& b) { return a.path < b.path; });
  EXPECT_GE(files.size(), least) << folder;
  return files;
}

void check_case_file(CaseFile& file, const ReadPieces& read) {
  const bool update = std::getenv("UPDATE") != nullptr;
  for (DialectCase& one : file.cases) {
    SCOPED_TRACE(file.path.filename().string() + ": " + one.title);
    const std::string_view text = one.output;
    if (update) {
      one.events = read(one, {text});
    }
    EXPECT_EQ(read(one, {text}), one.events);
    std::vector<std::string_view> bytes;
    for (size_t at = 0; at < text.size(); ++at) {
      bytes.push_back(text.substr(at, 1));
    }
    EXPECT_EQ(read(one, bytes), one.events) << "a byte at a time";
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const std::string events = read(one, {text.substr(0, cut), text.substr(cut)});
      if (events != one.events) {
        ADD_FAILURE() << "cut at byte " << cut << ":\n" << events << "expected:\n" << one.events;
        break;
      }
    }
  }
  if (update) {
    write_case_file(file);
  }
}

}  // namespace pome
