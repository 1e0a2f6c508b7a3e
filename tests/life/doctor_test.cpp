// ft doctor on one machine, and with faulty hosts.
#include <gtest/gtest.h>

#include <set>

#include "tests/life/ranks/ssh.h"

namespace ft::test {
namespace {

std::string out_of(const Workplace& w) { return contents(w / "stdout"); }

Json finding(const Json& machine, const std::string& topic) {
  for (const Json& f : machine["findings"])
    if (f["topic"] == topic) return f;
  return {};
}

TEST(Doctor, FindsThisMachineWell) {
  const Workplace w("llama");
  EXPECT_EQ(w.run({"doctor"}), 0) << out_of(w);
  EXPECT_NE(out_of(w).find("ready to train"), std::string::npos) << out_of(w);
  for (const char* topic :
       {"processor", "memory", "GPU", "network", "name", "clock", "limits", "space", "files"})
    EXPECT_NE(out_of(w).find(topic), std::string::npos) << topic;
  ASSERT_EQ(w.run({"doctor", "--config", "run.json", "--json"}), 0);
  const Json j = Json::parse(out_of(w));
  EXPECT_EQ(j["exit"], 0);
  EXPECT_EQ(j["machines"].size(), 1u);
  EXPECT_EQ(finding(j["machines"][0], "files")["health"], "good");
  std::set<std::string> topics;
  for (const Json& f : j["machines"][0]["findings"]) {
    EXPECT_TRUE(topics.insert(f["topic"].get<std::string>()).second) << f["topic"] << " is two findings";
  }
  EXPECT_TRUE(topics.contains("run") && topics.contains("encryption"));
  EXPECT_FALSE(fs::exists(w / "out"));
}

TEST(Doctor, AFolderThatCannotBeWrittenIsBad) {
  const Workplace w("llama");
  EXPECT_EQ(w.run({"doctor", "--config", "run.json", "training.output_dir=/proc/1/out"}), 6) << out_of(w);
  EXPECT_NE(out_of(w).find("checkpoints cannot be written there"), std::string::npos) << out_of(w);
  EXPECT_NE(out_of(w).find("not ready: 1 thing is wrong"), std::string::npos) << out_of(w);
}

TEST(Doctor, MeasuresTheFolderOfOffload) {
  const Workplace w("llama");
  const std::string offload = "zero_optimization.offload_param.";
  const std::vector<std::string> look = {"doctor", "--config", "run.json", "--json", offload + "device=nvme"};
  const auto in = [&](const std::string& folder) {
    std::vector<std::string> all = look;
    all.push_back(offload + "nvme_path=" + folder);
    return w.run(all);
  };
  EXPECT_EQ(in("."), 0);
  const std::string what = finding(Json::parse(out_of(w))["machines"][0], "offload")["what"];
  EXPECT_NE(what.find(" GB/s, writes "), std::string::npos) << what;
  EXPECT_EQ(in("nowhere"), 6);
  EXPECT_EQ(finding(Json::parse(out_of(w))["machines"][0], "offload")["health"], "bad");
}

TEST(Doctor, UnreachableHostsAreNamed) {
  const Workplace w("llama");
  const FakeSsh ssh(w, "echo 'Permission denied (publickey).' >&2\nexit 255\n");
  std::ofstream(w / "hosts") << "node-a\nlocalhost\n";
  EXPECT_EQ(w.run({"doctor", "--hostfile", "hosts"}), 8) << out_of(w);
  EXPECT_NE(out_of(w).find("ssh ended with exit code 255: Permission denied (publickey)."), std::string::npos)
      << out_of(w);
  EXPECT_NE(out_of(w).find("try: ssh -o BatchMode=yes node-a true"), std::string::npos) << out_of(w);
}

// Names that do not resolve, and a machine whose own name is a loopback address.
TEST(Doctor, NamesThatLeadNowhereAreBad) {
  const Workplace w("llama");
  const FakeSsh ssh(w, "for last; do :; done\nexec sh -c \"$last\"\n");
  std::ofstream(w / "hosts") << "node-a.invalid\n127.0.0.1\n";
  EXPECT_EQ(w.run({"doctor", "--hostfile", "hosts", "--json"}), 2) << out_of(w);
  const Json j = Json::parse(out_of(w));
  EXPECT_EQ(finding(j["machines"][1], "names")["health"], "bad") << j.dump(1);
  EXPECT_NE(finding(j["machines"][1], "port")["what"].get<std::string>().find("which others cannot reach"),
            std::string::npos);
  EXPECT_TRUE(nobody_left(w / "."));
}

TEST(Doctor, Mistakes) {
  const Workplace w("llama");
  const auto refused = [&](std::vector<std::string> arguments, const std::string& text) {
    arguments.insert(arguments.begin(), "doctor");
    EXPECT_EQ(w.run(arguments), 2);
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused({"a.b=c"}, "ft doctor: settings need --config FILE");
  refused({"--include", "a"}, "ft doctor: --include and --exclude need --hostfile");
  refused({"--hostfile", "nowhere"}, "nowhere");
}

}  // namespace
}  // namespace ft::test
