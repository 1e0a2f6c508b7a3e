// ft launch over several machines: the arguments of ssh, and complete runs with an ssh that runs its command
// on this machine.
#include <gtest/gtest.h>

#include "tests/life/ranks/ports.h"
#include "tests/life/terminal.h"

namespace ft::test {
namespace {

const Json kWithAdapter = {{"lora", {{"r", 4}, {"lora_dropout", 0.1}}}};

// A shell runs the last argument, as sshd does. It may print something first.
const std::string kHere = "for last; do :; done\necho 'Welcome to this machine'\nexec sh -c \"$last\"\n";

void write_hosts(const Workplace& w, const std::string& text) { std::ofstream(w / "hosts") << text; }

std::vector<std::string> over_ssh(const std::vector<std::string>& more,
                                  const std::vector<std::string>& config = {}) {
  std::vector<std::string> c = {"launch", "--hostfile", "hosts", "--master_addr", "127.0.0.1"};
  c.insert(c.end(), more.begin(), more.end());
  c.insert(c.end(), {"train", "--config", "run.json", "zero_stage=2"});
  c.insert(c.end(), config.begin(), config.end());
  return c;
}

TEST(Machines, TrainLikeOne) {
  const Workplace one("llama", kWithAdapter), two("llama", kWithAdapter);
  ASSERT_EQ(one.run({"launch", "-n", "4", "train", "--config", "run.json", "zero_stage=2"}), 0) << one.says();
  const FakeSsh ssh(two, kHere);
  write_hosts(two, "# two machines\nnode-a slots=2\nnode-b slots=2 max_slots=4\n");
  ASSERT_EQ(two.run(over_ssh({})), 0) << two.says();
  EXPECT_EQ(losses(two / "out"), losses(one / "out"));
  EXPECT_TRUE(contents(two / "out/adapter_model.safetensors") ==
              contents(one / "out/adapter_model.safetensors"));
  for (const char* rank : {"0", "1", "2", "3"})
    EXPECT_TRUE(fs::exists(two / ("out/ranks/rank-" + std::string(rank) + ".log")));
  EXPECT_NE(two.says().find("[node-a] Welcome to this machine"), std::string::npos) << two.says();
  EXPECT_TRUE(nobody_left(two / "."));
}

// The result is rank 0's stdout, as without a launcher; other output is on stderr, with its rank.
TEST(Machines, AnswersAreOnStdout) {
  const Json held_out = {{"finetuning_type", "full"},
                         {"data", {{"eval_datasets", {{{"path", "train.jsonl"}, {"type", "tokenized"}}}}}}};
  const Workplace w("llama", held_out);
  const FakeSsh ssh(w, kHere);
  write_hosts(w, "node-a slots=1\nnode-b slots=2\n");
  const std::vector<std::string> eval = {"eval", "--config", "run.json", "--json"};
  ASSERT_EQ(w.run(eval), 0) << w.says();
  const Json alone = Json::parse(contents(w / "stdout"));
  for (std::vector<std::string> c :
       {std::vector<std::string>{"launch", "-n", "2"},
        std::vector<std::string>{"launch", "--hostfile", "hosts", "--master_addr", "127.0.0.1"}}) {
    c.insert(c.end(), eval.begin(), eval.end());
    ASSERT_EQ(w.run(c), 0) << w.says();
    const std::string answer = contents(w / "stdout");
    EXPECT_EQ(Json::parse(answer)["eval_tokens"], alone["eval_tokens"]) << answer;
    EXPECT_EQ(w.says().find("eval_loss"), std::string::npos) << w.says();
    const std::string log = contents(w / "out/ranks/rank-0.log");
    EXPECT_TRUE(log.ends_with(answer)) << log;
  }
  ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", "logging.progress=plain"}), 0);
  EXPECT_EQ(contents(w / "stdout"), "");
  EXPECT_NE(w.says().find("\n[0] step 16/16"), std::string::npos) << w.says();
}

// The arguments of ssh contain nothing of the run, in particular not the token.
TEST(Machines, SshGetsOneFixedCommand) {
  const Workplace w("llama", kWithAdapter);
  const FakeSsh ssh(w, "timeout 1 cat >/dev/null\nexit 255\n");
  write_hosts(w, "node-a\n10.0.0.7 slots=1\nfe80::1 slots=1\n");
  EXPECT_EQ(w.run(over_ssh({"--ssh_port", "2222"}, {"training.output_dir=a b;$(touch pwned)"})), 8)
      << w.says();
  const std::string options =
      "ssh\n-T\n-x\n-a\n-o\nBatchMode=yes\n-o\nConnectTimeout=15\n-o\nServerAliveInterval=5\n-o\n"
      "ServerAliveCountMax=2\n-o\nClearAllForwardings=yes\n-p\n2222\n--\n";
  for (const char* host : {"node-a", "10.0.0.7", "fe80::1"})
    EXPECT_NE(ssh.words().find(options + host + "\n" + fs::canonical(program_file()).string() + " _node\n"),
              std::string::npos)
        << ssh.words();
  EXPECT_EQ(ssh.words().find("pwned"), std::string::npos);
  EXPECT_FALSE(fs::exists(w / "pwned"));
  EXPECT_NE(w.says().find("could not be started: ssh ended with exit code 255"), std::string::npos)
      << w.says();
  EXPECT_NE(w.says().find("try: ssh -o BatchMode=yes "), std::string::npos) << w.says();
}

TEST(Machines, TheFirstThatFailsIsNamed) {
  const Workplace w("llama", kWithAdapter);
  const FakeSsh ssh(w, kHere);
  write_hosts(w, "node-a slots=1\nnode-b slots=2\n");
  const pid_t launcher =
      w.start(over_ssh({}, {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2"}));
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  const pid_t rank2 = process_of_rank(w / ".", 2);
  ASSERT_GT(rank2, 0);
  const auto start = std::chrono::steady_clock::now();
  kill(rank2, SIGKILL);
  EXPECT_EQ(w.finish(launcher), 128 + SIGKILL) << w.says();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_NE(w.says().find("[0 node-a] rank 2 on "), std::string::npos) << w.says();
  EXPECT_NE(w.says().find("ft launch: rank 2 was killed by signal 9\n  its output: "), std::string::npos)
      << w.says();
  EXPECT_NE(w.says().find("\n  training.resume_from_checkpoint=auto continues from the last complete "),
            std::string::npos)
      << w.says();
  EXPECT_TRUE(nobody_left(w / "."));
}

TEST(Machines, NoRankOutlivesTheLauncherOrSsh) {
  for (const bool launcher_dies : {true, false}) {
    const Workplace w("llama", kWithAdapter);
    const FakeSsh ssh(w, kHere);
    write_hosts(w, "node-a slots=1\nnode-b slots=1\n");
    const pid_t launcher =
        w.start(over_ssh({}, {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2"}));
    ASSERT_TRUE(w.wait_for_rows(2)) << w.says();
    if (launcher_dies) {
      kill(launcher, SIGKILL);
      w.finish(launcher);
    } else {
      for (const pid_t p : processes_in(w / "."))
        if (contents("/proc/" + std::to_string(p) + "/cmdline").ends_with(std::string("_node\0", 6))) {
          kill(p, SIGKILL);
          break;
        }
      EXPECT_NE(w.finish(launcher), 0) << w.says();
    }
    EXPECT_TRUE(nobody_left(w / "."));
  }
}

TEST(Machines, ASignalSavesOnAll) {
  const Workplace w("llama", kWithAdapter);
  const FakeSsh ssh(w, kHere);
  write_hosts(w, "node-a slots=1\nnode-b slots=1\n");
  const pid_t launcher =
      w.start(over_ssh({}, {"training.num_train_epochs=100000", "checkpointing.save_total_limit=2"}));
  ASSERT_TRUE(w.wait_for_rows(2)) << w.says();
  kill(launcher, SIGTERM);
  EXPECT_EQ(w.finish(launcher), 75) << w.says();
  EXPECT_EQ(w.run({"checkpoint", "verify", "out"}), 0) << w.says();
}

TEST(Machines, AnotherFtThereIsRefused) {
  const Workplace w("llama", kWithAdapter);
  const FakeSsh ssh(w,
                    "for last; do :; done\nprogram=${last% _node}\ncp \"$program\" other; echo >>other; exec "
                    "./other _node\n");
  write_hosts(w, "node-a slots=1\nnode-b slots=1\n");
  EXPECT_EQ(w.run(over_ssh({})), 11) << w.says();
  EXPECT_NE(w.says().find("has a different ft from this machine"), std::string::npos) << w.says();
}

TEST(Machines, ByHandNeedOneSecret) {
  const Workplace w("llama", kWithAdapter);
  const Workplace one("llama", kWithAdapter);
  ASSERT_EQ(one.run({"launch", "-n", "2", "train", "--config", "run.json"}), 0) << one.says();
  const std::string port = std::to_string(free_port());
  const auto node = [&](const std::string& which) {
    return std::vector<std::string>{"launch",    "-n",
                                    "1",         "--num_nodes",
                                    "2",         "--node_rank",
                                    which,       "--master_addr",
                                    "127.0.0.1", "--master_port",
                                    port,        "train",
                                    "--config",  "run.json"};
  };
  EXPECT_EQ(w.run(node("0")), 2);
  EXPECT_NE(w.says().find("the same secret in FT_TOKEN"), std::string::npos) << w.says();
  setenv("FT_TOKEN", "a secret of this job", 1);
  const pid_t first = w.start(node("0")), second = w.start(node("1"));
  EXPECT_EQ(w.finish(first), 0) << w.says();
  EXPECT_EQ(w.finish(second), 0) << w.says();
  unsetenv("FT_TOKEN");
  EXPECT_EQ(losses(w / "out"), losses(one / "out"));
}

TEST(Machines, MistakesAreReportedBeforeTheStart) {
  const Workplace w("llama", kWithAdapter);
  const FakeSsh ssh(w, "exit 1\n");
  write_hosts(w, "node-a slots=2\n-oProxyCommand=id slots=2\n");
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& text) {
    EXPECT_EQ(w.run(arguments), 2) << w.says();
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused(over_ssh({}), "hosts:2: \"-oProxyCommand=id\" is not a host name");
  write_hosts(w, "node-a slots=2\n");
  refused(over_ssh({"--num_nodes", "2"}), "--num_nodes is 2 and hosts has 1 hosts");
  refused(over_ssh({"-n", "3"}), "node-a has 2 slots in hosts, but 3 are asked for");
  refused(over_ssh({"--include", "node-b"}), "--include: there is no host node-b in the hostfile");
  refused(over_ssh({"--include", "node-a", "-n", "1"}), "select 2 ranks on node-a, but -n");
  refused(over_ssh({"--node_rank", "1"}), "--hostfile and --node_rank: give one of them");
  refused({"launch", "-n", "1", "--num_nodes", "2", "train", "--config", "run.json"},
          "several machines need --hostfile");
  refused({"launch", "-n", "1", "--include", "x", "train", "--config", "run.json"},
          "--include: without --hostfile there is only localhost, no x");
  refused(over_ssh({"--launcher", "slurm", "--num_nodes", "1", "--node_rank", "0"}), "or --no_ssh too");
  refused(over_ssh({"--no_ssh", "--node_rank", "1"}), "--node_rank is 1 of 1 machines; they count from 0");
  refused(over_ssh({"--autotuning", "run"}), "ft launch: --autotuning: type: ft tune --config run.json");
  refused({"train", "--config", "run.json", "distributed.nnodes=2"},
          "distributed.nnodes is 2 and this is one process");
  EXPECT_EQ(ssh.words(), "");
  EXPECT_FALSE(fs::exists(w / "out/run.json"));
}

// The flags of the `deepspeed` launcher.
TEST(Machines, DeepSpeedsFlags) {
  const Workplace one("llama", kWithAdapter), two("llama", kWithAdapter);
  ASSERT_EQ(one.run({"launch", "-n", "2", "train", "--config", "run.json"}), 0) << one.says();
  ASSERT_EQ(two.run({"launch", "--num_gpus", "2", "--include", "localhost:0,1", "--master_port",
                     std::to_string(free_port()), "--enable_each_rank_log", "logs", "--save_pid", "--module",
                     "train", "--config", "run.json"}),
            0)
      << two.says();
  EXPECT_EQ(losses(two / "out"), losses(one / "out"));
  EXPECT_TRUE(fs::exists(two / "logs/rank-1.log"));
  for (const char* flag : {"--save_pid", "--module"})
    EXPECT_NE(two.says().find("ft launch: " + std::string(flag) + " has no effect: "), std::string::npos);
}

// Variables in the user's own file reach all ranks; a file in the working folder is not read.
TEST(Machines, DeepspeedEnv) {
  const Workplace w("llama", kWithAdapter);
  const FakeSsh ssh(w, kHere);
  write_hosts(w, "node-a slots=1\nnode-b slots=1\n");
  std::ofstream(w / ".deepspeed_env") << "MASTER_PORT=1\n";
  setenv("HOME", w.operator/("").c_str(), 1);
  EXPECT_EQ(w.run(over_ssh({})), 2) << w.says();
  EXPECT_NE(w.says().find(".deepspeed_env:1: MASTER_PORT is set by ft launch for each rank"),
            std::string::npos);
  setenv("HOME", "/nowhere", 1);
  EXPECT_EQ(w.run(over_ssh({}, {"training.max_steps=1"})), 0) << w.says();
  EXPECT_NE(w.says().find("./.deepspeed_env is not read"), std::string::npos) << w.says();
  setenv("DS_ENV_FILE", ".deepspeed_env", 1);
  EXPECT_EQ(w.run(over_ssh({})), 2) << w.says();
  unsetenv("DS_ENV_FILE");
}

// Every machine has the same hostfile, and ft launch is started on each.
TEST(Machines, NoSsh) {
  const Workplace w("llama", kWithAdapter), one("llama", kWithAdapter);
  ASSERT_EQ(one.run({"launch", "-n", "3", "train", "--config", "run.json"}), 0) << one.says();
  write_hosts(w, "node-a slots=1\nnode-b slots=4\n");
  const std::string port = std::to_string(free_port());
  const auto node = [&](const std::string& which) {
    return std::vector<std::string>{
        "launch",      "-H",       "hosts",         "--no_ssh",  "--include",     "node-a@node-b:1,3",
        "--node_rank", which,      "--master_addr", "127.0.0.1", "--master_port", port,
        "train",       "--config", "run.json"};
  };
  setenv("FT_TOKEN", "a secret of this job", 1);
  const pid_t first = w.start(node("0")), second = w.start(node("1"));
  EXPECT_EQ(w.finish(first), 0) << w.says();
  EXPECT_EQ(w.finish(second), 0) << w.says();
  unsetenv("FT_TOKEN");
  EXPECT_EQ(losses(w / "out"), losses(one / "out"));
}

// The launcher listens at distributed.master_addr or fails.
TEST(Machines, TheMasterIsAtTheGivenAddress) {
  const Workplace w("llama", kWithAdapter);
  EXPECT_EQ(
      w.run({"launch", "-n", "2", "train", "--config", "run.json", "distributed.master_addr=192.0.2.1"}), 2);
  EXPECT_NE(w.says().find("cannot listen at 192.0.2.1"), std::string::npos) << w.says();
}

// Rank 0 draws on the terminal as without a launcher; output of other ranks is printed between, wrapped at
// spaces.
TEST(LaunchOnATerminal, HasALiveLine) {
  const Workplace w("llama", kWithAdapter);
  constexpr int kColumns = 60;
  Terminal terminal({"launch", "-n", "2", "train", "--config", w / "run.json", "logging.progress=auto",
                     "training.num_train_epochs=30"},
                    kColumns);
  const std::string shown = terminal.until_it_ends();
  EXPECT_EQ(terminal.finish(), 0) << shown;
  EXPECT_NE(shown.find("\x1b[K"), std::string::npos) << "the live line";
  EXPECT_EQ(shown.find("[0] "), std::string::npos) << shown;
  EXPECT_NE(shown.find("done"), std::string::npos) << shown;
  const std::string log = contents(w / "out/ranks/rank-0.log");
  EXPECT_EQ(log.find_first_of("\r\x1b"), std::string::npos) << log;
  EXPECT_NE(log.find("\nsteps    "), std::string::npos) << log;
  EXPECT_NE(log.find("\ndone     "), std::string::npos) << log;
  EXPECT_EQ(log.find(" left"), std::string::npos) << "no live lines: " << log;
}

}  // namespace
}  // namespace ft::test
