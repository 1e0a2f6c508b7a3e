// Runs whose answers ft serve generates: the training of a run that generates them itself where tokens are
// chosen alike; the same bits after a resumption and in any stage; planned memory; a server that dies.
#include "tests/life/answers/served.h"
#include "tests/life/objectives/online_place.h"

namespace ft::test {
namespace {

const Json kDemo = {
    {"model", {{"model_name_or_path", kBase}}}, {"lora", {{"r", 4}}}, {"generation", nullptr}};

// ft serve with the demo's model, which takes an adapter of a run.
class AnswerServer {
 public:
  AnswerServer()
      : server_(place_, {"serve", "--model", kBase, "--max-loras", "1", "--max-lora-rank", "4",
                         "generation.max_length=64"}) {}
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port); }
  pid_t pid() const { return server_.pid(); }
  std::string says() const { return place_.says(); }
  int port() const { return server_.port; }

 private:
  Workplace place_{"llama"};
  Listening server_;
};

Json answered_by(const AnswerServer& server, Json objective = Json::object()) {
  objective["rollout_server"] = server.url();
  return objective;
}

// The likeliest token is the same wherever it is computed. Without importance weights the server's
// log-probabilities do not matter, so that the training is the same to the bit.
TEST(RolloutServerLife, TrainsAsWithOwnAnswers) {
  const AnswerServer server;
  const Json greedy = {{"type", "reinforce++"}, {"num_generations", nullptr}, {"beta", 0}, {"top_k", 1}};
  const OnlinePlace w(greedy, kDemo);
  ASSERT_EQ(w.train({"training.num_train_epochs=4"}), 0) << w.says();
  ASSERT_GE(w.log().size(), 4u);
  const auto answered = [&](const std::string& correction, std::int64_t last_step) {
    ASSERT_EQ(
        w.train({"training.num_train_epochs=4", "training.output_dir=" + correction,
                 "objective.rollout_server=" + server.url(), "objective.rollout_correction=" + correction}),
        0)
        << w.says() << server.says();
    const auto own = w.rollouts(), given = w.rollouts(correction);
    ASSERT_EQ(own.size(), given.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      for (const char* name : {"prompt_ids", "completion_ids", "reward", "ended"})
        if (own[i]["step"] <= last_step) {
          EXPECT_EQ(given[i][name], own[i][name]) << name << " " << i;
        }
  };
  answered("none", 4);
  if (HasFatalFailure()) return;
  EXPECT_TRUE(w.weights("none") == w.weights());
  EXPECT_FALSE(w.log("none")[0].contains("sampling/sampling_logp_difference/mean"));
  for (const std::string correction : {"sequence_mask", "token_truncate"}) {
    answered(correction, 2);
    if (HasFatalFailure()) return;
    const auto own = w.log(), given = w.log(correction);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(given[i]["loss"].get<double>(), own[i]["loss"].get<double>(), 1e-3) << i;
      const auto figure = [&](const std::string& name) { return given[i]["sampling/" + name].get<double>(); };
      EXPECT_LT(figure("sampling_logp_difference/mean"), 1e-4) << "one program, one dtype";
      EXPECT_LT(figure("sampling_logp_difference/max"), 1e-3);
      for (const char* name : {"min", "mean", "max"})
        EXPECT_NEAR(figure(std::string("importance_sampling_ratio/") + name), 1, 1e-2) << name;
    }
  }
}

const Json kLong = {{"num_iterations", 2}, {"steps_per_generation", 12}, {"beta", 0.1}};

TEST(RolloutServerLife, AResumedRunHasTheSameBits) {
  const AnswerServer server;
  for (const Json& objective : {Json::object(), kLong}) {
    const OnlinePlace w(answered_by(server, objective), kDemo);
    expect_same_after_resuming(w, {"training.num_train_epochs=2"});
    const Json first = w.rollouts()[0];
    ASSERT_EQ(first["sampling_logps"].size(), first["completion_ids"].size());
    EXPECT_TRUE(w.log()[0].contains("sampling/importance_sampling_ratio/mean"));
  }
}

TEST(RolloutServerLife, ResultsDoNotDependOnStage) {
  const AnswerServer server;
  expect_same_in_stages(OnlinePlace(answered_by(server, kLong), kDemo));
}

