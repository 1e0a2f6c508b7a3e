// ft serve, tested from outside over real sockets: the answers of ft generate and ft chat, streams, adapters,
// many clients at once, and malicious clients.
#include <gtest/gtest.h>

#include <future>
#include <set>

#include "engine/files/file.h"
#include "tests/life/answers/served.h"

namespace ft::test {
namespace {

TEST(Serve, AnswersAsGenerateDoesWithEveryAdapterAtOnce) {
  const Served w;
  const std::map<std::string, std::vector<std::string>> expected{{"base", w.generated()},
                                                                 {"one", w.generated({"--adapter", "a1"})},
                                                                 {"a2", w.generated({"--adapter", "a2"})}};
  std::set<std::vector<std::string>> different;
  for (const auto& [name, texts] : expected) different.insert(texts);
  ASSERT_EQ(different.size(), 3u) << "adapters that change nothing prove nothing";
  const Server server(w, {"generation.batch_size=5"});
  for (const auto& [name, texts] : expected)
    for (std::size_t i = 0; i < kPrompts.size(); ++i)
      EXPECT_EQ(server.text(name, kPrompts[i]), texts[i]) << name;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::pair<std::string, std::future<std::string>>> asked;
    for (std::size_t i = 0; i < kPrompts.size(); ++i)
      for (const auto& [name, texts] : expected)
        asked.emplace_back(texts[i], std::async(std::launch::async, [&, n = name, p = kPrompts[i]] {
                             return server.text(n, p);
                           }));
    for (auto& [right, answer] : asked) EXPECT_EQ(answer.get(), right);
  }
  const Json models = HttpClient(server.port).get("/v1/models").json();
  ASSERT_EQ(models["data"].size(), 3u);
  EXPECT_EQ(models["data"][1]["id"], "one");
  EXPECT_EQ(HttpClient(server.port).get("/v1/models/a2").json()["object"], "model");
  EXPECT_EQ(HttpClient(server.port).get("/v1/models/a3").status, 404);
}

TEST(Serve, SamplesAsGenerateDoesWithASeed) {
  const Served w;
  const std::string expected = w.generated({"generation.do_sample=true", "generation.temperature=1.5",
                                            "generation.top_p=0.9", "generation.seed=7"})[0];
  const Server server(w);
  const Json sampled{{"temperature", 1.5}, {"top_p", 0.9}, {"seed", 7}};
  EXPECT_EQ(server.text("base", kPrompts[0], sampled), expected);
  EXPECT_EQ(server.text("base", kPrompts[0], sampled), expected);
  EXPECT_EQ(server.text("base", kPrompts[0], {{"temperature", 0}}), server.text("base", kPrompts[0]));
  std::set<std::string> unseeded;
  for (int i = 0; i < 4; ++i) unseeded.insert(server.text("base", "one", {{"temperature", 2}}));
  EXPECT_GT(unseeded.size(), 1u);
}

TEST(Serve, PiecesOfAStreamJoinToTheCompleteText) {
  const Served w;
  const Server server(w, {"data.chat_template=chatml"});
  const Json chat{{"model", "one"}, {"messages", {{{"role", "user"}, {"content", "one two"}}}}};
  const HttpAnswer whole = server.post(kChat, chat);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Json choice = whole.json()["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["finish_reason"], "length");
  Json streamed = chat;
  streamed["stream"] = true;
  streamed["stream_options"] = {{"include_usage", true}};
  const HttpAnswer stream = server.post(kChat, streamed, "Accept-Encoding: gzip\r\n");
  EXPECT_NE(stream.head.find("text/event-stream"), std::string::npos) << stream.head;
  std::string joined, finish;
  const std::vector<Json> all = events(stream.body);
  // Events for role, text, end and usage. A busy machine sends the text of several tokens in one event.
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ(all[0]["choices"][0]["delta"]["role"], "assistant");
  for (const Json& e : all) {
    EXPECT_EQ(e["object"], "chat.completion.chunk");
    EXPECT_EQ(e["id"], all[0]["id"]);
    if (e["choices"].empty()) continue;
    const Json& c = e["choices"][0];
    joined += c["delta"].value("content", "");
    if (!c["finish_reason"].is_null()) finish = c["finish_reason"];
  }
  EXPECT_EQ(Json(joined), choice["message"]["content"]);
  EXPECT_EQ(finish, "length");
  EXPECT_EQ(all.back()["usage"], whole.json()["usage"]);
  EXPECT_EQ(all.back()["usage"]["completion_tokens"], 12);

  const HttpAnswer text = server.post(kText, {{"model", "base"}, {"prompt", "one"}, {"stream", true}});
  joined = "";
  for (const Json& e : events(text.body)) joined += e["choices"][0]["text"];
  EXPECT_EQ(joined, server.text("base", "one"));
}

TEST(Serve, ChatsAsFtChatDoes) {
  const Served w;
  std::ofstream(w / "lines") << "one two\n";
  const std::string shell = "cd '" + w.operator/("").string() + "' && '" + program_file() +
                            "' chat --model '" + kBase +
                            "' data.chat_template=chatml generation.max_new_tokens=12 < lines > chat.out";
  ASSERT_EQ(std::system(shell.c_str()), 0);
  const Server server(w, {"data.chat_template=chatml"});
  const HttpAnswer a = server.post(
      kChat, {{"model", "base"},
              {"messages", {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "one two"}}}}}}}});
  ASSERT_EQ(a.status, 200) << a.body;
  EXPECT_EQ(a.json()["choices"][0]["message"]["content"].get<std::string>() + "\n", contents(w / "chat.out"));
}

