#include "pome/model/model_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace pome::apps {
namespace {

TEST(ChosenTemplateTest, IsAFileOrChatmlAndNotTheNameOfAnAbsentFile) {
  const auto file = std::filesystem::path(testing::TempDir()) / "chosen_template_test.jinja";
  std::ofstream(file) << "{{ messages }}";
  EXPECT_EQ(*read_chosen_template(file.string()), "{{ messages }}");
  EXPECT_EQ(*read_chosen_template("chatml"), "chatml");
  std::filesystem::remove(file);
  const auto absent = read_chosen_template(file.string());
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(absent.error().message, testing::HasSubstr(file.string()));
}

}  // namespace
}  // namespace pome::apps
