// A run's questions to a server that generates its answers: the request, the replies that are accepted, and
// servers that misbehave, which are named and never waited for longer than the limit.
#include "app/rollouts/rollout_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "tests/app/rollouts/fake_server.h"
#include "tests/data/scratch.h"

namespace ft {
namespace {

using test::error_of;
using test::FakeConnection;
using test::FakeServer;
using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kEnd = 2;
const Ids kPrompt{5, 6, 7};

Json choice(int index, const Ids& ids, const std::string& finish) {
  Json logps = Json::array();
  for (std::size_t t = 0; t < ids.size(); ++t) logps.push_back(-0.5 - 0.25 * static_cast<double>(t));
  return {{"index", index},
          {"text", "x"},
          {"token_ids", ids},
          {"logprobs", {{"tokens", Json::array()}, {"token_logprobs", logps}}},
          {"finish_reason", finish}};
}

Json good_reply() { return {{"choices", {choice(1, {8, 9, 10}, "length"), choice(0, {8, kEnd}, "stop")}}}; }

AskedPrompt asked(std::int64_t count = 2) { return {kPrompt, count, 3, 77}; }

RolloutServer server_at(const std::string& url, double seconds = 20) {
  GenerationConfig sampling;
  sampling.do_sample = true;
  sampling.top_k = 0;
  return RolloutServer(
      {.access = {url, "secret", seconds}, .sampling = sampling, .end_tokens = {kEnd}, .vocab_size = 20});
}

TEST(RolloutServer, AsksWithTokenIdsAndReadsTheAnswers) {
  std::string request;
  const FakeServer fake([&](const FakeConnection& c, int) {
    request = c.request;
    c.reply(200, good_reply().dump());
  });
  const SampledAnswers all = server_at(fake.url()).answers("policy", std::vector{asked()});
  EXPECT_EQ(all.tokens, (std::vector<Ids>{{8, kEnd}, {8, 9, 10}}));
  EXPECT_EQ(all.logps, (std::vector<std::vector<double>>{{-0.5, -0.75}, {-0.5, -0.75, -1}}));
  EXPECT_TRUE(request.starts_with("POST /v1/completions HTTP/1.1\r\n")) << request;
  EXPECT_NE(request.find("Authorization: Bearer secret\r\n"), std::string::npos);
  const Json body = Json::parse(request.substr(request.find("\r\n\r\n") + 4));
  EXPECT_EQ(body["model"], "policy");
  EXPECT_EQ(body["prompt"], Json(kPrompt));
  EXPECT_EQ(body["n"], 2);
  EXPECT_EQ(body["max_tokens"], 3);
  EXPECT_EQ(body["seed"], 77);
  EXPECT_EQ(body["temperature"], 1.0);
  EXPECT_EQ(body["top_k"], -1) << "all tokens";
  EXPECT_EQ(body["return_token_ids"], true);
  EXPECT_EQ(body["stop_token_ids"], Json(Ids{kEnd}));
}

TEST(RolloutServer, ReadsIdsFromTheNamesOfTokens) {
  Json reply = good_reply();
  for (Json& c : reply["choices"]) {
    for (const Json& id : c["token_ids"])
      c["logprobs"]["tokens"].push_back("token_id:" + std::to_string(id.get<int>()));
    c.erase("token_ids");
  }
  const SampledAnswers all = read_completions(reply.dump(), asked(), Ids{kEnd}, 20);
  EXPECT_EQ(all.tokens, (std::vector<Ids>{{8, kEnd}, {8, 9, 10}}));
}

TEST(RolloutServer, AnswersComeInTheOrderOfTheirPrompts) {
  const FakeServer fake([&](const FakeConnection& c, int) {
    const Json body = Json::parse(c.request.substr(c.request.find("\r\n\r\n") + 4));
    c.reply(200,
            Json{{"choices", {choice(0, {body["prompt"][0].get<std::int32_t>(), kEnd}, "stop")}}}.dump());
  });
  std::vector<Ids> prompts;
  for (std::int32_t i = 0; i < 60; ++i) prompts.push_back({3 + i % 17});
  std::vector<AskedPrompt> questions;
  for (const Ids& ids : prompts) questions.push_back({ids, 1, 3, 1});
  const SampledAnswers all = server_at(fake.url()).answers("m", questions);
  ASSERT_EQ(all.tokens.size(), 60u);
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(all.tokens[i], (Ids{prompts[i][0], kEnd})) << i;
  EXPECT_EQ(fake.connections(), 60);
}

struct Wrong {
  const char* name;
  std::function<void(Json&)> change;
  const char* words;
};

TEST(RolloutServer, RepliesThatAreNotWhatWasAskedForAreNamed) {
  const Wrong all[] = {
      {"no choices", [](Json& j) { j = Json::object(); }, "no choices"},
      {"a list", [](Json& j) { j = Json::array(); }, "no choices"},
      {"too few", [](Json& j) { j["choices"].erase(0); }, "1 answers; 2 were asked for"},
      {"the same index", [](Json& j) { j["choices"][0]["index"] = 0; }, "indexes are not 0 to 1"},
      {"no ids", [](Json& j) { j["choices"][0].erase("token_ids"); }, "return_token_ids"},
      {"ids as text", [](Json& j) { j["choices"][0]["token_ids"][0] = "8"; }, "return_token_ids"},
      {"too many tokens",
       [](Json& j) {
         j["choices"][0] = choice(1, {8, 9, 10, 11}, "length");
       },
       "an answer of 4 tokens"},
      {"no tokens", [](Json& j) { j["choices"][0] = choice(1, {}, "stop"); }, "an answer of 0 tokens"},
      {"another vocabulary", [](Json& j) { j["choices"][0]["token_ids"][0] = 20; }, "token 20; the model's"},
      {"a negative id", [](Json& j) { j["choices"][0]["token_ids"][0] = -1; }, "token -1; the model's"},
      {"fewer log-probabilities", [](Json& j) { j["choices"][0]["logprobs"]["token_logprobs"].erase(0); },
       "3 tokens and 2 log-prob"},
      {"no log-probability", [](Json& j) { j["choices"][0]["logprobs"]["token_logprobs"][1] = nullptr; },
       "log-probability is null"},
      {"a probability above 1", [](Json& j) { j["choices"][0]["logprobs"]["token_logprobs"][1] = 0.5; },
       "log-probability is 0.5"},
      {"no logprobs", [](Json& j) { j["choices"][0]["logprobs"] = nullptr; }, "no logprobs"},
      {"cut too early",
       [](Json& j) {
         j["choices"][0] = choice(1, {8, 9}, "length");
       },
       "--max-model-len"},
      {"goes on",
       [](Json& j) {
         j["choices"][0] = choice(1, {8, kEnd, 9}, "length");
       },
       "behind its end token"}};
  for (const Wrong& w : all) {
    Json reply = good_reply();
    w.change(reply);
    try {
      read_completions(reply.dump(), asked(), Ids{kEnd}, 20);
      ADD_FAILURE() << w.name;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find(w.words), std::string::npos) << w.name << ": " << e.what();
    }
  }
}

std::string fault_of(const FakeServer& fake, Exit exit, double seconds = 20) {
  const std::string text =
      error_of(exit, [&] { server_at(fake.url(), seconds).answers("policy", std::vector{asked()}); });
  EXPECT_NE(text.find("objective.rollout_server (" + fake.url() + ")"), std::string::npos) << text;
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  return text;
}

struct Misbehaving {
  const char* name;
  FakeServer::Handler handler;
  Exit exit;
  const char* words;
};

TEST(RolloutServer, ServersThatMisbehaveAreNamed) {
  const auto always = [](const std::string& bytes) {
    return [bytes](const FakeConnection& c, int) { c.send(bytes); };
  };
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const Misbehaving all[] = {
      {"HTML", [](const FakeConnection& c, int) { c.reply(200, "<html><body>Welcome</body></html>"); },
       Exit::input, "<html>"},
      {"NaN", [](const FakeConnection& c, int) { c.reply(200, "{\"choices\": [NaN]}"); }, Exit::input, "NaN"},
      {"an empty reply", [](const FakeConnection& c, int) { c.reply(200, ""); }, Exit::input, "not JSON"},
      {"not found", [](const FakeConnection& c, int) { c.reply(404, "{\"error\": \"no model\"}"); },
       Exit::input, "status 404: {\"error\""},
      {"no key", [](const FakeConnection& c, int) { c.reply(401, ""); }, Exit::mismatch, "status 401"},
      {"a redirect", [](const FakeConnection& c, int) { c.reply(302, "", "Location: http://x/\r\n"); },
       Exit::input, "status 302"},
      {"faults", [](const FakeConnection& c, int) { c.reply(500, "boom"); }, Exit::input, "status 500: boom"},
      {"half a body", always(ok + "Content-Length: 500\r\n\r\n{\"choices\": ["), Exit::peer_lost, "attempts"},
      {"no HTTP", always("hello\r\n\r\n"), Exit::peer_lost, "attempts"},
      {"closes at once", always(""), Exit::peer_lost, "attempts"},
      {"busy for ever", [](const FakeConnection& c, int) { c.reply(503, "busy"); }, Exit::peer_lost,
       "status 503: busy"},
      {"asks to wait for long",
       [](const FakeConnection& c, int) { c.reply(429, "", "Retry-After: 3600\r\n"); }, Exit::peer_lost,
       "status 429"},
      {"hangs", [](const FakeConnection& c, int) { c.hang(); }, Exit::hang, "no complete answer within"},
      {"hangs half-way",
       [ok](const FakeConnection& c, int) {
         c.send(ok + "Content-Length: 500\r\n\r\n{\"choices\"");
         c.hang();
       },
       Exit::hang, "no complete answer within"}};
  for (const Misbehaving& m : all) {
    const FakeServer fake(m.handler);
    const auto start = std::chrono::steady_clock::now();
    const bool waits = m.exit == Exit::peer_lost || m.exit == Exit::hang;
    const std::string text = fault_of(fake, m.exit, waits ? 2 : 60);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_NE(text.find(m.words), std::string::npos) << m.name << ": " << text;
    EXPECT_LT(took.count(), 30) << m.name;
  }
}

TEST(RolloutServer, AReplyThatNeverEndsIsCut) {
  const FakeServer fake([](const FakeConnection& c, int) {
    c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string piece = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
    for (int i = 0; i < 1000 && !c.over(); ++i) c.send(piece);
  });
  EXPECT_NE(fault_of(fake, Exit::input).find("which no answer needs"), std::string::npos);
}

TEST(RolloutServer, TroublesThatPassAreWaitedFor) {
  const FakeServer fake([](const FakeConnection& c, int number) {
    if (number == 0) return;  // closes the connection
    if (number == 1) return c.reply(503, "starting");
    if (number == 2) return c.reply(500, "once");
    if (number == 3) return c.send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{");
    c.reply(200, good_reply().dump());
  });
  EXPECT_EQ(server_at(fake.url(), 60).answers("m", std::vector{asked()}).tokens.size(), 2u);
  EXPECT_EQ(fake.connections(), 5);
}

TEST(RolloutServer, NobodyThereIsNamed) {
  std::string url;
  {
    const FakeServer gone([](const FakeConnection&, int) {});
    url = gone.url();
  }
  const std::string text =
      error_of(Exit::peer_lost, [&] { server_at(url, 1).answers("m", std::vector{asked()}); });
  EXPECT_NE(text.find("is the server running?"), std::string::npos) << text;
}

TEST(RolloutServer, OneFaultEndsAllQuestions) {
  const FakeServer fake([](const FakeConnection& c, int number) {
    if (number == 5) return c.reply(200, "oops");
    if (number > 5) return c.hang();
    c.reply(200, good_reply().dump());
  });
  const std::vector<AskedPrompt> many(100, asked());
  const auto start = std::chrono::steady_clock::now();
  const std::string text = error_of(Exit::input, [&] { server_at(fake.url(), 60).answers("m", many); });
  EXPECT_NE(text.find("not JSON"), std::string::npos) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40));
}

