// ft pull as a program: killed, interrupted, twice at once; and runs that fetch their models and data.
#include <gtest/gtest.h>

#include <random>

#include "engine/core/environment.h"
#include "tests/app/hub/hub_server.h"
#include "tests/life/program.h"

namespace ft::test {
namespace {

constexpr std::size_t kLarge = 3'000'000;

// A hub with a model and data, and a run that names them.
struct PullLife : testing::Test {
  PullLife() {
    set_variable("HF_HUB_CACHE", (w / "hub").string());
    set_variable("HF_ENDPOINT", server.endpoint());
    set_variable("HF_TOKEN", "hf_secretsecret");
    server.token = "hf_secretsecret";
    const std::string golden = source_path("tests/golden/models/llama/");
    auto& model = server.repositories["models/org/tiny"].files;
    model["config.json"] = {contents(golden + "model/config.json")};
    model["model.safetensors"] = {contents(golden + "model/model.safetensors"), true};
    server.repositories["datasets/org/rows"].files["train.jsonl"] = {contents(golden + "samples.jsonl")};
    std::string bytes(kLarge, '\0');
    std::mt19937 random(1);
    for (char& c : bytes) c = static_cast<char>(random());
    server.repositories["models/org/large"].files = {{"config.json", {"{}"}},
                                                     {"model.safetensors", {bytes, true}}};
    server.alter = [](const Asked& asked, Answer& answer) { answer.pause = asked.hub ? 0 : 5; };
  }
  ServedFile& large() { return server.repositories["models/org/large"].files["model.safetensors"]; }
  fs::path blobs() const { return w / "hub/models--org--large/blobs"; }
  fs::path part() { return blobs() / (large().hash() + ".incomplete"); }
  fs::path file() const {
    return w / ("hub/models--org--large/snapshots/" + std::string(40, 'a') + "/model.safetensors");
  }
  bool begins(std::uintmax_t bytes) {
    return comes_to_hold(60, [&] {
      std::error_code none;
      const auto size = fs::file_size(part(), none);
      return !none && size >= bytes;
    });
  }
  std::vector<std::string> by_ids() const {
    return {"model.model_name_or_path=org/tiny",
            R"(data.datasets=[{"path": "org/rows", "type": "tokenized"}])", "training.max_steps=1"};
  }