TEST(Serve, AListOfPromptsIsAnsweredInItsOrder) {
  const Served w;
  const Server server(w, {"generation.batch_size=3"});
  const HttpAnswer a = server.post(kText, {{"model", "base"}, {"prompt", kPrompts}, {"n", 2}, {"seed", 3}});
  ASSERT_EQ(a.status, 200) << a.body;
  const Json choices = a.json()["choices"];
  ASSERT_EQ(choices.size(), 2 * kPrompts.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(choices[i]["index"], i);
    EXPECT_EQ(choices[i]["text"], server.text("base", kPrompts[i / 2]));
  }
  const Json ids = Json::array({{5, 6, 7}, {8, 9}});
  EXPECT_EQ(server.post(kText, {{"model", "base"}, {"prompt", ids}}).json()["usage"]["prompt_tokens"], 5);
  std::map<int, std::string> joined;
  const HttpAnswer stream = server.post(kText, {{"model", "base"}, {"prompt", kPrompts}, {"stream", true}});
  for (const Json& e : events(stream.body))
    joined[e["choices"][0]["index"]] += e["choices"][0]["text"].get<std::string>();
  ASSERT_EQ(joined.size(), kPrompts.size());
  for (std::size_t i = 0; i < kPrompts.size(); ++i)
    EXPECT_EQ(joined[static_cast<int>(i)], server.text("base", kPrompts[i]));
}

double likeliest(const Json& top) {
  double best = -1e9;
  for (const auto& [token, logprob] : top.items()) best = std::max<double>(best, logprob);
  return best;
}

