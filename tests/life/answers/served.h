// ft serve with the demo's model, for tests that send requests.
#pragma once
#include "tests/life/answers/listening.h"

namespace ft::test {

inline const std::string kBase = source_path("configs/demo/base");
inline const std::string kText = "/v1/completions", kChat = "/v1/chat/completions";
inline const std::vector<std::string> kPrompts{"In digits: five =", "one two three",
                                               "In digits: one hundred two =", "seven"};

// A folder with the demo's model and two adapters whose answers differ from the model's.
struct Served : Workplace {
  Served() : Workplace("llama", Json{{"model", {{"model_name_or_path", kBase}}}}) {
    std::ofstream(*this / "train.jsonl") << "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    Json config = Json::parse(contents(*this / "run.json"));
    config["data"]["datasets"][0].erase("type");
    std::ofstream(*this / "run.json") << config.dump();
    for (const std::string name : {"1", "2"})
      EXPECT_EQ(train({"training.max_steps=1", "lora.init_lora_weights=false", "lora.r=" + name,
                       "lora.lora_alpha=3", "training.seed=" + name, "training.output_dir=a" + name}),
                0)
          << says();
  }
  // Returns the answers of ft generate.
  std::vector<std::string> generated(std::vector<std::string> more = {}) const {
    std::ofstream in(*this / "in.jsonl");
    for (const std::string& p : kPrompts) in << Json{{"prompt", p}}.dump() << "\n";
    in.close();
    std::vector<std::string> all{"generate",  "--model",     kBase,
                                 "--input",   "in.jsonl",    "--output",
                                 "out.jsonl", "--overwrite", "generation.max_new_tokens=12"};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(run(all), 0) << says();
    std::vector<std::string> texts;
    for (const Json& row : rows(*this / "out.jsonl")) texts.push_back(row["completion"]);
    return texts;
  }
};

class Server : public Listening {
 public:
  Server(const Workplace& w, const std::vector<std::string>& more = {}) : Listening(w, words(more)) {}
  HttpAnswer post(const std::string& path, const Json& body, const std::string& more = "") const {
    return HttpClient(port).post(path, body, more);
  }
  std::string text(const std::string& model, const std::string& prompt, Json more = Json::object()) const {
    more["model"] = model;
    more["prompt"] = prompt;
    const HttpAnswer a = post(kText, more);
    EXPECT_EQ(a.status, 200) << a.body;
    return a.json()["choices"][0]["text"];
  }

 private:
  static std::vector<std::string> words(const std::vector<std::string>& more) {
    std::vector<std::string> all{"serve"};
    const bool length = std::any_of(more.begin(), more.end(), [](const std::string& m) {
      return m.starts_with("generation.max_length");
    });
    if (!length) all.push_back("generation.max_new_tokens=12");
    if (std::find(more.begin(), more.end(), "--model") == more.end())
      all.insert(all.end(), {"--model", kBase, "--adapter", "one=a1", "--adapter", "a2"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

}  // namespace ft::test
