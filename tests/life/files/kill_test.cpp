// Ranks and launchers are killed at random, during training and saving. The run that continues from the
// checkpoints equals an undisturbed one bit by bit, whichever process was killed. Strangers at the ports
// disturb nothing.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <random>

#include "engine/ranks/handshake.h"
#include "tests/life/ranks/ports.h"

namespace ft::test {
namespace {

using std::chrono::milliseconds;

const Json kSaving = {{"lora", {{"r", 4}, {"lora_dropout", 0.1}}},
                      {"checkpointing", {{"save_strategy", "steps"}, {"save_steps", 2}}}};
constexpr int kKills = 20;

std::vector<std::string> saving_run(const std::vector<std::string>& more = {}) {
  std::vector<std::string> c = {
      "launch", "-n", "2", "train", "--config", "run.json", "zero_stage=2", "training.max_steps=60"};
  c.insert(c.end(), more.begin(), more.end());
  return c;
}

void kill_one_of(const Workplace& w, pid_t launcher, int who) {
  if (who == 2) return (void)kill(launcher, SIGKILL);
  if (who == 3) {
    for (const pid_t p : processes_in(w / ".")) kill(p, SIGKILL);
  } else if (const pid_t rank = process_of_rank(w / ".", who); rank > 0) {
    kill(rank, SIGKILL);
  }
}

TEST(Kills, LoseNoSavedData) {
  const Workplace calm("llama", kSaving);
  ASSERT_EQ(calm.run(saving_run()), 0) << calm.says();
  const std::string want = contents(calm / "out/adapter_model.safetensors");
  const Workplace w("llama", kSaving);
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int kills = 0;
  while (kills < kKills) {
    const pid_t launcher = w.start(saving_run({"training.resume_from_checkpoint=auto"}));
    std::this_thread::sleep_for(milliseconds(std::uniform_int_distribution<int>(20, 900)(random)));
    const int who = std::uniform_int_distribution<int>(0, 3)(random);
    kill_one_of(w, launcher, who);
    const int code = w.finish(launcher);
    ASSERT_TRUE(nobody_left(w / ".")) << who;
    if (code == 0) {  // the run ended before the kill
      ASSERT_TRUE(contents(w / "out/adapter_model.safetensors") == want);
      fs::remove_all(w / "out");
      continue;
    }
    ++kills;
    ASSERT_TRUE(code == 128 + SIGKILL) << "kill " << kills << " of " << who << ": " << w.says();
    if (fs::exists(w / "out/checkpoint-2/manifest.json")) {
      ASSERT_EQ(w.run({"checkpoint", "verify", "out"}), 0) << w.says();
    }
  }
  ASSERT_EQ(w.run(saving_run({"training.resume_from_checkpoint=auto"})), 0) << w.says();
  EXPECT_TRUE(contents(w / "out/adapter_model.safetensors") == want);
  EXPECT_EQ(losses(w / "out"), losses(calm / "out"));
}

// Connects as a stranger who does not know the token.
void disturb(int port, std::mt19937& random, std::vector<int>& open) {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in at{.sin_family = AF_INET,
                 .sin_port = htons(static_cast<std::uint16_t>(port)),
                 .sin_addr = {htonl(INADDR_LOOPBACK)},
                 .sin_zero = {}};
  ::connect(s, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  std::string text(std::uniform_int_distribution<std::size_t>(0, 4096)(random), '\0');
  for (char& c : text) c = static_cast<char>(random());
  const Hello hello{.nonce = random_nonce()};
  if (random() % 2)
    text.insert(0, reinterpret_cast<const char*>(&hello), sizeof hello);  // correct except for the proof
  ::send(s, text.data(), text.size(), MSG_NOSIGNAL);
  open.push_back(s);
  if (open.size() > 400) {  // some stay open and silent
    for (std::size_t i = 0; i < 200; ++i) ::close(open[i]);
    open.erase(open.begin(), open.begin() + 200);
  }
}

std::int64_t peak_memory(pid_t pid) {  // in KiB
  std::istringstream in(contents("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  return 0;
}

std::int64_t peak_of_a_calm_rank() {
  const Workplace w("llama", kSaving);
  const pid_t launcher = w.start({"launch", "-n", "2", "train", "--config", "run.json",
                                  "training.num_train_epochs=100000", "checkpointing.save_total_limit=2"});
  EXPECT_TRUE(w.wait_for_rows(5)) << w.says();
  const std::int64_t peak = peak_memory(process_of_rank(w / ".", 0));
  kill(launcher, SIGKILL);
  w.finish(launcher);
  return peak;
}

TEST(Strangers, FloodThePortInVain) {
  const Workplace calm("llama", kSaving), w("llama", kSaving);
  ASSERT_EQ(calm.run(saving_run()), 0) << calm.says();
  const std::int64_t calm_peak = peak_of_a_calm_rank();
  const int port = free_port();
  std::atomic<bool> enough{false};
  std::atomic<int> connections{0};
  std::thread flood([&] {
    std::mt19937 random(1);
    std::vector<int> open;
    while (!enough) {
      disturb(port, random, open);
      if (++connections % 50 == 0) std::this_thread::sleep_for(milliseconds(5));
    }
    for (const int s : open) ::close(s);
  });
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  setenv("FT_TOKEN", "a secret", 1);
  std::vector<pid_t> ranks;
  for (const char* rank : {"0", "1"}) {
    setenv("RANK", rank, 1);
    ranks.push_back(w.start({"train", "--config", "run.json", "zero_stage=2", "training.max_steps=60"}));
    if (ranks.size() == 2) break;
    EXPECT_TRUE(comes_to_hold(60, [&] { return somebody_listens_at(port); })) << w.says();
    const int before = connections;  // rank 0 waits for rank 1 while strangers connect
    EXPECT_TRUE(comes_to_hold(60, [&] { return connections > before + 1000; }));
  }
  std::int64_t peak = 0;
  for (int i = 0; i < 3000 && !fs::exists(w / "out/adapter_model.safetensors"); ++i) {
    peak = std::max(peak, peak_memory(ranks[0]));
    std::this_thread::sleep_for(milliseconds(10));
  }
  for (const pid_t rank : ranks) EXPECT_EQ(w.finish(rank), 0) << w.says();
  enough = true;
  flood.join();
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "FT_TOKEN"}) unsetenv(name);
  EXPECT_GT(peak, 0);
  EXPECT_LT(peak, calm_peak + 16 * 1024);
  EXPECT_EQ(losses(w / "out"), losses(calm / "out"));
}

// During training no process of the run listens at a port.
TEST(Strangers, FindNoOpenPortWhileItTrains) {
  const Workplace w("llama", kSaving);
  const pid_t launcher = w.start({"launch", "-n", "3", "train", "--config", "run.json",
                                  "training.num_train_epochs=100000", "checkpointing.save_total_limit=2"});
  ASSERT_TRUE(w.wait_for_rows(3)) << w.says();
  const std::set<std::string> own = sockets_of_processes_in(w / ".");
  std::set<std::string> connected, listening;
  const std::size_t all = 2 * (3 + 2);  // tensors: each pair; heartbeats: rank 0 and each other rank
  comes_to_hold(10, [&] {
    for (const TcpSocket& s : tcp_sockets())
      if (own.contains(s.inode)) (s.listens ? listening : connected).insert(s.inode);
    return connected.size() >= all;
  });
  EXPECT_EQ(connected.size(), all);
  EXPECT_EQ(listening.size(), 0u);
  kill(launcher, SIGKILL);
  w.finish(launcher);
}

}  // namespace
}  // namespace ft::test
