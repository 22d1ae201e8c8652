#include "pome/service/unit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pome::apps {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ServiceUnit unit_of(InitSystem manager, bool system) {
  ServiceUnit unit = service_unit(manager, system, "/home/ada", "/home/ada/.config");
  unit.program = "/opt/50% \"pome\"/pome & co";
  unit.user = "ada";
  unit.user_id = 501;
  return unit;
}

TEST(ServiceUnit, LiesWhereItsManagerLooks) {
  EXPECT_EQ(unit_of(InitSystem::systemd, false).file,
            "/home/ada/.config/systemd/user/pome.service");
  EXPECT_EQ(unit_of(InitSystem::systemd, true).file, "/etc/systemd/system/pome.service");
  EXPECT_EQ(unit_of(InitSystem::launchd, false).file,
            "/home/ada/Library/LaunchAgents/pome.serve.plist");
  EXPECT_EQ(unit_of(InitSystem::launchd, true).file, "/Library/LaunchDaemons/pome.serve.plist");
}

TEST(ServiceUnit, QuotesWhatSystemdWouldSplitOrExpand) {
  const std::string text = unit_text(unit_of(InitSystem::systemd, false));
  EXPECT_THAT(text, HasSubstr("ExecStart=\"/opt/50%% \\\"pome\\\"/pome & co\" serve --config "
                              "\"/home/ada/.config/pome/service.yaml\"\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("WantedBy=default.target"), Not(HasSubstr("User="))));
  EXPECT_THAT(unit_text(unit_of(InitSystem::systemd, true)),
              AllOf(HasSubstr("User=ada\n"), HasSubstr("WantedBy=multi-user.target"),
                    HasSubstr("\"/etc/pome/service.yaml\"")));
}

TEST(ServiceUnit, EscapesWhatXmlWouldRead) {
  const std::string text = unit_text(unit_of(InitSystem::launchd, false));
  EXPECT_THAT(text, HasSubstr("<string>/opt/50% \"pome\"/pome &amp; co</string>"));
  EXPECT_THAT(text, HasSubstr("<string>/home/ada/Library/Logs/pome/pome.log</string>"));
  EXPECT_THAT(text, Not(HasSubstr("UserName")));
  EXPECT_THAT(unit_text(unit_of(InitSystem::launchd, true)),
              HasSubstr("<key>UserName</key>\n  <string>ada</string>"));
}

TEST(ServiceUnit, SpeaksItsManagersLanguage) {
  const ServiceUnit systemd = unit_of(InitSystem::systemd, false);
  EXPECT_THAT(enable_calls(systemd),
              Contains(ElementsAre("systemctl", "--user", "enable", "pome.service")));
  EXPECT_THAT(start_calls(systemd),
              ElementsAre(ElementsAre("systemctl", "--user", "start", "pome.service")));
  EXPECT_THAT(stop_calls(unit_of(InitSystem::systemd, true)),
              ElementsAre(ElementsAre("systemctl", "stop", "pome.service")));
  const ServiceUnit launchd = unit_of(InitSystem::launchd, false);
  EXPECT_THAT(start_calls(launchd),
              ElementsAre(ElementsAre("launchctl", "bootstrap", "gui/501",
                                      "/home/ada/Library/LaunchAgents/pome.serve.plist")));
  EXPECT_THAT(stop_calls(unit_of(InitSystem::launchd, true)),
              ElementsAre(ElementsAre("launchctl", "bootout", "system/pome.serve")));
}

}  // namespace
}  // namespace pome::apps
