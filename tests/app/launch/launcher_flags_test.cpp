// The flags of DeepSpeed's launcher, and the ranks that they start here.
#include "app/launch/launcher_flags.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "app/launch/deepspeed_env.h"
#include "app/launch/plain_lines.h"
#include "app/launch/resources.h"
#include "engine/core/error.h"
#include "tests/support/source.h"

namespace ft {
namespace {

TEST(PlainLines, AreTheLastLinesOfAScreen) {
  PlainLines lines;
  std::string text;
  for (const char* piece : {"ft 1\n\r1/20  loss", " 2\x1b[K\r2/20\x1b",
                            "[K\r\x1b[K\x1b[1mstep 2\x1b[0m  saved\n\r3/20\x1b[K", "\r\x1b[K", "done\n"})
    text += lines.add(piece);
  EXPECT_EQ(text + lines.rest(), "ft 1\nstep 2  saved\ndone\n");
}

TEST(PlainLines, SeveralLiveLinesAreDrawnOver) {
  PlainLines lines;
  std::string text = lines.add("ft 1\n\r3/20\x1b[K");  // a line, a curve of two lines, the live line
  text += lines.add("\r***\x1b[K\n\r  *\x1b[K\n\r4/20\x1b[K");
  text += lines.add("\x1b[2A\r**\x1b[K\n\r **\x1b[K\n\r5/20\x1b[K");
  text += lines.add("\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[Kdone\n");
  EXPECT_EQ((text + lines.rest()).substr(0, 5), "ft 1\n");
  EXPECT_TRUE((text).find("done") == text.npos || text.ends_with("done\n")) << text;
}

// Returns the message with which `act` is refused; empty: it is accepted.
std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    return e.what();
  }
  return "";
}

TEST(LauncherFlags, EachHasAnEffectANoteOrARefusal) {
  for (const LauncherFlag& flag : launcher_flags()) {
    const std::string names = flag.names, name = names.substr(names.find("--"));
    ASSERT_EQ(find_launcher_flag(name), &flag);
    testing::internal::CaptureStderr();
    const std::string refused = refusal([&] { heed_launcher_flags({name}); });
    const std::string noted = testing::internal::GetCapturedStderr();
    EXPECT_EQ(refused, flag.refused ? "ft launch: " + name + ": " + flag.why : "");
    EXPECT_EQ(noted, flag.refused ? "" : "ft launch: " + name + " has no effect: " + flag.why + "\n");
  }
  EXPECT_EQ(find_launcher_flag("-q"), find_launcher_flag("--quiet"));
  EXPECT_EQ(find_launcher_flag("--hostfile"), nullptr);
}

TEST(LauncherFlags, ThePageForDeepSpeedsUsersHasThem) {
  std::ifstream in(source_path("docs/deepspeed.md"));
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const LauncherFlag& flag : launcher_flags()) {
    std::string names = "| `" + std::string(flag.names) + "` | ";
    if (const std::size_t comma = names.find(','); comma != names.npos) names.replace(comma, 1, "`, `");
    const std::string row = names + (flag.refused ? "rejected | " : "no effect | ") + flag.why + " |\n";
    EXPECT_NE(page.find(row), std::string::npos) << "docs/deepspeed.md lacks: " << row;
  }
}

TEST(LauncherFlags, OtherLaunchersGetACommandToType) {
  const auto of = [](const std::string& name, int machines) {
    return refusal([&] { check_launcher(name, machines); });
  };
  for (const char* name : {"", "pdsh", "PDSH"}) EXPECT_EQ(of(name, 2), "");
  EXPECT_NE(of("slurm", 2).find("srun --ntasks-per-node=N ft train"), std::string::npos);
  EXPECT_NE(of("OpenMPI", 2).find("mpirun -n N ft train"), std::string::npos);
  for (const char* name : {"mpich", "impi", "mvapich"})
    EXPECT_NE(of(name, 2).find("mpiexec -n N ft train"), std::string::npos);
  EXPECT_EQ(of("slurm", 1), "");
  EXPECT_EQ(of("ray", 1),
            "ft launch: --launcher ray: there are pdsh, openmpi, mvapich, mpich, impi and slurm");
}

