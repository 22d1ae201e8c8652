#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/transfer/settings.h"

namespace pome::hub {

struct RepoFile {
  std::string path;  // checked: relative, no ".."
  int64_t bytes = -1;
  std::string sha256;    // of large-file storage; else empty
  std::string git_sha1;  // of other files
  // The blob's name in the cache.
  const std::string& etag() const { return sha256.empty() ? git_sha1 : sha256; }
};

struct RepoListing {
  std::string commit;
  std::vector<RepoFile> files;
};

// The files of a revision with sizes and digests. A missing, gated or private repository, a missing
// revision and a rejected token are told apart in the message, which says what to do.
Result<RepoListing> list_repo(const Settings& settings, const std::string& id,
                              const std::string& revision);

// Reads the hub's answer; entries with unsafe paths or digests are an error.
Result<RepoListing> parse_listing(std::string_view body);

// The files that serving needs: config, tokenizer, templates, generation defaults and safetensors,
// or one GGUF file.
Result<std::vector<RepoFile>> needed_files(const RepoListing& listing, const std::string& id,
                                           const std::string& variant, const std::string& file);

std::string file_url(const Settings& settings, const std::string& id, const std::string& commit,
                     const std::string& path);

}  // namespace pome::hub
