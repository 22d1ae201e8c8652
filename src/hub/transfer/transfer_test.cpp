#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "hub/transfer/digest.h"
#include "hub/transfer/download.h"
#include "hub/transfer/pip_config.h"
#include "hub/transfer/settings.h"
#include "hub/transfer/text.h"

namespace pome::hub {
namespace {

namespace fs = std::filesystem;

class TransferTest : public testing::Test {
 protected:
  TransferTest()
      : folder_(fs::temp_directory_path() / ("pome_transfer_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~TransferTest() override { fs::remove_all(folder_); }

  Environment env() {
    return [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables_.find(std::string(name));
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
  }
  void write(const fs::path& name, const std::string& content) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  fs::path folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(TransferTest, HubCacheVariablesWinInTheOrderOfHuggingFace) {
  variables_ = {{"HOME", "/home/a"}};
  EXPECT_EQ(settings_from(env()).hf_cache, "/home/a/.cache/huggingface/hub");
  variables_["XDG_CACHE_HOME"] = "/x";
  EXPECT_EQ(settings_from(env()).hf_cache, "/x/huggingface/hub");
  variables_["HF_HOME"] = "/h";
  EXPECT_EQ(settings_from(env()).hf_cache, "/h/hub");
  variables_["HF_HUB_CACHE"] = "/c";
  EXPECT_EQ(settings_from(env()).hf_cache, "/c");
}

TEST_F(TransferTest, TokenComesFromTheVariableOrElseFromTheLoginFile) {
  write("hf/token", "hf_file\n");
  variables_ = {{"HF_HOME", (folder_ / "hf").string()}};
  EXPECT_EQ(settings_from(env()).hf_token, "hf_file");
  variables_["HF_TOKEN"] = "hf_variable";
  EXPECT_EQ(settings_from(env()).hf_token, "hf_variable");
}

TEST_F(TransferTest, OfflineUnderstandsTheUsualWordsForYes) {
  for (const char* yes : {"1", "true", "YES", "on"}) {
    variables_["HF_HUB_OFFLINE"] = yes;
    EXPECT_TRUE(settings_from(env()).offline) << yes;
  }
  variables_["HF_HUB_OFFLINE"] = "0";
  EXPECT_FALSE(settings_from(env()).offline);
}

TEST_F(TransferTest, PipConfigurationIsTheFallbackForIndexAndCertificates) {
  write("pip.conf",
        "# comment\n[global]\nindex-url = https://u:p@mirror.example/simple/\ncert=/etc/ca.pem\n"
        "find-links =\n    /wheels\n    https://elsewhere.example\n[list]\nindex-url = "
        "https://no.example\n");
  variables_ = {{"PIP_CONFIG_FILE", (folder_ / "pip.conf").string()}};
  Settings settings = settings_from(env());
  EXPECT_EQ(settings.pypi_index, "https://u:p@mirror.example/simple");
  EXPECT_EQ(settings.ca_file, "/etc/ca.pem");
  EXPECT_EQ(settings.find_links, std::vector<fs::path>{"/wheels"});
  variables_["POME_PYPI_INDEX"] = "https://mine.example";
  variables_["SSL_CERT_FILE"] = "/mine.pem";
  settings = settings_from(env());
  EXPECT_EQ(settings.pypi_index, "https://mine.example");
  EXPECT_EQ(settings.ca_file, "/mine.pem");
}

TEST_F(TransferTest, ProxiesFollowTheSchemeAndSpareLoopbackAndNoProxy) {
  Settings settings;
  settings.https_proxy = "http://p:1";
  settings.no_proxy = "internal.example, .corp:443";
  EXPECT_EQ(proxy_for(settings, "https://huggingface.co/x"), "http://p:1");
  EXPECT_EQ(proxy_for(settings, "http://huggingface.co/x"), "");
  EXPECT_EQ(proxy_for(settings, "https://a.internal.example/x"), "");
  EXPECT_EQ(proxy_for(settings, "https://notinternal.example/x"), "http://p:1");
  EXPECT_EQ(proxy_for(settings, "https://a.corp/x"), "");
  for (const char* local : {"https://localhost:9/x", "https://127.0.0.1/", "https://[::1]:8/"}) {
    EXPECT_EQ(proxy_for(settings, local), "") << local;
  }
  settings.no_proxy = "*";
  EXPECT_EQ(proxy_for(settings, "https://huggingface.co/x"), "");
}

TEST_F(TransferTest, DigestsAreThoseOfTheStandardsAndOfGit) {
  write("abc", "abc");
  EXPECT_EQ(digest_file(folder_ / "abc", Algorithm::sha256, "", nullptr).value(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_file(folder_ / "abc", Algorithm::sha1, git_blob_prefix(3), nullptr).value(),
            "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(digest_file(folder_ / "none", Algorithm::sha1, "", nullptr).error().code,
            ErrorCode::not_found);
}

TEST_F(TransferTest, PathsThatLeaveTheFolderAreUnsafe) {
  for (const char* good : {"config.json", "a/b/c.jinja", "..a", "a..b"}) {
    EXPECT_TRUE(is_safe_relative_path(good)) << good;
  }
  for (const char* bad : {"", "/etc/passwd", "../x", "a/../b", "a//b", "a/", ".", "a\\b", "a\nb"}) {
    EXPECT_FALSE(is_safe_relative_path(bad)) << bad;
  }
  EXPECT_FALSE(is_safe_relative_path(std::string(513, 'a')));
  EXPECT_TRUE(is_safe_relative_path(std::string(512, 'a')));
}

TEST_F(TransferTest, PercentCodingKeepsWhatIsNoCode) {
  EXPECT_EQ(percent_decoded("a%40b%2Fc%"), "a@b/c%");
  EXPECT_EQ(percent_decoded("%zz%4"), "%zz%4");
  EXPECT_EQ(percent_decoded("x%41"), "xA");
  EXPECT_EQ(percent_encoded("a b/é"), "a%20b%2F%C3%A9");
}

TEST_F(TransferTest, ADiskWithoutRoomIsAnErrorWithBothNumbers) {
  EXPECT_TRUE(check_free_space(folder_ / "not" / "there", 1).ok());
  const Status status = check_free_space(folder_, INT64_MAX - 1);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("not enough disk space"), std::string::npos);
  EXPECT_NE(status.error().message.find("free in " + folder_.string()), std::string::npos);
}

TEST_F(TransferTest, SizesAreSaidInDecimalUnits) {
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(98'362'432), "98.4 MB");
  EXPECT_EQ(format_bytes(999'960), "1.0 MB");
}

TEST_F(TransferTest, AnUnreachableServerIsNamed) {
  HttpRequest request;
  request.url = "http://127.0.0.1:1/x";
  request.connect_timeout_s = 2;
  const auto answer = http_text(request, 100);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::unavailable);
  EXPECT_NE(answer.error().message.find("cannot reach 127.0.0.1"), std::string::npos)
      << answer.error().message;
}

TEST_F(TransferTest, AUrlThatIsNoneIsRefused) {
  HttpRequest request;
  request.url = "not a url";
  EXPECT_FALSE(http_text(request, 100).ok());
}

}  // namespace
}  // namespace pome::hub
