// docs/families.md, the table of families and methods: each of its cells is run once, on a tiny model of the
// family.
#include <gtest/gtest.h>

#include <cctype>
#include <iostream>

#include "tests/life/program.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

struct Row {
  std::string name;
  Json config;  // differences from kCommon
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const Json kCommon = {{"vocab_size", 40},
                      {"hidden_size", 16},
                      {"intermediate_size", 24},
                      {"num_hidden_layers", 2},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"max_position_embeddings", 64},
                      {"pad_token_id", 0},
                      {"eos_token_id", 1},
                      {"tie_word_embeddings", false}};
const Json kExperts = {{"num_experts", 4},
                       {"num_experts_per_tok", 2},
                       {"moe_intermediate_size", 8},
                       {"shared_expert_intermediate_size", 8}};
const Json kDeltaNets = {{"head_dim", 8},
                         {"linear_key_head_dim", 4},
                         {"linear_value_head_dim", 4},
                         {"linear_num_key_heads", 2},
                         {"linear_num_value_heads", 4},
                         {"full_attention_interval", 2},
                         {"rope_parameters", {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}}}};
const Json kGemma = {{"head_dim", 4}, {"query_pre_attn_scalar", 4}, {"tie_word_embeddings", true}};
const Json kGemma4 = {{"model_type", "gemma4_text"},
                      {"head_dim", 4},
                      {"global_head_dim", 8},
                      {"sliding_window", 8},
                      {"hidden_size_per_layer_input", 0},
                      {"layer_types", {"sliding_attention", "full_attention"}},
                      {"tie_word_embeddings", true}};
const Json kRouted = {{"n_routed_experts", 4},
                      {"num_experts_per_tok", 2},
                      {"moe_intermediate_size", 8},
                      {"n_shared_experts", 1},
                      {"n_group", 1},
                      {"topk_group", 1},
                      {"first_k_dense_replace", 1},
                      {"norm_topk_prob", true}};
const Json kLatent = {{"num_key_value_heads", 4}, {"q_lora_rank", 6},      {"kv_lora_rank", 4},
                      {"qk_nope_head_dim", 2},    {"qk_rope_head_dim", 2}, {"v_head_dim", 4}};
const Json kGpt2 = {
    {"model_type", "gpt2"}, {"vocab_size", 40},  {"n_embd", 16},      {"n_layer", 2},
    {"n_head", 4},          {"eos_token_id", 1}, {"n_positions", 64}, {"tie_word_embeddings", true}};

Json with(std::initializer_list<Json> all) {
  Json out = Json::object();
  for (const Json& one : all) out.update(one);
  return out;
}
Json type(const char* name) { return {{"model_type", name}}; }

std::vector<Row> rows_of_table() {
  return {
      {"LLaMA", type("llama")},
      {"Mistral", with({type("mistral"), {{"sliding_window", 8}}})},
      {"Qwen2", type("qwen2")},
      {"Qwen3", with({type("qwen3"), {{"head_dim", 4}}})},
      {"Gemma 2", with({type("gemma2"), kGemma, {{"sliding_window", 8}}})},
      {"Gemma 3", with({type("gemma3_text"), kGemma, {{"sliding_window", 8}}})},
      {"Gemma 4", kGemma4},
      {"Gemma 4 E",
       with({kGemma4,
             {{"num_hidden_layers", 4},
              {"layer_types", {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}},
              {"num_kv_shared_layers", 2},
              {"hidden_size_per_layer_input", 4},
              {"vocab_size_per_layer_input", 40}}})},
      {"Gemma 4 with experts", with({kGemma4,
                                     {{"enable_moe_block", true},
                                      {"num_experts", 4},
                                      {"top_k_experts", 2},
                                      {"moe_intermediate_size", 8}}})},
      {"Phi-3", with({type("phi3"), {{"sliding_window", 30}}})},
      {"Granite", type("granite")},
      {"OLMo 2", type("olmo2")},
      {"SmolLM3", with({type("smollm3"), {{"num_hidden_layers", 4}, {"no_rope_layer_interval", 4}}})},
      {"OPT",
       with({type("opt"), {{"ffn_dim", 24}, {"word_embed_proj_dim", 16}, {"tie_word_embeddings", true}}})},
      {"GPT-2", kGpt2},
      {"GPT-NeoX", with({type("gpt_neox"), {{"rotary_pct", 0.5}, {"hidden_act", "gelu"}}})},
      {"Mixtral", with({type("mixtral"), {{"num_local_experts", 4}, {"num_experts_per_tok", 2}}})},
      {"Qwen2-MoE", with({type("qwen2_moe"), kExperts})},
      {"Qwen3-MoE", with({type("qwen3_moe"), kExperts, {{"head_dim", 4}, {"norm_topk_prob", true}}})},
      {"OLMoE", with({type("olmoe"), kExperts, {{"num_key_value_heads", 4}}})},
      {"Qwen3.5", with({type("qwen3_5_text"), kDeltaNets})},
      {"Qwen3.5 with experts", with({type("qwen3_5_moe_text"), kDeltaNets, kExperts})},
      {"Qwen3-Next", with({type("qwen3_next"), kDeltaNets, kExperts})},
      {"gpt-oss",
       with(
           {type("gpt_oss"),
            {{"head_dim", 4}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}, {"sliding_window", 8}}})},
      {"DeepSeek V2",
       with({type("deepseek_v2"), kRouted, kLatent, {{"topk_method", "greedy"}, {"norm_topk_prob", false}}})},
      {"DeepSeek V3", with({type("deepseek_v3"), kRouted, kLatent})},
      {"GLM-4.5",
       with({type("glm4_moe"), kRouted, {{"head_dim", 8}, {"attention_bias", true}, {"use_qk_norm", true}}})},
      {"GLM-4.7-Flash", with({type("glm4_moe_lite"), kRouted, kLatent})}};
}

