// Random requests to ft serve with a model that generates any id, including ids without a token: each request
// gets an answer or an error in OpenAI's form, and the server stays alive.
#include <gtest/gtest.h>

#include <random>

#include "engine/files/file.h"
#include "tests/life/answers/served.h"

namespace ft::test {
namespace {

class Fuzzer {
 public:
  explicit Fuzzer(std::uint32_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  bool once_in(int n) { return below(n) == 0; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }

  std::string text() {
    static const std::vector<std::string> kWords{"one",
                                                 " two",
                                                 "seven ",
                                                 "</s>",
                                                 "<s>",
                                                 "\n",
                                                 "\t",
                                                 "\u00e9",
                                                 "\u4f60\u597d",
                                                 "\U0001F642",
                                                 "\x01",
                                                 "\"",
                                                 "{\"name\": \"add\", \"arguments\": {",
                                                 "<tool_call>",
                                                 "[TOOL_CALLS]",
                                                 "{{ x }}",
                                                 "%",
                                                 "\\u0000",
                                                 "\u2028",
                                                 ""};
    std::string all;
    for (int i = below(6); i >= 0; --i) all += one_of(kWords);
    if (once_in(60)) all += std::string(20'000, 'a');
    return all;
  }
  Json value(int depth = 0) {
    switch (below(depth > 3 ? 8 : 11)) {
      case 0:
        return nullptr;
      case 1:
        return once_in(2);
      case 2:
        return below(20) - 4;
      case 3:
        return one_of<std::int64_t>({INT64_MAX, INT64_MIN, INT32_MAX, -1, 1 << 20, 0});
      case 4:
        return 18446744073709551615ULL;
      case 5:
        return one_of<double>({0.5, -0.0, 1e300, -1e-300, 2, 1.0000001});
      case 6:
      case 7:
        return text();
      case 8: {
        Json list = Json::array();
        for (int i = below(4); i > 0; --i) list.push_back(value(depth + 1));
        return list;
      }
      case 9: {
        Json object = Json::object();
        for (int i = below(4); i > 0; --i) object[name()] = value(depth + 1);
        return object;
      }
      default: {
        Json deep = text();
        for (int i = below(90); i > 0; --i) deep = Json::array({deep});
        return deep;
      }
    }
  }
  std::string name() {
    return once_in(8)
               ? text()
               : one_of<std::string>({"type", "text", "role", "content", "function", "name", "parameters",
                                      "arguments", "tool_calls", "properties", "include_usage", "id"});
  }

  Json message() {
    Json m{{"role", one_of<std::string>({"user", "assistant", "system", "tool", "developer", "x"})},
           {"content", text()}};
    if (once_in(4)) m["content"] = Json::array({{{"type", "text"}, {"text", text()}}});
    if (once_in(5))
      m["tool_calls"] = Json::array(
          {{{"id", "a"}, {"type", "function"}, {"function", {{"name", "add"}, {"arguments", text()}}}}});
    if (once_in(10)) m[name()] = value();
    return once_in(20) ? value() : m;
  }
  Json prompt() {
    Json ids = Json::array();
    for (int i = below(6); i >= 0; --i) ids.push_back(once_in(12) ? Json(value()) : Json(below(700)));
    switch (below(5)) {
      case 0:
        return ids;
      case 1:
        return Json::array({ids, ids});
      case 2:
        return Json::array({text(), text(), text()});
      default:
        return text();
    }
  }
  Json body(bool chat) {
    Json j{{"model", once_in(15) ? Json(value()) : Json("m")}};
    if (chat) {
      j["messages"] = Json::array();
      for (int i = below(3); i >= 0; --i) j["messages"].push_back(message());
      if (once_in(3))
        j["tools"] =
            Json::array({{{"type", "function"}, {"function", {{"name", "add"}, {"parameters", value()}}}}});
    } else {
      j["prompt"] = prompt();
    }
    static const std::vector<std::string> kFields{"max_tokens",
                                                  "temperature",
                                                  "top_p",
                                                  "top_k",
                                                  "min_p",
                                                  "seed",
                                                  "stop",
                                                  "stream",
                                                  "stream_options",
                                                  "echo",
                                                  "logprobs",
                                                  "top_logprobs",
                                                  "n",
                                                  "best_of",
                                                  "repetition_penalty",
                                                  "user",
                                                  "tool_choice",
                                                  "max_completion_tokens",
                                                  "chat_template_kwargs",
                                                  "parallel_tool_calls",
                                                  "logit_bias",
                                                  "response_format",
                                                  "prompt",
                                                  "messages",
                                                  "tools"};
    j["max_tokens"] = below(9);
    if (once_in(2)) j["temperature"] = one_of<double>({0, 0.7, 1, 2});
    if (once_in(2)) j["top_k"] = 0;
    if (once_in(4)) j["stream"] = true;
    if (once_in(4)) j["logprobs"] = chat ? Json(true) : Json(below(6));
    if (once_in(4)) j["n"] = 1 + below(3);
    if (once_in(4) && !chat) j["echo"] = true;
    for (int i = below(3); i > 0; --i) j[one_of(kFields)] = value();
    return j;
  }
  // Returns the bytes to send: JSON, sometimes damaged.
  std::string bytes(const Json& body) {
    std::string all = body.dump(-1, ' ', once_in(2), Json::error_handler_t::replace);
    if (once_in(12))
      for (int i = below(5); i >= 0 && !all.empty(); --i)
        all[static_cast<std::size_t>(below(static_cast<int>(all.size())))] = static_cast<char>(below(256));
    if (once_in(25)) all.resize(static_cast<std::size_t>(below(static_cast<int>(all.size()) + 1)));
    return all;
  }

 private:
  std::mt19937 random_;
};

// A server whose model has 200 more ids than its tokenizer, and generates all of them.
struct Any : Workplace {
  Any() : Workplace("llama") {
    Json config = Json::parse(contents(kBase + "/config.json"));
    config.merge_patch({{"vocab_size", 712},
                        {"hidden_size", 48},
                        {"intermediate_size", 64},
                        {"num_hidden_layers", 2},
                        {"max_position_embeddings", 128}});
    std::ofstream(*this / "config.json") << config.dump();
    EXPECT_EQ(run({"init", "--config", "config.json", "--output", "any"}), 0) << says();
    for (const char* name : {"tokenizer.model", "tokenizer_config.json"})
      fs::copy(kBase + "/" + name, *this / "any" / name);
    std::ofstream(*this / "any/chat_template.jinja")
        << "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}"
           "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% "
           "endfor %}\n"
           "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
  }
};

void expect_answer(const HttpAnswer& a, const std::string& sent) {
  ASSERT_NE(a.status, 0) << "closed without an answer: " << sent;
  EXPECT_TRUE(a.status == 200 || a.status == 400 || a.status == 404 || a.status == 415)
      << a.status << " " << a.body << "\n"
      << sent;
  if (a.head.find("text/event-stream") != std::string::npos) {
    for (const Json& e : events(a.body)) EXPECT_TRUE(e.contains("choices")) << a.body << "\n" << sent;
    return;
  }
  const Json j = Json::parse(a.body, nullptr, false);
  ASSERT_FALSE(j.is_discarded()) << a.body << "\n" << sent;
  if (a.status == 200)
    EXPECT_TRUE(j["choices"].is_array() && j["usage"].is_object()) << a.body << "\n" << sent;
  else
    EXPECT_TRUE(j["error"]["message"].is_string() && j["error"]["type"].is_string()) << a.body << "\n"
                                                                                     << sent;
}

void ask_at_random(int requests, std::uint32_t seed) {
  const Any w;
  Server server(
      w, {"--model", "any", "--name", "m", "generation.max_length=128", "generation.max_new_tokens=8"});
  Fuzzer fuzzer(seed);
  const Json plain{{"model", "m"}, {"prompt", "one two"}, {"temperature", 0}, {"max_tokens", 8}};
  const HttpAnswer right = server.post(kText, plain);
  ASSERT_EQ(right.status, 200) << right.body;
  for (int i = 0; i < requests && !testing::Test::HasFailure(); ++i) {
    const bool chat = fuzzer.once_in(2);
    const std::string sent = fuzzer.bytes(fuzzer.body(chat));
    HttpClient client(server.port);
    const std::string head = client.head("POST", chat ? kChat : kText, sent.size());
    if (fuzzer.once_in(15)) {  // closes the connection in the middle, or before the answer
      const std::string all = head + sent;
      client.send(all.substr(0, static_cast<std::size_t>(fuzzer.below(static_cast<int>(all.size()) + 1))));
      continue;
    }
    client.send(head + sent);
    expect_answer(client.read(), sent);
  }
  const HttpAnswer last = server.post(kText, plain);
  ASSERT_EQ(last.status, 200) << w.says();
  EXPECT_EQ(last.json()["choices"], right.json()["choices"]);
  EXPECT_EQ(HttpClient(server.port).get("/health").status, 200);
  EXPECT_EQ(server.stop(SIGTERM), 0) << w.says();
}

TEST(ServeFuzz, RandomRequestsHarmNobody) { ask_at_random(400, 1); }

// For .ci/nightly.
TEST(ServeFuzz, DISABLED_TenThousandRandomRequestsHarmNobody) { ask_at_random(10'000, 2); }

}  // namespace
}  // namespace ft::test