// No keys and values of answers are in the plan.
TEST(RolloutServerLife, ThePlanHasNoDecoding) {
  const AnswerServer server;
  const OnlinePlace w(answered_by(server), kDemo), own(Json::object(), kDemo);
  expect_plan_covers(w);
  const auto planned = [](const OnlinePlace& of) {
    EXPECT_EQ(of.run({"plan", "--config", "run.json", "--json", "data.max_seq_length=256"}), 0) << of.says();
    return Json::parse(contents(of / "stdout"));
  };
  EXPECT_LE(planned(w)["activations"].get<double>(), planned(own)["activations"].get<double>());
}

// Answers are those of the adapter that was handed over last.
TEST(RolloutServerLife, HandsTheAdapterOverEverySoManySteps) {
  const AnswerServer server;
  const Json greedy = {{"type", "reinforce++"},
                       {"num_generations", nullptr},
                       {"beta", 0},
                       {"top_k", 1},
                       {"rollout_correction", "none"}};
  const OnlinePlace w(answered_by(server, greedy), kDemo);
  const auto trained = [&](const std::string& steps, const std::string& rate) {
    const std::string out = "s" + steps + rate;
    EXPECT_EQ(w.train({"training.num_train_epochs=4", "training.output_dir=" + out,
                       "objective.rollout_sync_steps=" + steps, "training.learning_rate=" + rate}),
              0)
        << w.says();
    return w.rollouts(out);
  };
  // With next to no rate the policy does not change, and an old adapter is as good as a new one.
  EXPECT_EQ(trained("1", "1e-30"), trained("3", "1e-30"));
  const auto often = trained("1", "0.2"), seldom = trained("2", "0.2");
  const auto differ = [&](std::int64_t step) {
    bool any = false;
    for (std::size_t i = 0; i < often.size(); ++i)
      any |= often[i]["step"] == step && often[i]["completion_ids"] != seldom[i]["completion_ids"];
    return any;
  };
  EXPECT_FALSE(differ(1));
  EXPECT_TRUE(differ(2)) << "answered by the adapter of the first step";
  EXPECT_TRUE(fs::exists(w / "s10.2/rollout_adapter/adapter_model.safetensors"));
}

// With lookahead the second generation is answered by the adapter of the first, as if it were handed over
// every second step, and a resumed run has the same bits.
TEST(RolloutServerLife, AnswersOneGenerationAhead) {
  const AnswerServer server;
  const Json greedy = {{"type", "reinforce++"},
                       {"num_generations", nullptr},
                       {"beta", 0},
                       {"top_k", 1},
                       {"rollout_correction", "sequence_truncate"}};
  const OnlinePlace w(answered_by(server, greedy), kDemo);
  const auto trained = [&](const std::string& out, const std::string& setting) {
    EXPECT_EQ(w.train({"training.num_train_epochs=4", "training.output_dir=" + out, setting,
                       "training.learning_rate=0.2"}),
              0)
        << w.says();
    return w.rollouts(out);
  };
  const auto ahead = trained("ahead", "objective.rollout_lookahead=true"),
             seldom = trained("seldom", "objective.rollout_sync_steps=2");
  ASSERT_EQ(ahead.size(), seldom.size());
  std::size_t compared = 0;
  for (std::size_t i = 0; i < ahead.size(); ++i)
    if (ahead[i]["step"] <= 2) {
      EXPECT_EQ(ahead[i]["completion_ids"], seldom[i]["completion_ids"]) << i;
      ++compared;
    }
  EXPECT_EQ(compared, 24u);
  for (const Json& objective : {Json::object(), kLong}) {
    Json looking = answered_by(server, objective);
    looking["rollout_lookahead"] = true;
    expect_same_after_resuming(OnlinePlace(looking, kDemo), {"training.num_train_epochs=2"});
  }
}

