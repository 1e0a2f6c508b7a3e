// Pieces of texts for each name of tokenizer.ggml.pre, as Hugging Face's tokenizers cut them with the
// patterns of the models' tokenizer.json.
#include "data/tokenizers/gguf_cuts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/tokenizers/json/byte_level.h"
#include "data/tokenizers/json/pre_tokenizer.h"

namespace ft {
namespace {

const std::vector<std::string> kTexts{"It'S 12345 don't", "HTTPServer aB/y//\n\n  e\u0301te\u0301",
                                      "你好 こんにちは 한국어, привет!  ", "#tag a_b <= ½४५.\r\n"};

struct Cut {
  std::string name;
  std::vector<std::string> pieces;  // of each text
};
const std::vector<Cut> kCuts{
    {"llama-bpe",
     {"It|'S| |123|45| don|'t", "HTTPServer| aB|/y|//\n\n| | e|\u0301te|\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½४५|.\r\n"}},
    {"dbrx",
     {"It|'S| |123|45| don|'t", "HTTPServer| aB|/y|//\n\n| | e|\u0301te|\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½४५|.\r\n"}},
    {"stablelm2",
     {"It|'S| |1|2|3|4|5| don|'t", "HTTPServer| aB|/y|//\n\n| | e|\u0301te|\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½|४|५|.\r\n"}},
    {"qwen35",
     {"It|'S| |1|2|3|4|5| don|'t", "HTTPServer| aB|/y|//\n\n| | e\u0301te\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½|४|५|.\r\n"}},
    {"gpt-2",
     {"It|'|S| 12345| don|'t", "HTTPServer| aB|/|y|//|\n\n | e|\u0301|te|\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#|tag| a|_|b| <=| ½४५|.|\r\n"}},
    {"smollm",
     {"It|'|S| |1|2|3|4|5| don|'t", "HTTPServer| aB|/|y|//|\n\n | e|\u0301|te|\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#|tag| a|_|b| <=| |½|४|५|.|\r\n"}},
    {"deepseek-llm",
     {"It|'|S| |1|2|3|4|5| don|'|t", "HTTPServer| aB|/|y|//|\n|\n| | e|\u0301|te|\u0301",
      "你好| |こんにちは| |한국어|,| привет|!|  ", "#|tag| a|_|b| <=| |½|४|५|.|\r|\n"}},
    {"deepseek-coder",
     {"It|'|S| |1|2|3|4|5| don|'|t", "HTTPServer| aB|/|y|//|\n|\n| | e|\u0301|te|\u0301",
      "你好| |こんにちは| |한국어|,| привет|!|  ", "#|tag| a|_|b| <= |½|४|५|.|\r|\n"}},
    {"deepseek-v3",
     {"It|'S| |123|45| don|'t", "HTTPServer| aB|/y|//\n\n| | e\u0301te\u0301",
      "你好| |こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½४५|.\r\n"}},
    {"tekken",
     {"It|'S| |1|2|3|4|5| don|'t", "HTTPServer| a|B|/y|//\n\n| | e\u0301te\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½|४|५|.\r\n"}},
    {"gpt-4o",
     {"It'S| |123|45| don't", "HTTPServer| a|B|/y|//\n\n| | e\u0301te\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½४५|.\r\n"}},
    {"seed-coder",
     {"It|'S| |1|2|3|4|5| don|'t", "HTTPServer| aB|/y|//|\n\n| | e|\u0301te|\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½|४|५|.|\r\n"}},
    {"minicpm5",
     {"It|'S| |123|45| don|'t", "HTTPServer| aB|/y|//\n\n| | e|\u0301te|\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#tag| a|_b| <=| |½४५|.\r\n"}},
    {"poro-chat",
     {"It'S| 12345| don't", "HTTPServer| aB/y//|\n\n | e\u0301te\u0301",
      "你好| こんにちは| 한국어|,| привет|!  ", "#tag| a_b| <=| ½४५|.\r\n"}},
    {"viking",
     {"It'S| |1|2|3|4|5| don't", "HTTPServer| aB/y//|\n\n | e\u0301te\u0301",
      "你好| こんにちは| 한국어|,| привет|!  ", "#tag| a_b| <=| |½|४|५|.\r\n"}},
    {"default",
     {"It|'|S| |123|45| don|'|t", "HTTPServer| aB|/|y|//|\n\n | e|\u0301|te|\u0301",
      "你好| こんにちは| 한국어|,| привет|!|  ", "#|tag| a|_|b| |<=| |½४५|.|\r\n"}}};

std::string pieces_of(const GgufCut& cut, const std::string& text) {
  const Json tokenizer = {{"pre_tokenizer", pre_tokenizer_of(cut)}};
  const auto steps = read_pre_tokenizers(JsonObject::parse(tokenizer.dump(), {"tokenizer.json"}));
  Pieces pieces;
  pieces.list.push_back({text, true});
  for (const auto& step : steps) step->apply(pieces);
  std::string all;
  for (const Pieces::Piece& p : pieces.list)
    all += (all.empty() ? "" : "|") + from_byte_level(p.text).value_or("?");
  return all;
}

TEST(GgufCuts, GiveThePiecesOfTheModels) {
  for (const Cut& want : kCuts) {
    const GgufCut* cut = find_gguf_cut(want.name);
    ASSERT_NE(cut, nullptr) << want.name;
    for (std::size_t i = 0; i < kTexts.size(); ++i)
      EXPECT_EQ(pieces_of(*cut, kTexts[i]), want.pieces[i]) << want.name;
  }
}

TEST(GgufCuts, NamesOfOneCut) {
  const auto same = [](std::string_view a, std::string_view b) {
    return find_gguf_cut(a) != nullptr && find_gguf_cut(a) == find_gguf_cut(b);
  };
  for (const char* name : {"llama3", "llama-v3", "falcon3"}) EXPECT_TRUE(same(name, "llama-bpe")) << name;
  for (const char* name : {"starcoder", "refact", "command-r"}) EXPECT_TRUE(same(name, "smollm")) << name;
  EXPECT_TRUE(same("smaug-bpe", "dbrx"));
  EXPECT_TRUE(same("deepseek-r1-qwen", "stablelm2"));
  EXPECT_TRUE(same("llama4", "gpt-4o"));
  EXPECT_EQ(find_gguf_cut("no-such-model"), nullptr);
}

TEST(GgufCuts, AreFoundByTheirPreTokenizer) {
  for (const Cut& c : kCuts) {
    const GgufCut* cut = find_gguf_cut(c.name);
    const GgufCut* found = recognize_gguf_cut(pre_tokenizer_of(*cut));
    ASSERT_NE(found, nullptr) << c.name;
    EXPECT_EQ(found->steps, cut->steps) << c.name;
  }
  // Patterns of tiktoken are often written this way.
  Json cut = pre_tokenizer_of(*find_gguf_cut("gpt-4o"));
  cut["pretokenizers"][0]["behavior"] = "Removed";
  cut["pretokenizers"][0]["invert"] = true;
  EXPECT_EQ(recognize_gguf_cut(cut), find_gguf_cut("gpt-4o"));
  cut["pretokenizers"][0]["invert"] = false;
  EXPECT_EQ(recognize_gguf_cut(cut), nullptr);
  EXPECT_EQ(recognize_gguf_cut(Json()), nullptr);
}

}  // namespace
}  // namespace ft