// Returns "localhost:0,2" for one machine with two ranks, or the error.
std::string chosen(const LaunchArgs& args, int each, int nodes, bool gpu = false) {
  std::string text;
  const std::string refused = refusal([&] {
    for (const Host& h : choose_resources(args, each, nodes, gpu)) {
      text += (text.empty() ? "" : " ") + h.name + (h.chosen ? "!" : ":");
      for (const int slot : h.slots) text += std::to_string(slot);
    }
  });
  return refused.empty() ? text : refused;
}

TEST(LauncherFlags, WithoutAHostfileASlotIsARankOfThisMachine) {
  EXPECT_EQ(chosen({.include = "localhost:0,1"}, 0, 0), "localhost!01");
  EXPECT_EQ(chosen({.include = "localhost:0,1"}, 2, 1), "localhost!01");
  EXPECT_EQ(chosen({.include = "localhost:3@localhost:1"}, 0, 0), "localhost!13");
  EXPECT_EQ(chosen({.include = "localhost"}, 2, 0), "localhost:01");
  EXPECT_EQ(chosen({}, 2, 3), "localhost:01 localhost:01 localhost:01");
  EXPECT_EQ(chosen({.include = "localhost:0,1"}, 3, 0),
            "ft launch: --include and --exclude select 2 ranks on localhost, but -n or "
            "distributed.nproc_per_node is 3; leave one of them out");
  EXPECT_EQ(chosen({.include = "localhost:0,x"}, 0, 0), "--include: localhost has slots 0 to 1024 and no x");
  EXPECT_EQ(chosen({.include = "localhost:"}, 0, 0), "--include: which slots of localhost? localhost:0,1");
  EXPECT_EQ(chosen({.include = "node-b:0"}, 0, 0),
            "ft launch: --include: without --hostfile there is only localhost, no node-b");
  EXPECT_EQ(chosen({.include = "localhost:0", .exclude = "localhost:1"}, 0, 0),
            "--include and --exclude: give only one of them");
  EXPECT_EQ(chosen({.exclude = "localhost:0"}, 2, 0),
            "ft launch: --exclude needs --hostfile, or GPUs to count; on CPUs give -n N");
  EXPECT_EQ(chosen({}, 0, 0),
            "ft launch: how many ranks? Give -n N, --hostfile, or set distributed.nproc_per_node");
}

TEST(LauncherFlags, GpusAreTheVisibleOnes) {
  EXPECT_EQ(gpus_here("4,5,7"), (std::vector<int>{4, 5, 7}));
  EXPECT_EQ(refusal([] { gpus_here("GPU-8932f937"); }),
            "ft launch: CUDA_VISIBLE_DEVICES=GPU-8932f937 does not number the GPUs; give -n N");
}

TEST(LauncherFlags, VariablesOfDeepspeedEnv) {
  Variables v;
  parse_deepspeed_env("# for all\n\nNCCL_DEBUG=INFO\r\n  A = b=c \nNCCL_DEBUG=WARN\n", "env", v);
  EXPECT_EQ(v, (Variables{{"A", "b=c"}, {"NCCL_DEBUG", "WARN"}}));
  const auto wrong = [](const std::string& text) {
    return refusal([&] {
      Variables none;
      parse_deepspeed_env(text, "env", none);
    });
  };
  for (const char* text : {"\nNCCL_DEBUG", "\n=x", "\n1A=x", "\nexport A=b"})
    EXPECT_EQ(wrong(text), "env:2: not understood; a line is: NAME=VALUE") << text;
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "FT_TOKEN"})
    EXPECT_EQ(wrong(std::string(name) + "=1"),
              std::string("env:1: ") + name +
                  " is set by ft launch for each rank; see ft launch --help for its options");
}

}  // namespace
}  // namespace ft
