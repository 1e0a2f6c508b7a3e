// The tool loop of the openai package and the requests of lm-evaluation-harness, with a model that has
// memorised one conversation. bench/clients runs the two packages themselves.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/life/answers/served.h"

namespace ft::test {
namespace {

const char* const kTemplate =
    "{% if tools %}Tools: {% for t in tools %}{{ t.function.name }} {% endfor %}{% endif %}"
    "{% for m in messages %}{{ m.role }}:\n{{ m.content or '' }}{% for c in m.tool_calls or [] "
    "%}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>"
    "{% endfor %}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant:\n{% endif %}";

// A call as the openai package sends it: arguments are text.
const Json kCall{{"id", "abc"},
                 {"type", "function"},
                 {"function", {{"name", "weather"}, {"arguments", R"({"city": "Oslo"})"}}}};
const Json kTools = Json::array(
    {{{"type", "function"},
      {"function",
       {{"name", "weather"},
        {"parameters", {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}}}}}}});
const Json kUser{{"role", "user"}, {"content", "Is it wet?"}};

struct Taught : Workplace {
  Taught() : Workplace("llama", settings()) {
    fs::copy(kBase, *this / "base", fs::copy_options::recursive);
    std::ofstream(*this / "base/chat_template.jinja") << kTemplate;
    Json call = kCall;
    call["function"]["arguments"] = {{"city", "Oslo"}};
    const Json row{{"messages",
                    {kUser,
                     {{"role", "assistant"}, {"content", "I look."}, {"tool_calls", {call}}},
                     {{"role", "tool"}, {"tool_call_id", "abc"}, {"content", "rain"}},
                     {{"role", "assistant"}, {"content", "It rains."}}}},
                   {"tools", kTools}};
    std::ofstream(*this / "train.jsonl") << row.dump() << "\n";
    Json config = Json::parse(contents(*this / "run.json"));
    config["data"]["datasets"][0].erase("type");
    config["data"]["max_seq_length"] = 256;
    std::ofstream(*this / "run.json") << config.dump();
    EXPECT_EQ(train(), 0) << says();
  }
  static Json settings() {
    return {{"model", {{"model_name_or_path", "base"}}},
            {"finetuning_type", "full"},
            {"training",
             {{"per_device_train_batch_size", 1},
              {"max_steps", 40},
              {"learning_rate", 0.003},
              {"lr_scheduler_type", "constant"}}}};
  }
};

TEST(ServeTools, TheLoopOfTheOpenaiPackage) {
  const Taught w;
  ASSERT_LT(losses(w / "out").back(), 0.05) << "it has not learnt the conversation";
  const Server server(w, {"--model", "out", "--name", "m"});
  Json body{{"model", "m"}, {"messages", {kUser}}, {"tools", kTools}, {"max_tokens", 100}};
  const Json first = server.post(kChat, body).json()["choices"][0];
  EXPECT_EQ(first["finish_reason"], "tool_calls") << first;
  const Json message = first["message"];
  EXPECT_EQ(message["content"], "I look.");
  ASSERT_EQ(message["tool_calls"].size(), 1u) << first;
  const Json call = message["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "weather");
  EXPECT_EQ(Json::parse(call["function"]["arguments"].get<std::string>()), Json({{"city", "Oslo"}}));

  body["stream"] = true;
  std::string content, finish;
  Json streamed;
  for (const Json& e : events(server.post(kChat, body).body)) {
    const Json& c = e["choices"][0];
    content += c["delta"].value("content", "");
    if (c["delta"].contains("tool_calls")) streamed = c["delta"]["tool_calls"][0];
    if (!c["finish_reason"].is_null()) finish = c["finish_reason"];
  }
  EXPECT_EQ(content, "I look.");
  EXPECT_EQ(finish, "tool_calls");
  EXPECT_EQ(streamed["function"], call["function"]);
  EXPECT_EQ(streamed["index"], 0);

  body.erase("stream");
  body["messages"].push_back(message);
  body["messages"].push_back({{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "rain"}});
  const Json last = server.post(kChat, body).json()["choices"][0];
  EXPECT_EQ(last["message"]["content"], "It rains.");
  EXPECT_EQ(last["finish_reason"], "stop");
  body["tool_choice"] = "none";
  body["messages"] = {kUser};
  EXPECT_FALSE(server.post(kChat, body).json()["choices"][0]["message"].contains("tool_calls"));
}

// local-completions requests log likelihoods of continuations, several as one list; local-chat-completions
// requests texts.
TEST(ServeTools, TheRequestsOfLmEvaluationHarness) {
  const Served w;
  const Server server(w, {"data.chat_template=chatml"});
  const std::vector<std::vector<int>> prompts{{5, 90, 17, 300, 41}, {8, 9, 10}};
  const HttpAnswer a = server.post(kText, {{"model", "base"},
                                           {"prompt", prompts},
                                           {"temperature", 0},
                                           {"max_tokens", 1},
                                           {"logprobs", 1},
                                           {"seed", 1234},
                                           {"echo", true}});
  ASSERT_EQ(a.status, 200) << a.body;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const Json l = a.json()["choices"][i]["logprobs"];
    ASSERT_EQ(l["token_logprobs"].size(), prompts[i].size() + 1);
    for (std::size_t t = 1; t < l["token_logprobs"].size(); ++t) {
      double best = -1e9;
      for (const auto& [token, logprob] : l["top_logprobs"][t].items())
        best = std::max<double>(best, logprob);
      EXPECT_LE(l["token_logprobs"][t].get<double>(), best);
    }
  }
  const HttpAnswer text = server.post(kText, {{"model", "base"},
                                              {"prompt", Json::array({"one two"})},
                                              {"max_tokens", 8},
                                              {"temperature", 0},
                                              {"stop", {"\n\n", "Question:", "</s>"}},
                                              {"seed", 1234}});
  EXPECT_EQ(text.status, 200) << text.body;
  const HttpAnswer chat =
      server.post(kChat, {{"model", "base"},
                          {"messages", {{{"role", "user"}, {"content", "one"}, {"type", "text"}}}},
                          {"max_tokens", 8},
                          {"temperature", 0},
                          {"stop", {"</s>"}},
                          {"seed", 1234}});
  EXPECT_EQ(chat.status, 200) << chat.body;
}

}  // namespace
}  // namespace ft::test
