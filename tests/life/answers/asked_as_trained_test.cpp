// A trained model is prompted in the form of its training rows: ft chat, generate and serve after training on
// plain pairs, on instructions and on conversations.
#include <gtest/gtest.h>

#include "tests/life/answers/served.h"

namespace ft::test {
namespace {

const char* const kTemplate =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}</s>{% endfor %}{% if add_generation_prompt "
    "%}[assistant]"
    "{% endif %}";

// The demo's model with a chat template.
struct Chatty : Workplace {
  explicit Chatty(const std::string& rows, Json config = Json::object())
      : Workplace("llama", with_base(config)) {
    fs::copy(kBase, *this / "base", fs::copy_options::recursive);
    std::ofstream(*this / "base/chat_template.jinja") << kTemplate;
    std::ofstream(*this / "train.jsonl") << rows << rows;
    Json all = Json::parse(contents(*this / "run.json"));
    all["data"]["datasets"][0].erase("type");
    std::ofstream(*this / "run.json") << all.dump();
  }
  static Json with_base(Json config) {
    config["model"]["model_name_or_path"] = "base";
    config["data"]["max_seq_length"] = 512;
    config["training"]["max_steps"] = 1;
    config["training"]["learning_rate"] = 0.001;
    config["logging"]["progress"] = "plain";
    return config;
  }
  std::string kept(const std::string& folder = "out") const {
    const std::string text = contents(*this / folder / "ft_prompts.json");
    return text.empty() ? "" : Json::parse(text).dump();
  }
  std::vector<Json> generated(const std::vector<Json>& asked, std::vector<std::string> more = {}) const {
    std::ofstream in(*this / "in.jsonl");
    for (const Json& row : asked) in << row.dump() << "\n";
    in.close();
    more.insert(more.begin(), {"generate", "--model", "base", "--adapter", "out", "--input", "in.jsonl",
                               "--output", "out.jsonl", "--overwrite", "generation.max_new_tokens=8"});
    EXPECT_EQ(run(more), 0) << says();
    return rows(*this / "out.jsonl");
  }
  std::string chats(const std::string& line) const {
    std::ofstream(*this / "line") << line << "\n";
    const std::string shell =
        "cd '" + operator/("").string() + "' && '" + program_file() +
        "' chat --model base --adapter out generation.max_new_tokens=8 < line > chat.out";
    EXPECT_EQ(std::system(shell.c_str()), 0);
    const std::string text = contents(*this / "chat.out");
    return text.substr(0, text.size() - 1);
  }
};

Json turn(const std::string& text) { return Json::array({{{"role", "user"}, {"content", text}}}); }

TEST(AskedAsTrained, PlainPairsAreAskedWithoutTheModelsTemplate) {
  const Chatty w("{\"prompt\": \"one two\", \"completion\": \" three\"}\n");
  ASSERT_EQ(w.train(), 0) << w.says();
  EXPECT_NE(w.says().find("plain prompts and answers"), std::string::npos) << w.says();
  EXPECT_EQ(w.kept(), R"({"prompts_written":"plain"})");
  const std::string plain = w.generated({{{"prompt", "one two"}}})[0]["completion"];
  EXPECT_EQ(w.chats("one two"), plain);
  EXPECT_EQ(w.generated({{{"messages", turn("one two")}}})[0]["completion"], plain);
  const Server server(w, {"--model", "base", "--adapter", "out"});
  const auto ask = [&](const Json& messages) {
    return server.post(kChat, {{"model", "out"}, {"messages", messages}, {"max_tokens", 8}});
  };
  EXPECT_EQ(ask(turn("one two")).json()["choices"][0]["message"]["content"], plain);
  Json turns = turn("one");
  turns.push_back({{"role", "assistant"}, {"content", "two"}});
  turns.push_back({{"role", "user"}, {"content", "three"}});
  EXPECT_EQ(ask(turns).status, 400);
  // The base model still has its template.
  EXPECT_EQ(server.post(kChat, {{"model", "base"}, {"messages", turns}}).status, 200);
}

TEST(AskedAsTrained, ConversationsHaveTheTemplateOfTheRun) {
  const std::string own =
      "{% for m in messages %}({{ m.role }}) {{ m.content }}</s>{% endfor %}"
      "{% if add_generation_prompt %}(assistant){% endif %}";
  const Chatty w(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", "
      "\"content\": \"two\"}]}\n",
      {{"data", {{"chat_template", own}}}});
  ASSERT_EQ(w.train(), 0) << w.says();
  EXPECT_EQ(w.kept(), R"({"prompts_written":"chat"})");
  EXPECT_EQ(contents(w / "out/chat_template.jinja"), own);
  const auto got = w.generated(
      {{{"messages", turn("one two")}}, {{"prompt", turn("one two")}}, {{"question", "one two"}}});
  EXPECT_EQ(got[1]["output_ids"], got[0]["output_ids"]);
  EXPECT_EQ(got[2]["output_ids"], got[0]["output_ids"]);
  EXPECT_NE(w.says().find("as turns of a user, as in training; data.chat_template=none"), std::string::npos)
      << w.says();
  EXPECT_EQ(w.chats("one two"), got[0]["completion"].get<std::string>());
  EXPECT_NE(w.generated({{{"prompt", "one two"}}}, {"data.chat_template=none"})[0]["output_ids"],
            got[0]["output_ids"]);
  w.generated({{{"prompt", "one two"}}}, {"data.chat_template=zephyr"});
  EXPECT_NE(w.says().find("as turns of a user, in the chat format zephyr;"), std::string::npos) << w.says();
  w.generated({{{"prompt", "one two"}}}, {"data.chat_template=default"});
  EXPECT_NE(w.says().find("with the model's own chat template \"default\";"), std::string::npos) << w.says();
}

TEST(AskedAsTrained, FormatsAndVariablesAreKeptByName) {
  const Chatty w(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", "
      "\"content\": \"two\"}]}\n");
  ASSERT_EQ(w.train({"data.chat_template=zephyr", "training.output_dir=named"}), 0) << w.says();
  EXPECT_EQ(w.kept("named"), R"({"chat_template":"zephyr","prompts_written":"chat"})");
  ASSERT_EQ(w.train({R"(data.chat_template_kwargs={"think": true})"}), 0) << w.says();
  EXPECT_EQ(w.kept(), R"({"chat_template_kwargs":{"think":true},"prompts_written":"chat"})");
  ASSERT_EQ(w.run({"merge", "--model", "base", "--adapter", "out", "--output", "merged"}), 0) << w.says();
  EXPECT_EQ(w.kept("merged"), w.kept());
}

TEST(AskedAsTrained, InstructionsAreAskedInAlpacasWords) {
  const Chatty w("{\"instruction\": \"Count.\", \"input\": \"one\", \"output\": \"two\"}\n");
  ASSERT_EQ(w.train(), 0) << w.says();
  EXPECT_EQ(w.kept(), R"({"prompts_written":"alpaca"})");
  const std::string words =
      "Below is an instruction that describes a task. Write a response that appropriately completes the "
      "request.\n\n### Instruction:\nCount.\n\n### Response:";
  const auto got =
      w.generated({{{"instruction", "Count."}}, {{"prompt", "Count."}}, {{"messages", turn("Count.")}}});
  for (const Json& row : got) EXPECT_EQ(row["output_ids"], got[0]["output_ids"]);
  EXPECT_EQ(w.generated({{{"prompt", words}}}, {"data.chat_template=none"})[0]["output_ids"],
            got[0]["output_ids"]);
  EXPECT_EQ(w.chats("Count."), got[0]["completion"].get<std::string>());
}

TEST(AskedAsTrained, TextsRecordNoForm) {
  const Chatty w("{\"text\": \"one two three\"}\n");
  ASSERT_EQ(w.train(), 0) << w.says();
  EXPECT_EQ(w.kept(), "");
}

// A base model ends at </s>; the chat template of its training data closes turns with another token.
TEST(AskedAsTrained, CompleteModelsEndWhereTheTemplateClosesATurn) {
  const Chatty w(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"one\"}, {\"role\": \"assistant\", "
      "\"content\": \"two\"}]}\n",
      {{"data", {{"chat_template", "chatml"}, {"new_special_tokens", {"<|im_end|>"}}}}});
  const auto ends = [&](const std::string& folder) {
    return Json::parse(contents(w / folder / "generation_config.json"))["eos_token_id"];
  };
  ASSERT_EQ(w.train({"finetuning_type=full", "training.output_dir=full"}), 0) << w.says();
  EXPECT_EQ(ends("full"), Json({2, 512}));
  ASSERT_EQ(w.train(), 0) << w.says();
  EXPECT_FALSE(fs::exists(w / "out/generation_config.json"));
  ASSERT_EQ(w.run({"merge", "--model", "base", "--adapter", "out", "--output", "merged"}), 0) << w.says();
  EXPECT_EQ(ends("merged"), Json({2, 512}));
  ASSERT_EQ(w.run({"export", "--to", "hf", "--from", "full", "--output", "again"}), 0) << w.says();
  EXPECT_EQ(ends("again"), Json({2, 512}));
  std::ofstream(w / "train.jsonl") << "{\"prompt\": \"one\", \"completion\": \" two\"}\n";
  ASSERT_EQ(w.train({"finetuning_type=full", "training.output_dir=plain"}), 0) << w.says();
  EXPECT_FALSE(fs::exists(w / "plain/generation_config.json"));
}

}  // namespace
}  // namespace ft::test