  HubServer server;
  Workplace w{"llama"};
};

TEST_F(PullLife, ItsAnswerNamesTheFolderAndTheNextCommand) {
  ASSERT_EQ(w.run({"pull", "org/tiny"}), 0) << w.says();
  const std::string said = contents(w / "stdout"),
                    folder = "hub/models--org--tiny/snapshots/" + std::string(40, 'a');
  EXPECT_TRUE(said.starts_with("pulled   org/tiny, 2 files, ")) << said;
  EXPECT_NE(said.find(" -> " + folder +
                      "\nnext     ft train --config run.json model.model_name_or_path=org/tiny\n"),
            std::string::npos)
      << said;
  EXPECT_TRUE(w.says().starts_with("fetching org/tiny: 2 files, ")) << w.says();
  EXPECT_EQ((said + w.says()).find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ((said + w.says()).find("secret"), std::string::npos);
  ASSERT_EQ(w.run({"pull", "datasets/org/rows"}), 0) << w.says();
  EXPECT_NE(contents(w / "stdout").find(R"('data.datasets=[{"path": "org/rows"}]')"), std::string::npos);
}

TEST_F(PullLife, OneLineBeginsWithAModelAndDataThatAreNotHereYet) {
  ASSERT_EQ(w.run({"train", "--model", "org/tiny", "--data", "org/rows", "training.max_steps=1"}), 0)
      << w.says();
  EXPECT_NE(w.says().find("model.download=true"), std::string::npos) << w.says();
  EXPECT_NE(w.says().find("org/tiny is not in the hub's cache"), std::string::npos) << w.says();
  EXPECT_TRUE(fs::exists(w / "outputs/rows/adapter_model.safetensors"));
  ASSERT_EQ(
      w.run({"train", "--model", "org/tiny", "--data", "org/rows", "training.max_steps=1", "--overwrite"}), 0)
      << w.says();
  EXPECT_EQ(w.says().find("model.download"), std::string::npos) << w.says();
}

TEST_F(PullLife, OneLineFetchesNothingIfThatIsRefused) {
  EXPECT_EQ(w.run({"train", "--model", "org/tiny", "--data", "org/rows", "model.download=false"}), 3);
  EXPECT_NE(w.says().find("ft pull org/tiny"), std::string::npos) << w.says();
}

TEST_F(PullLife, KilledAgainAndAgainItEndsWithTheRightFile) {
  std::mt19937 random(7);
  int kills = 0;
  for (int code = -1; code != 0;) {
    const pid_t pid = w.start({"pull", "org/large"});
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution<int>(100, 500)(random)));
    if (kills < 8) kill(pid, SIGKILL);
    code = Workplace::finish(pid);
    ASSERT_TRUE(code == 0 || code == 128 + SIGKILL) << w.says();
    kills += code != 0 ? 1 : 0;
    if (fs::exists(file())) {  // it may be killed at its end
      EXPECT_EQ(contents(file()), large().contents);
    }
    ASSERT_LT(kills, 20);
  }
  EXPECT_GT(kills, 1);
  EXPECT_EQ(contents(file()), large().contents);
  const auto asked = server.asked_for(large().hash());
  EXPECT_TRUE(std::any_of(asked.begin(), asked.end(), [](const Asked& a) { return !a.range.empty(); }));
  EXPECT_EQ(std::distance(fs::directory_iterator(blobs()), {}), 2);
}

TEST_F(PullLife, CtrlCLeavesAPartThatTheNextOneContinues) {
  const pid_t pid = w.start({"pull", "org/large"});
  ASSERT_TRUE(begins(100'000));
  kill(pid, SIGINT);
  EXPECT_EQ(Workplace::finish(pid), 75);
  EXPECT_NE(w.says().find("stopped by Ctrl-C with "), std::string::npos) << w.says();
  EXPECT_NE(w.says().find(" of 3.00 MB; the same command goes on from here\n"), std::string::npos)
      << w.says();
  const auto size = fs::file_size(part());
  EXPECT_FALSE(fs::exists(file()));
  ASSERT_EQ(w.run({"pull", "org/large"}), 0) << w.says();
  EXPECT_EQ(server.asked_for(large().hash()).back().range, "bytes=" + std::to_string(size) + "-");
  EXPECT_EQ(contents(file()), large().contents);
}

TEST_F(PullLife, TwoAtOnceFetchEachFileOnce) {
  const pid_t one = w.start({"pull", "org/large"}), two = w.start({"pull", "org/large"});
  EXPECT_EQ(Workplace::finish(one), 0) << w.says();
  EXPECT_EQ(Workplace::finish(two), 0) << w.says();
  EXPECT_EQ(server.asked_for(large().hash()).size(), 1u);
  EXPECT_EQ(contents(file()), large().contents);
}

TEST_F(PullLife, IfTheFirstOfTwoIsKilledTheOtherGoesOn) {
  const pid_t one = w.start({"pull", "org/large"});
  ASSERT_TRUE(begins(100'000));
  const pid_t two = w.start({"pull", "org/large"});
  EXPECT_TRUE(w.wait_for_words("another process fetches it; waiting")) << w.says();
  kill(one, SIGKILL);
  Workplace::finish(one);
  EXPECT_EQ(Workplace::finish(two), 0) << w.says();
  EXPECT_EQ(contents(file()), large().contents);
  EXPECT_EQ(server.asked_for(large().hash()).size(), 2u);
}

TEST_F(PullLife, ARunSaysWhatFetchesItsModel) {
  EXPECT_EQ(w.train(by_ids()), 3);
  EXPECT_NE(w.says().find("ft pull org/tiny"), std::string::npos) << w.says();
  EXPECT_TRUE(server.asked().empty());
}

TEST_F(PullLife, ARunFetchesItsModelAndDataIfItMay) {
  std::vector<std::string> all = by_ids();
  all.push_back("model.download=true");
  ASSERT_EQ(w.train(all), 0) << w.says();
  EXPECT_EQ(w.says(), "");  // logging.progress=none
  const std::size_t asked = server.asked().size();
  all.insert(all.end(), {"training.max_steps=2", "training.output_dir=again", "logging.progress=plain"});
  ASSERT_EQ(w.train(all), 0) << w.says();
  EXPECT_EQ(server.asked().size(), asked);  // nothing is missing, so nothing is asked
  EXPECT_EQ(w.says().find("fetching"), std::string::npos);
}

TEST_F(PullLife, RanksFindWhatTheLauncherHasFetched) {
  std::vector<std::string> all = by_ids();
  all.insert(all.begin(), {"launch", "-n", "2", "train", "--config", "run.json"});
  all.push_back("model.download=true");
  ASSERT_EQ(w.run(all), 0) << w.says();
  EXPECT_EQ(server.asked_for("/resolve/" + std::string(40, 'a') + "/model.safetensors").size(), 1u);
}

}  // namespace
}  // namespace ft::test