TEST(RolloutServerLife, EvaluationsAskTheServerToo) {
  const AnswerServer server;
  const OnlinePlace w(answered_by(server), kDemo);
  w.hold_out(5);
  const std::vector<std::string> held{"data.eval_datasets=[{\"path\": \"held.jsonl\"}]",
                                      "training.per_device_eval_batch_size=4"};
  std::vector<std::string> words = held;
  words.insert(words.end(), {"evaluation.eval_strategy=epoch"});
  ASSERT_EQ(w.train(words), 0) << w.says();
  const Json last = w.evaluations().back();
  std::vector<std::string> eval{"eval", "--config", "run.json", "--adapter", "out", "--json"};
  eval.insert(eval.end(), held.begin(), held.end());
  ASSERT_EQ(w.run(eval), 0) << w.says();
  const Json one = Json::parse(contents(w / "stdout"));
  for (const char* name : {"eval_reward", "eval_completions/mean_length", "eval_loss"})
    EXPECT_NEAR(one[name], last[name], 1e-6) << name;
}

// The server dies while the second generation is rewarded. All ranks end, the server is named, and the run
// goes on from its checkpoint with another server.
TEST(RolloutServerLife, AServerThatDiesIsNamedAndNothingIsLost) {
  for (const int ranks : {1, 2}) {
    const AnswerServer server;
    const OnlinePlace w(answered_by(server, {{"rollout_server_timeout", 3}}), kDemo);
    w.reward("n=0\nwhile read -r line; do\nn=$((n + 1))\n" + kRead + "[ $n -gt 12 ] && kill -9 " +
             std::to_string(server.pid()) +
             " 2>/dev/null\necho \"{\\\"id\\\": $id, \\\"reward\\\": $((first % 5))}\"\ndone\n");
    const auto run = [&](const std::vector<std::string>& more) {
      std::vector<std::string> words{"train", "--config", "run.json"};
      if (ranks > 1) words.insert(words.begin(), {"launch", "-n", "2"});
      words.push_back("training.gradient_accumulation_steps=" + std::to_string(6 / ranks));
      words.insert(words.end(), more.begin(), more.end());
      return w.run(words);
    };
    EXPECT_EQ(run({"training.max_steps=4"}), 8) << w.says();
    EXPECT_NE(w.says().find("objective.rollout_server (" + server.url() + ")"), std::string::npos)
        << w.says();
    EXPECT_NE(w.says().find("is the server running?"), std::string::npos) << w.says();
    EXPECT_TRUE(fs::exists(w / "out/checkpoint-2")) << w.says();
    w.reward(kGood);
    const AnswerServer other;
    EXPECT_EQ(run({"training.max_steps=4", "training.resume_from_checkpoint=auto",
                   "objective.rollout_server=" + other.url()}),
              0)
        << w.says();
    EXPECT_EQ(w.rollouts().size(), 48u);
  }
}

TEST(RolloutServerLife, MistakesAreNamed) {
  const AnswerServer server;
  const Json full = {
      {"model", {{"model_name_or_path", kBase}}}, {"finetuning_type", "full"}, {"generation", nullptr}};
  const OnlinePlace whole(answered_by(server), full);
  EXPECT_EQ(whole.train(), 2) << whole.says();
  EXPECT_NE(whole.says().find("servers take adapters, not complete models"), std::string::npos)
      << whole.says();
  const OnlinePlace w(answered_by(server, {{"rollout_server_timeout", 5}}), kDemo);
  const std::tuple<std::vector<std::string>, int, const char*> mistakes[] = {
      {{"generation.batch_size=4"}, 2, "generation.batch_size: has no effect with objective.rollout_server"},
      {{"objective.temperature=2"}, 2, "objective.temperature"},
      {{"lora.r=8"}, 3, "--max-lora-rank"},
      {{"lora.use_dora=true"}, 3, "cannot be chosen by requests"},
      {{"objective.rollout_server_key_file=nowhere"}, 3, "nowhere"}};
  for (const auto& [settings, exit, words] : mistakes) {
    EXPECT_EQ(w.train(settings), exit) << words << w.says();
    EXPECT_NE(w.says().find(words), std::string::npos) << w.says();
    fs::remove_all(w / "out");
  }
}

