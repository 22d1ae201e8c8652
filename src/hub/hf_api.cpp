#include "hub/hf_api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/json.h"
#include "hub/hf_cache.h"
#include "hub/transfer/download.h"
#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

constexpr size_t kListingBytesMax = 32u << 20;
constexpr std::array<std::string_view, 11> kSideFiles = {
    "config.json",       "generation_config.json",
    "tokenizer.json",    "tokenizer_config.json",
    "tokenizer.model",   "vocab.json",
    "merges.txt",        "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja",
    "chat_template.json"};

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<RepoFile> parse_file(const json::object& item) {
  RepoFile file;
  file.path = find_string(item, "rfilename").value_or("");
  file.bytes = find_int(item, "size").value_or(-1);
  file.git_sha1 = find_string(item, "blobId").value_or("");
  if (const json::object* lfs = find_object(item, "lfs")) {
    file.sha256 = find_string(*lfs, "sha256").value_or("");
    file.bytes = find_int(*lfs, "size").value_or(file.bytes);
  }
  if (!is_safe_relative_path(file.path)) {
    return invalid(fmt::format("the hub lists a file with the unsafe path '{}'", file.path));
  }
  const bool good = file.sha256.empty() ? is_hex(file.git_sha1, 40) : is_hex(file.sha256, 64);
  if (!good || file.bytes < 0) {
    return invalid(fmt::format("the hub gives no size and checksum for {}", file.path));
  }
  return file;
}

bool is_side_file(const std::string& path) {
  return std::find(kSideFiles.begin(), kSideFiles.end(), path) != kSideFiles.end() ||
         (path.starts_with("additional_chat_templates/") && path.ends_with(".jinja"));
}

// Model weights as transformers names them; other safetensors in the root are other things
// (adapters, originals).
std::vector<RepoFile> safetensors_of(const RepoListing& listing) {
  std::vector<RepoFile> named;
  std::vector<RepoFile> all;
  for (const auto& file : listing.files) {
    if (!file.path.ends_with(".safetensors") || file.path.find('/') != std::string::npos) {
      continue;
    }
    all.push_back(file);
    if (file.path.starts_with("model")) {
      named.push_back(file);
    }
  }
  return named.empty() ? all : named;
}

Error explain(const Settings& settings, const std::string& id, const std::string& revision,
              const HttpResponse& head) {
  const std::string code = head.header("x-error-code");
  const std::string host = url_host(settings.hf_endpoint);
  const std::string page = fmt::format("{}/{}", settings.hf_endpoint, id);
  if (code == "GatedRepo") {
    return {
        ErrorCode::unauthorized,
        settings.hf_token.empty()
            ? fmt::format(
                  "{} is gated: accept its terms at {}, then set HF_TOKEN to a token of yours", id,
                  page)
            : fmt::format("{} is gated and your token has no access yet: accept its terms at {}",
                          id, page),
        ""};
  }
  if (code == "RevisionNotFound") {
    return {ErrorCode::not_found, fmt::format("{} has no revision '{}' on {}", id, revision, host),
            ""};
  }
  if (head.status == 401 && !settings.hf_token.empty() && code != "RepoNotFound") {
    return {ErrorCode::unauthorized, fmt::format("{} does not accept the token in HF_TOKEN", host),
            ""};
  }
  if (head.status == 403) {
    return {ErrorCode::unauthorized,
            fmt::format("{} refuses access to {}: its owner must let your token in", host, id), ""};
  }
  if (head.status == 404 || head.status == 401) {
    return {
        ErrorCode::not_found,
        fmt::format(
            "there is no model {} on {} (or it is private and HF_TOKEN is {}); check the spelling",
            id, host, settings.hf_token.empty() ? "not set" : "without access"),
        ""};
  }
  if (head.status == 429) {
    return {ErrorCode::unavailable,
            fmt::format("{} asks to slow down; try again in a few minutes", host), ""};
  }
  return {ErrorCode::unavailable, fmt::format("{} answered {} for {}", host, head.status, id), ""};
}

}  // namespace

Result<RepoListing> parse_listing(std::string_view body) {
  auto parsed = parse_json(body);
  if (!parsed || !parsed.value().is_object()) {
    return invalid("the hub's answer is not a JSON object");
  }
  const json::object& object = parsed.value().get_object();
  RepoListing listing;
  listing.commit = find_string(object, "sha").value_or("");
  if (!is_hex(listing.commit, 40)) {
    return invalid("the hub's answer names no commit");
  }
  const json::array* siblings = find_array(object, "siblings");
  for (const auto& item : siblings ? *siblings : json::array()) {
    if (!item.is_object()) {
      return invalid("the hub's list of files is malformed");
    }
    auto file = parse_file(item.get_object());
    if (!file) {
      return file.error();
    }
    listing.files.push_back(std::move(file).value());
  }
  return listing;
}

Result<RepoListing> list_repo(const Settings& settings, const std::string& id,
                              const std::string& revision) {
  HttpRequest request =
      request_for(settings, fmt::format("{}/api/models/{}/revision/{}?blobs=true",
                                        settings.hf_endpoint, id, percent_encoded(revision)));
  if (!settings.hf_token.empty()) {
    request.headers["Authorization"] = "Bearer " + settings.hf_token;
  }
  auto answer = http_text(request, kListingBytesMax);
  if (!answer) {
    return answer.error();
  }
  if (answer->head.status != 200) {
    return explain(settings, id, revision, answer->head);
  }
  return parse_listing(answer->body);
}

Result<std::vector<RepoFile>> needed_files(const RepoListing& listing, const std::string& id,
                                           const std::string& variant, const std::string& file) {
  std::vector<std::string> ggufs;
  for (const auto& entry : listing.files) {
    if (entry.path.ends_with(".gguf")) {
      ggufs.push_back(entry.path);
    }
  }
  std::vector<RepoFile> needed = safetensors_of(listing);
  if (needed.empty() || !variant.empty() || !file.empty()) {
    const std::optional<std::string> chosen =
        file.empty() ? choose_gguf(ggufs, variant) : std::optional(file);
    for (const auto& entry : listing.files) {
      if (chosen && entry.path == *chosen) {
        return std::vector<RepoFile>{entry};
      }
    }
    if (ggufs.empty()) {
      return Error{
          ErrorCode::not_found,
          fmt::format("{} has neither safetensors nor GGUF files, the formats that pome reads", id),
          ""};
    }
    return Error{ErrorCode::not_found,
                 fmt::format("{} has no such GGUF file; it has: {}", id, fmt::join(ggufs, ", ")),
                 ""};
  }
  for (const auto& entry : listing.files) {
    if (is_side_file(entry.path) || entry.path == "model.safetensors.index.json") {
      needed.push_back(entry);
    }
  }
  // Small files first: a wrong model is noticed before the large ones are fetched.
  std::stable_sort(needed.begin(), needed.end(),
                   [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return needed;
}

std::string file_url(const Settings& settings, const std::string& id, const std::string& commit,
                     const std::string& path) {
  std::string encoded;
  for (const auto& part : split(path, '/')) {
    encoded += "/" + percent_encoded(part);
  }
  return fmt::format("{}/{}/resolve/{}{}", settings.hf_endpoint, id, commit, encoded);
}

}  // namespace pome::hub