Words train(int ranks, const Words& more) {
  Words all{"train", "--config", "run.json", "training.max_steps=1"};
  if (ranks > 1) all.insert(all.begin(), {"launch", "-n", std::to_string(ranks)});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
// Trains on another file of rows.
Words on(const std::string& file, const Words& more) {
  Words all = train(1, {R"(data.datasets=[{"path":")" + file + R"("}])"});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct Column {
  std::string name;
  Words command;
  std::string makes = "out/log.jsonl";  // the file that shows that the command did its work
};
std::vector<Column> columns_of_table() {
  const std::string d = "distributed.", full = "finetuning_type=full";
  return {{"full", train(1, {full})},
          {"LoRA", train(1, {})},
          {"QLoRA", train(1, {"quantization.load_in_4bit=true"})},
          {"DoRA", train(1, {"lora.use_dora=true"})},
          {"packing", train(1, {"data.packing=true"})},
          {"ZeRO 3", train(2, {full, "zero_stage=3"})},
          {"tensor", train(2, {full, d + "tensor_parallel_size=2"})},
          {"sequence", train(2, {full, d + "sequence_parallel_size=2"})},
          {"pipeline", train(2, {full, d + "pipeline_parallel_size=2"})},
          {"classify", on("classes.jsonl", {"objective.type=classify"})},
          {"embed", on("texts.jsonl", {"objective.type=embed"})},
          {"answers",
           {"generate", "--model", "tiny", "--input", "prompts.jsonl", "--output", "answers.jsonl",
            "generation.max_new_tokens=2"},
           "answers.jsonl"},
          {"GGUF", {"export", "--to", "gguf", "--from", "tiny", "--output", "tiny.gguf"}, "tiny.gguf"}};
}

// A folder with a tiny model of a family, and rows of every kind.
struct Tiny : Workplace {
  explicit Tiny(const Row& row) : Workplace("llama", {{"model", {{"model_name_or_path", "tiny"}}}}) {
    Json config = row.config["model_type"] == "gpt2" ? Json::object() : kCommon;
    config.update(row.config);
    std::ofstream(*this / "config.json") << config.dump();
    std::ofstream(*this / "train.jsonl")
        << R"({"input_ids": [2, 5, 9, 12, 7, 30], "labels": [2, 5, 9, 12, 7, 30]})"
        << "\n";
    std::ofstream(*this / "classes.jsonl") << R"({"input_ids": [2, 5, 9], "label": 1})"
                                           << "\n";
    std::ofstream(*this / "texts.jsonl") << R"({"anchor_ids": [2, 5], "positive_ids": [2, 9]})"
                                         << "\n";
    std::ofstream(*this / "prompts.jsonl") << R"({"input_ids": [2, 5, 9]})"
                                           << "\n";
    EXPECT_EQ(run({"init", "--config", "config.json", "--output", "tiny"}), 0) << row.name << says();
  }
  // Runs a cell. Returns the reason of a refusal, which is ft's last line; empty: it works.
  std::string refusal(const Column& column, const std::string& family) const {
    fs::remove_all(*this / "out");
    const int code = run(column.command);
    EXPECT_EQ(code == 0, fs::exists(*this / column.makes)) << family << ", " << column.name;
    if (code == 0) return "";
    EXPECT_TRUE(code == 2 || code == 3) << family << ", " << column.name << ": " << says();
    const fs::path rank = *this / "out/ranks/rank-0.log";
    std::istringstream lines(fs::exists(rank) ? contents(rank) : says());
    std::string last;
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) last = line;
    return last;
  }
};

// By column: the reason of a refusal; empty: it works.
using Cells = Words;

Cells cells_of(const Row& row) {
  const Tiny w(row);
  Cells cells;
  for (const Column& c : columns_of_table()) cells.push_back(w.refusal(c, row.name));
  return cells;
}

std::string page_of(const std::vector<Cells>& all) {
  std::string head = "| family", line = "|---", body, notes;
  for (const Column& c : columns_of_table()) head += " | " + c.name, line += "|---";
  Words reasons;
  for (std::size_t i = 0; i < all.size(); ++i) {
    body += "| " + rows_of_table()[i].name;
    for (const std::string& why : all[i]) {
      auto at = std::find(reasons.begin(), reasons.end(), why);
      if (!why.empty() && at == reasons.end()) at = reasons.insert(at, why);
      body += " | " + (why.empty() ? "✓" : std::to_string(at - reasons.begin() + 1));
    }
    body += " |\n";
  }
  for (std::size_t i = 0; i < reasons.size(); ++i)
    notes += "| " + std::to_string(i + 1) + " | " + reasons[i] + " |\n";
  return R"(# Families and methods

Every cell of this table was run once, on a tiny model of the family: a step of training (on two ranks
under ZeRO, tensor, sequence and pipeline), two tokens of an answer, or an export. ✓: it works. A number: ft
refuses it, with the words in the list below. `tests/life/family_table_test.cpp` makes the page. Methods
beside each other are in [together.md](together.md), and T5 has [a page of its own](t5.md).

)" + head +
         " |\n" + line + "|\n" + body + "\n## What ft says\n\n| | reason |\n|---|---|\n" + notes;
}