// vLLM's fields and endpoints, as ft serve has them.
TEST(RolloutServerLife, ServeTellsTokenIds) {
  const AnswerServer server;
  const auto ask = [&](Json body) {
    body["model"] = "base";
    body["return_token_ids"] = true;
    HttpClient client(server.port());
    return client.post(kText, body);
  };
  const Json choice = ask({{"prompt", {1, 5, 9}}, {"max_tokens", 6}, {"logprobs", 0}, {"temperature", 0}})
                          .json()["choices"][0];
  const std::vector<int> ids = choice["token_ids"];
  EXPECT_EQ(choice["prompt_token_ids"], Json({1, 5, 9}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"].size(), ids.size());
  ASSERT_FALSE(ids.empty());
  // A token that ends the answer is the last of its ids, with its probability.
  const Json cut = ask({{"prompt", {1, 5, 9}},
                        {"max_tokens", 6},
                        {"logprobs", 0},
                        {"temperature", 0},
                        {"stop_token_ids", {ids[0]}}})
                       .json()["choices"][0];
  EXPECT_EQ(cut["token_ids"], Json(std::vector<int>{ids[0]}));
  EXPECT_EQ(cut["logprobs"]["token_logprobs"][0], choice["logprobs"]["token_logprobs"][0]);
  EXPECT_EQ(cut["finish_reason"], "stop");
  EXPECT_EQ(cut["text"], "");
  EXPECT_EQ(ask({{"prompt", {1}}, {"stream", true}}).status, 400);
  EXPECT_EQ(ask({{"prompt", {1}}, {"stop_token_ids", {-1}}}).status, 400);
}

TEST(RolloutServerLife, ServeLoadsAndUnloadsAdapters) {
  const Served w;  // makes adapters of ranks 1 and 2
  const AnswerServer server;
  const auto post = [&](const std::string& path, const Json& body) {
    HttpClient client(server.port());
    return client.post(path, body);
  };
  const auto load = [&](const std::string& name, const std::string& folder, bool in_place = false) {
    return post("/v1/load_lora_adapter",
                {{"lora_name", name}, {"lora_path", folder}, {"load_inplace", in_place}})
        .status;
  };
  const auto unload = [&](const std::string& name) {
    return post("/v1/unload_lora_adapter", {{"lora_name", name}}).status;
  };
  const auto text = [&](const std::string& model) {
    const HttpAnswer a = post(kText, {{"model", model}, {"prompt", kPrompts[0]}, {"max_tokens", 12}});
    EXPECT_EQ(a.status, 200) << a.body;
    return a.json()["choices"][0]["text"].get<std::string>();
  };
  const std::string base = w.generated()[0], one = w.generated({"--adapter", "a1"})[0],
                    two = w.generated({"--adapter", "a2"})[0];
  ASSERT_NE(one, base);
  ASSERT_NE(two, one);
  const std::string first = (w / "a1").string(), second = (w / "a2").string();
  EXPECT_EQ(load("x", first), 200);
  EXPECT_EQ(text("x"), one);
  EXPECT_EQ(text("base"), base);
  EXPECT_EQ(load("x", second), 400) << "it is there already";
  EXPECT_EQ(load("base", second), 400);
  EXPECT_EQ(load("x", second, true), 200);
  EXPECT_EQ(text("x"), two);
  EXPECT_EQ(load("y", (w / "nowhere").string(), false), 400);
  EXPECT_EQ(text("x"), two) << "a failed load changes nothing";
  EXPECT_EQ(unload("x"), 200);
  EXPECT_EQ(unload("x"), 404);
  EXPECT_EQ(post(kText, {{"model", "x"}, {"prompt", "a"}}).status, 404);
  EXPECT_EQ(load("z", first), 200);
  EXPECT_EQ(text("z"), one);
  EXPECT_EQ(post("/v1/load_lora_adapter", {{"lora_name", "q"}}).status, 400);
  EXPECT_EQ(post("/v1/load_lora_adapter", {{"lora_name", "q"}, {"lora_path", first}, {"more", 1}}).status,
            400);
}

TEST(RolloutServerLife, ServeLoadsNothingUnlessItIsAllowed) {
  const Workplace w("llama");
  const Listening plain(w, {"serve", "--model", kBase, "generation.max_length=64"});
  HttpClient client(plain.port);
  EXPECT_EQ(client.post("/v1/load_lora_adapter", Json{{"lora_name", "x"}, {"lora_path", "/tmp"}}).status,
            404);
  const Workplace other("llama");
  EXPECT_EQ(other.run({"serve", "--model", kBase, "--max-loras", "1", "--sandbox"}), 2) << other.says();
  EXPECT_EQ(other.run({"serve", "--model", kBase, "--max-lora-rank", "8"}), 2) << other.says();
}

}  // namespace
}  // namespace ft::test