TEST(RolloutServer, HandsAdaptersOver) {
  std::vector<std::string> requests;
  const FakeServer fake([&](const FakeConnection& c, int number) {
    requests.push_back(c.request);
    if (number == 1) return c.reply(404, "{\"error\": \"cannot be found\"}");
    if (number == 3) return c.reply(404, "{}");
    if (number == 4) return c.reply(400, "rank 64 is greater than max_lora_rank");
    if (number == 5) return c.reply(200, R"({"data": [{"id": "base"}, {"id": "other"}]})");
    if (number == 6) return c.reply(200, R"({"data": []})");
    c.reply(200, "Success");
  });
  const RolloutServer server = server_at(fake.url());
  server.load_adapter("a", "/x/y");
  EXPECT_EQ(Json::parse(requests[0].substr(requests[0].find("\r\n\r\n") + 4)),
            (Json{{"lora_name", "a"}, {"lora_path", "/x/y"}}));
  server.unload_adapter("b");  // an unknown one is no fault
  server.unload_adapter("a");
  EXPECT_NE(error_of(Exit::config, [&] { server.load_adapter("a", "/x/y"); }).find("--max-loras"),
            std::string::npos);
  EXPECT_NE(error_of(Exit::input, [&] { server.load_adapter("a", "/x/y"); }).find("--max-lora-rank"),
            std::string::npos);
  EXPECT_EQ(server.models(), (std::vector<std::string>{"base", "other"}));
  EXPECT_NE(error_of(Exit::input, [&] { server.models(); }).find("lists no model"), std::string::npos);
}

}  // namespace
}  // namespace ft
