// distributed.encryption from outside: the same results, and errors that name the trouble when a relay
// between two ranks changes bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <tuple>

#include "engine/core/error.h"
#include "engine/ranks/seal.h"
#include "tests/life/ranks/nodes.h"
#include "tests/life/ranks/ports.h"
#include "tests/life/ranks/ranks.h"
#include "tests/support/relay.h"

namespace ft::test {
namespace {

using Kind = WireFault::Kind;

const std::string kSecret = "a secret of two ranks";
const std::string kSetting = "distributed.encryption=";

bool shows(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(EncryptedRanks, TrainToTheSameBits) {
  for (const auto& [config, ranks, stage] : {std::tuple{kLora, 2, 0}, {kFull, 3, 3}}) {
    const Result want = result_of("llama", config, ranks, stage, 1);
    for (const std::string setting : {"auth", "tls"}) {
      const Result got = result_of("llama", config, ranks, stage, 1, {kSetting + setting});
      EXPECT_EQ(got.losses, want.losses) << setting;
      EXPECT_TRUE(got.weights == want.weights) << setting;
    }
  }
}

TEST(EncryptedRanks, SaySoAndArePlanned) {
  const Workplace w("llama", kLora);
  std::int64_t plain = 0;
  for (const Encryption e : {Encryption::none, Encryption::auth, Encryption::tls}) {
    const std::vector<std::string> more = {kSetting + name_of(e), "training.max_steps=2",
                                           str("training.output_dir=out-", name_of(e)),
                                           "logging.progress=plain"};
    ASSERT_EQ(w.run(command(2, 1, 1, more)), 0) << w.says();
    EXPECT_TRUE(shows(w.says(), e == Encryption::none   ? "2, over TCP\n"
                                : e == Encryption::auth ? "2, over TCP, authenticated\n"
                                                        : "2, over TCP with TLS 1.3\n"))
        << w.says();
    const std::int64_t communication =
        rows(w / str("out-", name_of(e), "/log.jsonl")).back().at("memory").at("communication");
    if (e == Encryption::none) plain = communication;
    EXPECT_EQ(communication - plain, seals_memory(e, 2));
    if (e != Encryption::tls) continue;
    std::vector<std::string> plan = {"plan",   "--config",     "run.json",
                                     "--json", "zero_stage=1", "distributed.nproc_per_node=2"};
    plan.insert(plan.end(), more.begin(), more.end());
    ASSERT_EQ(w.run(plan), 0) << w.says();
    EXPECT_EQ(Json::parse(contents(w / "stdout")).at("communication"), communication);
  }
}

// Two ranks that a launcher other than ft's has started.
class Pair : public testing::Test {
 protected:
  Workplace w{"llama", kLora};
  pid_t ranks[2] = {-1, -1};
  Address master{"127.0.0.1", free_port()};

  void TearDown() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "FT_TOKEN"}) unsetenv(name);
  }
  fs::path said_at(int rank) const { return w / str("rank", rank, ".txt"); }
  std::string said(int rank) const { return contents(said_at(rank)); }
  std::string all() const { return str("rank 0: ", said(0), "\nrank 1: ", said(1)); }
  void start(int rank, const Address& at, const std::string& token, std::vector<std::string> more) {
    setenv("WORLD_SIZE", "2", 1);
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("MASTER_ADDR", at.host.c_str(), 1);
    setenv("MASTER_PORT", std::to_string(at.port).c_str(), 1);
    token.empty() ? unsetenv("FT_TOKEN") : setenv("FT_TOKEN", token.c_str(), 1);
    more.insert(more.begin(), {"train", "--config", "run.json", "zero_stage=2", "distributed.timeout_s=20"});
    const Socket file(::open(said_at(rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    ranks[rank] = w.start(more, file.fd());
  }
  std::pair<int, int> finish() const {
    const int zero = w.finish(ranks[0]);
    return {zero, w.finish(ranks[1])};
  }
};

TEST_F(Pair, WithoutASecretIsRefused) {
  start(0, master, "", {kSetting + "tls"});
  start(1, master, "too short", {kSetting + "auth"});
  EXPECT_EQ(finish(), std::pair(2, 2)) << all();
  EXPECT_TRUE(shows(said(0), "distributed.encryption=tls needs a secret of all ranks in FT_TOKEN"))
      << said(0);
  EXPECT_TRUE(shows(said(0), "it is not set")) << said(0);
  EXPECT_TRUE(shows(said(1), "it has 9")) << said(1);
}

TEST_F(Pair, WithTwoSettingsOrTokensIsNamed) {
  start(0, master, kSecret, {kSetting + "tls"});
  start(1, master, kSecret, {kSetting + "auth"});
  EXPECT_EQ(finish(), std::pair(11, 11)) << all();
  EXPECT_TRUE(shows(said(0), "has distributed.encryption=auth, and rank 0 has tls")) << all();
  EXPECT_TRUE(shows(said(1), "has distributed.encryption=tls, and rank 1 has auth")) << all();
  start(0, master, kSecret, {kSetting + "tls", "distributed.timeout_s=5"});
  start(1, master, kSecret + "!", {kSetting + "tls"});
  EXPECT_EQ(finish(), std::pair(9, 11)) << all();
  EXPECT_TRUE(shows(said(1), "has another token")) << all();
}

TEST_F(Pair, FindsSomebodyWhoChangesBytes) {
  for (const std::string setting : {"none", "auth", "tls"}) {
    // Changes a byte after the handshakes, in the first sums.
    const Relay relay({"127.0.0.1", 0}, master, {Kind::flip, 0, true, 20'001});
    start(0, master, kSecret, {kSetting + setting, "training.output_dir=" + setting});
    start(1, relay.address(), kSecret, {kSetting + setting, "training.output_dir=" + setting});
    const auto ended = finish();
    ASSERT_TRUE(relay.done()) << all();
    if (setting == "none") {  // a bit of a gradient, or of a header: found by chance only
      EXPECT_TRUE(ended.first == 0 || ended.first == 7 || ended.first == 11) << ended.first << all();
      continue;
    }
    EXPECT_EQ(ended, std::pair(8, 8)) << setting << all();
    for (const int rank : {0, 1})
      EXPECT_TRUE(shows(said(rank), "bytes were changed, dropped or repeated")) << setting << all();
    EXPECT_FALSE(fs::exists(w / setting / "adapter_model.safetensors"));
  }
}

// Runs each rank on its own machine, and the relay on the first.
TEST_F(Pair, FindsSomebodyBetweenMachines) {
  const Nodes nodes;
  if (!nodes) GTEST_SKIP() << "no network namespaces: this needs root, ip and the kernel's veth";
  const auto on = [&](const std::string& node, const std::function<void()>& act) {
    std::thread([&] {  // processes are in the namespace of the thread that starts them
      const Socket net(::open(("/var/run/netns/" + node).c_str(), O_RDONLY | O_CLOEXEC));
      ASSERT_EQ(::setns(net.fd(), CLONE_NEWNET), 0);
      act();
    })
        .join();
  };
  const Address root{Nodes::kA, 29500};
  for (const std::string setting : {"auth", "tls"})
    for (const Kind kind : {Kind::none, Kind::flip, Kind::drop, Kind::repeat, Kind::cut}) {
      const WireFault fault{kind, 0, kind != Kind::drop, 20'001, 40};
      const Relay relay({Nodes::kA, 0}, root, fault, "/var/run/netns/" + nodes.a);
      const std::vector<std::string> more = {kSetting + setting,
                                             str("training.output_dir=", setting, static_cast<int>(kind))};
      on(nodes.a, [&] { start(0, root, kSecret, more); });
      on(nodes.b, [&] { start(1, relay.address(), kSecret, more); });
      const auto ended = finish();
      if (kind == Kind::none) {
        EXPECT_EQ(ended, std::pair(0, 0)) << all();
        continue;
      }
      EXPECT_TRUE(relay.done());
      EXPECT_EQ(ended, std::pair(8, 8)) << setting << static_cast<int>(kind) << all();
      EXPECT_TRUE(shows(all(), kind == Kind::cut ? "went away" : "bytes were changed, dropped or repeated"))
          << setting << static_cast<int>(kind) << all();
    }
}

TEST(EncryptedRanks, AreTriedByTheDoctor) {
  const Workplace w("llama");
  ASSERT_EQ(w.run({"doctor", "--config", "run.json", kSetting + "tls"}), 0) << contents(w / "stdout");
  const std::string out = contents(w / "stdout");
  EXPECT_TRUE(shows(out, "works: a rank sends ")) << out;
  EXPECT_TRUE(shows(out, "this run has distributed.encryption=tls")) << out;
  ASSERT_EQ(w.run({"doctor", "--config", "run.json", "distributed.nnodes=2"}), 0);
  EXPECT_TRUE(shows(contents(w / "stdout"), "set distributed.encryption=tls")) << contents(w / "stdout");
}

}  // namespace
}  // namespace ft::test