// With echo, the tokens are the prompt's. If a prompt consists of an earlier prompt and its answer, the
// answer's tokens have the probabilities that they had as an answer.
TEST(Serve, LogprobsOfPromptsAndAnswers) {
  constexpr double kRounding = 1e-5;  // passes over a part of the prompt add up in another order
  const Served w;
  const Server server(w, {"generation.batch_size=2"});
  const auto ask = [&](Json more) {
    more["model"] = "one";
    const HttpAnswer a = server.post(kText, more);
    EXPECT_EQ(a.status, 200) << a.body;
    return a.json()["choices"][0];
  };
  std::vector<int> prompt;
  for (int i = 0; i < 300; ++i) prompt.push_back(3 + i * 7 % 500);
  const Json answer = ask({{"prompt", prompt}, {"max_tokens", 6}, {"logprobs", 3}});
  const Json& own = answer["logprobs"];
  ASSERT_EQ(own["tokens"].size(), 6u);
  ASSERT_EQ(own["top_logprobs"].size(), 6u);
  EXPECT_EQ(own["top_logprobs"][0].size(), 3u);
  EXPECT_EQ(likeliest(own["top_logprobs"][0]), own["token_logprobs"][0]);  // the likeliest token was chosen
  const Json echoed = ask({{"prompt", prompt}, {"max_tokens", 6}, {"logprobs", 1}, {"echo", true}});
  ASSERT_EQ(echoed["logprobs"]["tokens"].size(), 306u);
  EXPECT_TRUE(echoed["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_TRUE(echoed["text"].get<std::string>().ends_with(answer["text"].get<std::string>()));
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(echoed["logprobs"]["token_logprobs"][300 + i], own["token_logprobs"][i], kRounding);
  // Requests for one token after a part of the prompt give the probabilities that the prompt's own pass
  // gives.
  for (const int at : {1, 2, 130, 299}) {
    const std::vector<int> begin(prompt.begin(), prompt.begin() + at);
    const Json next = ask({{"prompt", begin}, {"max_tokens", 1}, {"logprobs", 1}});
    EXPECT_NEAR(likeliest(next["logprobs"]["top_logprobs"][0]),
                likeliest(echoed["logprobs"]["top_logprobs"][static_cast<std::size_t>(at)]), kRounding);
  }
  const Json words = ask({{"prompt", "one two"}, {"max_tokens", 6}, {"echo", true}});
  // the answer begins with a space
  EXPECT_TRUE(words["text"].get<std::string>().starts_with("one two ")) << words;
  const Json only = ask({{"prompt", "one two"}, {"max_tokens", 0}, {"logprobs", 0}, {"echo", true}});
  EXPECT_EQ(only["text"], "one two");
  EXPECT_EQ(only["logprobs"]["top_logprobs"], nullptr);
  EXPECT_EQ(only["logprobs"]["tokens"].size(), only["logprobs"]["text_offset"].size());
}

TEST(Serve, LogprobsOfAChat) {
  const Served w;
  const Server server(w, {"data.chat_template=chatml"});
  Json chat{{"model", "one"},
            {"messages", {{{"role", "user"}, {"content", "one two"}}}},
            {"logprobs", true},
            {"top_logprobs", 2},
            {"max_tokens", 5}};
  const Json choice = server.post(kChat, chat).json()["choices"][0];
  ASSERT_EQ(choice["logprobs"]["content"].size(), 5u) << choice;
  for (const Json& t : choice["logprobs"]["content"]) {
    ASSERT_EQ(t["top_logprobs"].size(), 2u);
    EXPECT_EQ(t["top_logprobs"][0]["logprob"], t["logprob"]);
    EXPECT_FALSE(t["bytes"].empty());
  }
  chat["stream"] = true;
  std::size_t tokens = 0;
  for (const Json& e : events(server.post(kChat, chat).body))
    if (const Json& l = e["choices"][0]["logprobs"]; !l.is_null()) tokens += l["content"].size();
  EXPECT_EQ(tokens, 5u);
}

TEST(Serve, HealthIsAskedWithoutAKey) {
  const Served w;
  std::ofstream(w / "key") << "s3cret\n";
  const Server server(w, {"--api-key-file", "key"});
  EXPECT_EQ(HttpClient(server.port).get("/health").status, 200);
  EXPECT_EQ(HttpClient(server.port).get("/v1/models").status, 401);
}

// generation.max_length limits the context, generation.max_new_tokens the length of an answer.
TEST(Serve, TheContextAndTheLengthOfAnswersAreTwoSettings) {
  const Served w;
  const Server server(
      w, {"generation.max_length=64", "generation.max_new_tokens=7", "generation.min_length=60"});
  const Json a = server.post(kText, {{"model", "base"}, {"prompt", "one"}}).json();
  EXPECT_EQ(a["usage"]["completion_tokens"], 7) << a;
  EXPECT_EQ(server.post(kText, {{"model", "base"}, {"prompt", "one"}, {"max_tokens", 64}}).status, 400);
}

// tool_calls_test.cpp tests calls in answers.
TEST(Serve, ToolsAndCallsReachTheTemplate) {
  const Served w;
  const std::string chat_template =
      "data.chat_template={% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }} "
      "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments.city }}{% endfor %}{% endfor "
      "%}";
  const Server server(w, {chat_template});
  const Json weather = Json::array({{{"type", "function"}, {"function", {{"name", "weather"}}}}});
  const Json call{{"id", "abc"},
                  {"type", "function"},
                  {"function", {{"name", "weather"}, {"arguments", "{\"city\": \"Oslo\"}"}}}};
  const Json messages = Json::array({{{"role", "user"}, {"content", "How?"}},
                                     {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                                     {{"role", "tool"}, {"tool_call_id", "abc"}, {"content", "rain"}}});
  const auto tokens = [&](const Json& more) {
    Json body{{"model", "base"}, {"messages", messages}};
    body.merge_patch(more);
    const HttpAnswer a = server.post(kChat, body);
    EXPECT_EQ(a.status, 200) << a.body;
    return a.json()["usage"]["prompt_tokens"].get<int>();
  };
  EXPECT_GT(tokens({{"tools", weather}}), tokens(Json::object()));
  EXPECT_EQ(tokens({{"tools", weather}, {"tool_choice", "none"}}), tokens(Json::object()));
  const auto refused = [&](const Json& more) {
    Json body{{"model", "base"}, {"messages", messages}};
    body.merge_patch(more);
    return server.post(kChat, body).json()["error"]["param"];
  };
  EXPECT_EQ(refused({{"tools", weather}, {"tool_choice", "required"}}), "tool_choice");
  EXPECT_EQ(refused({{"tools", {{{"type", "function"}}}}}), "tools");
  const Server plain(w, {"data.chat_template={% for m in messages %}{{ m.content }}{% endfor %}"});
  EXPECT_EQ(plain.post(kChat, {{"model", "base"}, {"messages", messages}, {"tools", weather}})
                .json()["error"]["param"],
            "tools");
}

TEST(Serve, StopStringsAndLengthsEndAnswers) {
  const Served w;
  const Server server(w);
  const std::string whole = server.text("base", kPrompts[0]);
  ASSERT_GT(whole.size(), 6u);
  const std::string stop = whole.substr(3, 2);
  const std::string before = whole.substr(0, whole.find(stop));
  for (const Json& given : {Json(stop), Json{stop, "never"}}) {
    const HttpAnswer a = server.post(kText, {{"model", "base"}, {"prompt", kPrompts[0]}, {"stop", given}});
    EXPECT_EQ(a.json()["choices"][0]["text"], before);
    EXPECT_EQ(a.json()["choices"][0]["finish_reason"], "stop");
  }
  const Json two = server.post(kText, {{"model", "base"}, {"prompt", kPrompts[0]}, {"max_tokens", 2}}).json();
  EXPECT_EQ(two["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(two["usage"]["completion_tokens"], 2);
  EXPECT_TRUE(whole.starts_with(two["choices"][0]["text"].get<std::string>()));
}

// Parameters that are not available are refused by name, in the API's form.
TEST(Serve, RefusesByName) {
  const Served w;
  const Server server(w, {"generation.max_length=64"});
  const auto refusal = [&](const Json& changes, int status = 400, const std::string& path = kText) {
    Json body{{"model", "base"}};
    if (path == kText) body["prompt"] = "one";
    body.merge_patch(changes);
    const HttpAnswer a = server.post(path, body);
    EXPECT_EQ(a.status, status) << a.body;
    return a.json()["error"];
  };
  EXPECT_EQ(refusal({{"n", 4000}})["param"], "n");
  EXPECT_EQ(refusal({{"best_of", 3}})["param"], "best_of");
  EXPECT_EQ(refusal({{"logprobs", 21}})["param"], "logprobs");
  EXPECT_EQ(refusal({{"temperature", 3}})["param"], "temperature");
  EXPECT_EQ(refusal({{"temperature", "hot"}})["param"], "temperature");
  EXPECT_EQ(refusal({{"top_p", 0}})["param"], "top_p");
  EXPECT_EQ(refusal({{"max_tokens", 0}})["param"], "max_tokens");
  EXPECT_EQ(refusal({{"max_tokens", 64}})["code"], "context_length_exceeded");
  EXPECT_EQ(refusal({{"stop", {""}}})["param"], "stop");
  EXPECT_EQ(refusal({{"presence_penalty", 1}})["param"], "presence_penalty");
  EXPECT_EQ(refusal({{"frobnicate", 1}})["param"], "frobnicate");
  EXPECT_EQ(refusal({{"prompt", {"a", 7}}})["param"], "prompt");
  EXPECT_EQ(refusal({{"prompt", Json::array()}})["param"], "prompt");
  EXPECT_EQ(refusal({{"prompt", {1, 512}}})["param"], "prompt");
  EXPECT_EQ(refusal({{"echo", "yes"}})["type"], "invalid_request_error");
  EXPECT_EQ(refusal({{"model", "other"}}, 404)["code"], "model_not_found");
  EXPECT_EQ(refusal({{"messages", {{{"role", "user"}, {"content", "a"}}}}}, 400, kChat)["param"], nullptr);
  EXPECT_EQ(refusal({{"messages", Json::array()}}, 400, kChat)["param"], "messages");
  const Json asked{{{"role", "user"}, {"content", "a"}}};
  EXPECT_EQ(refusal({{"messages", asked}, {"chat_template_kwargs", 1}}, 400, kChat)["param"],
            "chat_template_kwargs");
  EXPECT_EQ(refusal({}, 404, "/v1/embeddings")["type"], "invalid_request_error");
  EXPECT_EQ(HttpClient(server.port).get(kText).status, 405);
  EXPECT_EQ(server.text("base", "one", {{"n", 1}, {"user", "me"}, {"logprobs", nullptr}}),
            server.text("base", "one"));
}

TEST(Serve, VariablesOfTheTemplateComeWithTheRequestOrTheServer) {
  const Served w;
  const char* const chat_template =
      "data.chat_template={% for m in messages %}{{ m.content if think else 'two' }}{% endfor %}";
  const auto answers = [&](const std::vector<std::string>& settings) {
    const Server server(w, settings);
    Json body{{"model", "one"}, {"messages", {{{"role", "user"}, {"content", "one two"}}}}};
    std::vector<std::string> all;
    for (const Json& kwargs : {Json(), Json{{"think", true}}, Json{{"think", false}}}) {
      body["chat_template_kwargs"] = kwargs;
      const HttpAnswer a = server.post(kChat, body);
      EXPECT_EQ(a.status, 200) << a.body;
      all.push_back(a.json()["choices"][0]["message"]["content"]);
    }
    return all;
  };
  const auto usual = answers({chat_template});
  EXPECT_NE(usual[1], usual[2]);
  EXPECT_EQ(usual[0], usual[2]);
  const auto thinking = answers({chat_template, R"(data.chat_template_kwargs={"think": true})"});
  EXPECT_EQ(thinking, (std::vector<std::string>{usual[1], usual[1], usual[2]}));
}

TEST(Serve, RequestsWithoutTheKeyAreRefused) {
  const Served w;
  std::ofstream(w / "key") << "s3cret\n";
  Server server(w, {"--api-key-file", "key"});
  HttpClient client(server.port);
  EXPECT_EQ(client.get("/v1/models").status, 401);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer s3cre\r\n").status, 401);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer s3cret2\r\n").status, 401);
  EXPECT_EQ(client.post(kText, Json{{"model", "base"}, {"prompt", "a"}}).status, 401);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer s3cret\r\n").status, 200);
  EXPECT_EQ(server.stop(SIGINT), 0);
  EXPECT_EQ(w.run({"serve", "--model", kBase, "--host", "0.0.0.0"}), 2);
  EXPECT_NE(w.says().find("--api-key-file"), std::string::npos) << w.says();
}

// An adapter that changes more than the rows of a request cannot be chosen by a request.
TEST(Serve, AdaptersThatCannotShareAModelAreRefused) {
  const Served w;
  ASSERT_EQ(w.train({"training.max_steps=1", "lora.use_dora=true", "training.output_dir=dora"}), 0)
      << w.says();
  EXPECT_EQ(w.run({"serve", "--model", kBase, "--adapter", "dora"}), 3);
  EXPECT_NE(w.says().find("use_dora cannot be chosen by requests; ft merge"), std::string::npos) << w.says();
  ASSERT_EQ(w.train({"training.max_steps=1", "lora.lora_bias=true", "training.output_dir=bias"}), 0)
      << w.says();
  EXPECT_EQ(w.run({"serve", "--model", kBase, "--adapter", "bias"}), 3);
  EXPECT_NE(w.says().find("lora_bias cannot be chosen by requests; ft merge"), std::string::npos) << w.says();
  EXPECT_EQ(w.run({"serve", "--model", kBase, "--adapter", "a=a1", "--adapter", "a=a2"}), 2);
  EXPECT_NE(w.says().find("--adapter NAME=DIR"), std::string::npos) << w.says();
}

// Without a key, pages in a browser are not trusted.
TEST(Serve, PagesInABrowserAreNotAnswered) {
  const Served w;
  const Server server(w);
  HttpClient client(server.port);
  client.send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(client.read().status, 403);
  const std::string body = Json{{"model", "base"}, {"prompt", "a"}}.dump();
  client.send("POST " + kText +
              " HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_EQ(client.read().status, 415);
}

TEST(Serve, HostileClientsDoNotDisturbOthers) {
  const Served w;
  const Server server(w);
  const std::string right = server.text("base", "one");
  HttpClient slow(server.port);  // sends a part of a request and no more
  slow.send("POST " + kText + " HTTP/1.1\r\nHost: localhost\r\nContent-Le");
  HttpClient silent(server.port);
  HttpClient huge(server.port);
  huge.send(huge.head("POST", kText, std::size_t{1} << 30));
  EXPECT_EQ(huge.read().status, 413);
  HttpClient endless(server.port);  // sends more bytes than allowed, in chunks without an announced end
  endless.send(
      "POST " + kText +
      " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, '[') + "\r\n";
  for (int i = 0; i < 300 && endless.send(chunk); ++i) {
  }
  const int status = endless.read().status;  // an answer, or a closed connection
  EXPECT_TRUE(status == 0 || status == 400 || status == 413) << status;
  EXPECT_EQ(HttpClient(server.port).post(kText, std::string("{\"model\": ")).status, 400);
  EXPECT_EQ(HttpClient(server.port).post(kText, std::string(100'000, '[')).status, 400);
  EXPECT_EQ(HttpClient(server.port).post(kText, std::string("\xff\xfe")).status, 400);
  HttpClient nonsense(server.port);
  nonsense.send("\x16\x03\x01\x02\r\n\r\n");
  EXPECT_NE(nonsense.read().status, 200);
  EXPECT_EQ(server.text("base", "one"), right);
}

TEST(Serve, AFullQueueRefusesAndClientsThatLeaveMakeRoom) {
  const Served w;
  const Server server(w, {"--model", kBase, "--max-waiting", "1", "generation.batch_size=1",
                          "generation.max_length=500", "generation.min_length=500"});
  const std::string body =
      Json{{"model", "base"}, {"prompt", "one"}, {"stream", true}, {"max_tokens", 400}}.dump();
  const auto start = [&](HttpClient& client) { client.send(client.head("POST", kText, body.size()) + body); };
  HttpAnswer refused;
  for (int round = 0; round < 20 && refused.status != 429; ++round) {
    std::vector<HttpClient> clients;
    for (int i = 0; i < 8; ++i) start(clients.emplace_back(server.port));  // one is answered, one waits
    int answered = 0;
    for (HttpClient& c : clients) {
      const HttpAnswer a = c.read();
      if (a.status == 200)
        ++answered;
      else
        refused = a;
    }
    EXPECT_GE(answered, 1);
  }
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.head.find("Retry-After"), std::string::npos) << refused.head;
  {
    HttpClient first(server.port), second(server.port);
    start(first);
    ASSERT_TRUE(first.wait_for("data: "));
    start(second);
  }  // both close their connections
  EXPECT_TRUE(comes_to_hold(5, [&] {
    return server.post(kText, {{"model", "base"}, {"prompt", "one"}, {"max_tokens", 500 - 2}}).status == 200;
  }));
}

TEST(Serve, ASignalLetsAnswersEnd) {
  const Served w;
  Server server(w, {"--model", kBase, "generation.max_length=500", "generation.min_length=500"});
  HttpClient client(server.port);
  const std::string body =
      Json{{"model", "base"}, {"prompt", "one"}, {"stream", true}, {"max_tokens", 60}}.dump();
  client.send(client.head("POST", kText, body.size()) + body);
  ASSERT_TRUE(client.wait_for("data: "));
  EXPECT_EQ(server.stop(SIGTERM), 0);
  EXPECT_EQ(events(client.read().body).back()["choices"][0]["finish_reason"], "length");
  EXPECT_NE(w.says().find("SIGTERM"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
