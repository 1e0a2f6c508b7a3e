// Machines as network namespaces: two of them with two ranks each, and faults of the link between them. Needs
// root and iproute2, otherwise the tests are skipped. The DISABLED ones are the same with more faults, for
// the nightly script.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/life/ranks/nodes.h"
#include "tests/life/ranks/ssh.h"

namespace ft::test {
namespace {

using std::chrono::seconds;

// An ssh that enters a namespace and sets the host name there.
const std::string kInto =
    "while [ \"$1\" != -- ]; do shift; done\n"
    "exec ip netns exec \"$2\" unshare --uts sh -c 'echo \"$0\" >/proc/sys/kernel/hostname; exec sh -c "
    "\"$1\"' "
    "\"$2\" \"$3\"\n";

// An ssh that enters a namespace, for a hostfile of addresses.
std::string into_by_number(const Nodes& n) {
  return std::string("while [ \"$1\" != -- ]; do shift; done\ncase $2 in ") + Nodes::kA + ") n=" + n.a +
         ";; *) n=" + n.b + ";; esac\nexec ip netns exec $n sh -c \"$3\"\n";
}

struct Fault {
  const char* name;
  std::string what, undo;  // shell commands, with A and B for the machines; undo empty: the fault stays
  double seconds = 0;      // until it is undone
};

std::string on(const Nodes& n, std::string command) {
  for (const auto& [letter, name] : {std::pair{" A ", n.a}, std::pair{" B ", n.b}})
    for (std::size_t at = 0; (at = command.find(letter, at)) != std::string::npos;)
      command.replace(at + 1, 1, name);
  return command;
}

const std::string kDropAtA = "ip -n A route add blackhole 10.77.0.2/32",
                  kDropAtB = "ip -n B route add blackhole 10.77.0.1/32";

std::string name_of(const testing::TestParamInfo<Fault>& info) { return info.param.name; }
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }  // for gtest's output

std::vector<std::string> over_the_link(const Nodes&, std::vector<std::string> config) {
  config.insert(config.begin(), {"launch", "--hostfile", "hosts", "--master_addr", Nodes::kA, "train",
                                 "--config", "run.json", "zero_stage=2"});
  return config;
}

class Cut : public testing::TestWithParam<Fault> {
 protected:
  // Expects that the run ends on both sides and names the lost rank.
  void ends() {
    const Nodes nodes;
    if (!nodes) GTEST_SKIP() << "no network namespaces: this needs root, ip and the kernel's veth";
    const Workplace w("llama");
    const FakeSsh ssh(w, kInto);
    std::ofstream(w / "hosts") << nodes.a << " slots=2\n" << nodes.b << " slots=2\n";
    const pid_t launcher = w.start(
        over_the_link(nodes, {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2"}));
    ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
    ASSERT_TRUE(sh(on(nodes, GetParam().what)));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(w.finish(launcher), 8) << w.says();
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    RecordProperty("seconds", std::to_string(took));
    EXPECT_LT(took, 30);  // 14 s, and time for a busy machine
    for (const char* rank : {"0", "1"})
      EXPECT_NE(contents(w / ("out/ranks/rank-" + std::string(rank) + ".log"))
                    .find(" on " + nodes.b + " (process "),
                std::string::npos)
          << rank << "\n"
          << w.says();
    for (const char* rank : {"2", "3"})
      EXPECT_NE(contents(w / ("out/ranks/rank-" + std::string(rank) + ".log"))
                    .find(" on " + nodes.a + " (process "),
                std::string::npos)
          << rank << "\n"
          << w.says();
    EXPECT_NE(w.says().find("cannot be reached"), std::string::npos) << w.says();
    EXPECT_NE(w.says().find("at step "), std::string::npos) << w.says();
    EXPECT_TRUE(nobody_left(w / "."));
  }
};

TEST_P(Cut, EndsBothSides) { ends(); }
INSTANTIATE_TEST_SUITE_P(Links, Cut,
                         testing::Values(Fault{"down", "ip -n A link set link0 down", ""},
                                         Fault{"one_way", kDropAtA, ""}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(DISABLED_More, Cut,
                         testing::Values(Fault{"blackhole", kDropAtA + " && " + kDropAtB, ""},
                                         Fault{"other_way", kDropAtB, ""},
                                         Fault{"vanished", "ip -n B link set link0 netns A name gone", ""}),
                         name_of);

// The machines share each layer, or sequences, with a rank on each.
class CutAxis : public testing::TestWithParam<std::tuple<std::string, Fault>> {
 protected:
  void ends() {
    const auto& [axis, fault] = GetParam();
    const Nodes nodes;
    if (!nodes) GTEST_SKIP() << "no network namespaces: this needs root, ip and the kernel's veth";
    const Workplace w("llama");
    const FakeSsh ssh(w, kInto);
    std::ofstream(w / "hosts") << nodes.a << " slots=1\n" << nodes.b << " slots=1\n";
    const pid_t launcher =
        w.start(over_the_link(nodes, {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2",
                                      "distributed." + axis + "_parallel_size=2"}));
    ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
    ASSERT_TRUE(sh(on(nodes, fault.what)));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(w.finish(launcher), 8) << w.says();
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
    for (const auto& [rank, other] : {std::pair{"0", nodes.b}, {"1", nodes.a}}) {
      const std::string log = contents(w / ("out/ranks/rank-" + std::string(rank) + ".log"));
      EXPECT_NE(log.find(" on " + other + " (process "), std::string::npos) << rank << "\n" << w.says();
    }
    EXPECT_NE(w.says().find("cannot be reached"), std::string::npos) << w.says();
    EXPECT_NE(w.says().find("at step "), std::string::npos) << w.says();
    EXPECT_TRUE(nobody_left(w / "."));
  }
};

std::string axis_and_fault(const testing::TestParamInfo<std::tuple<std::string, Fault>>& info) {
  return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
}

TEST_P(CutAxis, EndsBothSides) { ends(); }
INSTANTIATE_TEST_SUITE_P(Links, CutAxis,
                         testing::Combine(testing::Values("tensor", "sequence"),
                                          testing::Values(Fault{"down", "ip -n A link set link0 down", ""})),
                         axis_and_fault);
INSTANTIATE_TEST_SUITE_P(DISABLED_More, CutAxis,
                         testing::Combine(testing::Values("tensor", "sequence"),
                                          testing::Values(Fault{"one_way", kDropAtA, ""},
                                                          Fault{"other_way", kDropAtB, ""})),
                         axis_and_fault);

class Mended : public testing::TestWithParam<Fault> {
 protected:
  // Expects that the run continues, with the losses of a run without the fault.
  void goes_on() {
    const Nodes nodes;
    if (!nodes) GTEST_SKIP() << "no network namespaces: this needs root, ip and the kernel's veth";
    const Workplace calm("llama"), w("llama");
    const std::vector<std::string> steps = {"training.max_steps=400"};
    ASSERT_EQ(calm.run({"launch", "-n", "4", "train", "--config", "run.json", "zero_stage=2", steps[0]}), 0);
    const FakeSsh ssh(w, kInto);
    std::ofstream(w / "hosts") << nodes.a << " slots=2\n" << nodes.b << " slots=2\n";
    const pid_t launcher = w.start(over_the_link(nodes, steps));
    ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
    ASSERT_TRUE(sh(on(nodes, GetParam().what)));
    const std::size_t rows_then = losses(w / "out").size();
    if (!GetParam().undo.empty()) {
      std::this_thread::sleep_for(std::chrono::duration<double>(GetParam().seconds));
      EXPECT_LT(losses(w / "out").size(), 400u) << "the fault came too late, at " << rows_then;
      ASSERT_TRUE(sh(on(nodes, GetParam().undo)));
    }
    EXPECT_EQ(w.finish(launcher), 0) << w.says();
    EXPECT_EQ(losses(w / "out"), losses(calm / "out"));
  }
};

TEST_P(Mended, GoesOn) { goes_on(); }
INSTANTIATE_TEST_SUITE_P(Links, Mended,
                         testing::Values(Fault{"down_for_3_s", "ip -n A link set link0 down",
                                               "ip -n A link set link0 up", 3}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(
    DISABLED_More, Mended,
    testing::Values(Fault{"down_for_1_s", "ip -n A link set link0 down", "ip -n A link set link0 up", 1},
                    Fault{"down_for_8_s", "ip -n A link set link0 down", "ip -n A link set link0 up", 8},
                    Fault{"slow",
                          "tc -n A qdisc add dev link0 root tbf rate 4mbit burst 32kbit latency 400ms", ""}),
    name_of);

TEST(DoctorOfTwo, LooksAtTheMachinesAndBetweenThem) {
  const Nodes nodes;
  if (!nodes) GTEST_SKIP() << "no network namespaces: this needs root, ip and the kernel's veth";
  const Workplace w("llama");
  const FakeSsh ssh(w, into_by_number(nodes));
  std::ofstream(w / "hosts") << Nodes::kA << " slots=2\n" << Nodes::kB << " slots=2\n";
  EXPECT_EQ(w.run({"doctor", "--hostfile", "hosts", "--config", "run.json", "--json"}), 0)
      << contents(w / "stdout") << w.says();
  const Json well = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(well["machines"].size(), 2u);
  EXPECT_EQ(well["machines"][0]["reached"][0]["host"], Nodes::kB);
  EXPECT_TRUE(well["machines"][1]["reached"][0]["problem"].is_null()) << well.dump(1);
  EXPECT_FALSE(fs::exists(w / "out"));  // ft doctor leaves no files behind

  // A firewall in one direction only: packets from A to B's ports are lost.
  ASSERT_TRUE(sh(on(nodes, kDropAtA)));
  EXPECT_EQ(w.run({"doctor", "--hostfile", "hosts"}), 8) << contents(w / "stdout");
  EXPECT_NE(contents(w / "stdout").find(std::string(Nodes::kA) + " cannot reach " + Nodes::kB),
            std::string::npos)
      << contents(w / "stdout");
}

}  // namespace
}  // namespace ft::test