std::string page() { return contents(source_path("docs/families.md")); }

// Returns the rest of the page's line that begins so, without the end of its last cell.
std::string rest_of_line(const std::string& text, const std::string& begin) {
  const std::size_t at = text.find("\n" + begin);
  if (at == text.npos) return "";
  const std::size_t from = at + 1 + begin.size();
  return text.substr(from, text.find(" |\n", from) - from);
}

// Returns a family's cells as the page has them; empty: it is not there.
Cells cells_on(const std::string& text, const std::string& family) {
  Cells cells;
  std::istringstream line(rest_of_line(text, "| " + family + " | "));
  for (std::string word; line >> word;) {
    if (word == "|") continue;
    cells.push_back(word == "✓" ? "" : rest_of_line(text, "| " + word + " | "));
  }
  return cells;
}

class FamilyTable : public testing::TestWithParam<Row> {};

TEST_P(FamilyTable, RowIsTheDocs) {
  const Cells now = cells_of(GetParam()), docs = cells_on(page(), GetParam().name);
  const std::vector<Column> columns = columns_of_table();
  ASSERT_EQ(docs.size(), columns.size()) << GetParam().name << " in docs/families.md";
  for (std::size_t i = 0; i < columns.size(); ++i)
    EXPECT_EQ(now[i], docs[i])
        << GetParam().name << ", " << columns[i].name
        << ": docs/families.md is out of date; FamilyTablePage.DISABLED_IsMade makes it";
}

INSTANTIATE_TEST_SUITE_P(All, FamilyTable, testing::ValuesIn(rows_of_table()), [](const auto& row) {
  std::string name = row.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

// The page has these families and nothing else, so that its rows are all that was to be run.
TEST(FamilyTablePage, HasTheRowsAndReasons) {
  std::vector<Cells> all;
  for (const Row& row : rows_of_table()) all.push_back(cells_on(page(), row.name));
  EXPECT_EQ(page_of(all), page());
}

TEST(FamilyTablePage, DISABLED_IsMade) {
  std::vector<Cells> all;
  for (const Row& row : rows_of_table()) all.push_back(cells_of(row));
  const std::string fresh = testing::TempDir() + "/families.md";
  std::ofstream(fresh) << page_of(all);
  std::cout << "copy " << fresh << " to docs/families.md\n";
}

}  // namespace
}  // namespace ft::test
