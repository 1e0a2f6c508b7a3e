// SentencePiece tokenizers by LLaMA's rules: the tokens that other libraries give for the same files, the
// forms of special tokens in files, and broken models.
#include "data/tokenizers/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/files/utf8.h"
#include "data/tokenizers/json/added_tokens.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;
using Ids = Tokenizer::Ids;

const std::string kTiny = source_path("tests/data/tiny_tokenizer/");
const std::string kNames =
    R"("tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>")";

class TokenizerTest : public testing::Test {
 protected:
  TokenizerTest() { std::filesystem::copy(kTiny + "tokenizer.model", scratch.folder() / "tokenizer.model"); }
  std::unique_ptr<Tokenizer> make(const std::string& config) {
    scratch.write("tokenizer_config.json", "{" + config + "}");
    return make_tokenizer(scratch.folder());
  }
  std::string error(const std::string& config) {
    return error_of(Exit::input, [&] { make(config); }).substr(scratch.folder().string().size());
  }
  std::string model_error(const std::string& bytes) {
    scratch.write("tokenizer.model", bytes);
    const std::string text = error_of(Exit::input, [&] { make_tokenizer(scratch.folder()); });
    return text.substr(text.find("tokenizer.model"));
  }
  const Scratch scratch;
};

TEST_F(TokenizerTest, AgreesWithOtherLibraries) {
  const Json golden = read_json(kTiny + "golden.json");
  for (const bool legacy : {true, false}) {
    const auto t = make(kNames + R"(, "legacy": )" + (legacy ? "true" : "false"));
    const Json& rows = golden.at(legacy ? "legacy" : "new");
    EXPECT_GT(rows.size(), 20U);
    for (const Json& row : rows)
      EXPECT_EQ(t->encode(row[0].get<std::string>()), row[1].get<Ids>()) << row << legacy;
    for (const Json& row : golden.at("decode")) {
      EXPECT_EQ(t->decode(row[0].get<Ids>(), false), row[1].get<std::string>()) << row;
      EXPECT_EQ(t->decode(row[0].get<Ids>(), true), row[2].get<std::string>()) << row;
    }
  }
}

TEST_F(TokenizerTest, Specials) {
  const auto t = make(kNames);
  EXPECT_EQ(t->bos(), 1);
  EXPECT_EQ(t->eos(), 2);
  EXPECT_EQ(t->unk(), 0);
  EXPECT_EQ(t->pad(), std::nullopt);
  EXPECT_EQ(t->encode_with_specials("Ada"), (Ids{1, 301}));
  EXPECT_EQ(t->size(), 400);
  EXPECT_EQ(t->token(301),
            "\xE2\x96\x81"
            "Ada");
  EXPECT_EQ(t->id("\xE2\x96\x81"
                  "Ada"),
            301);
  EXPECT_EQ(t->id("nothing like it"), std::nullopt);
  EXPECT_TRUE(t->is_special(2));
  EXPECT_FALSE(t->is_special(301));
  EXPECT_EQ(make(kNames + R"(, "add_bos_token": false, "add_eos_token": true)")->encode_with_specials("Ada"),
            (Ids{301, 2}));
  // Without any other file the model has LLaMA's usual names.
  std::filesystem::remove(scratch.folder() / "tokenizer_config.json");
  EXPECT_EQ(make_tokenizer(scratch.folder())->encode_with_specials("Ada"), (Ids{1, 301}));
}

TEST_F(TokenizerTest, PrefixSpaceCanBeSwitchedOff) {
  for (const char* legacy : {"true", "false"}) {
    const auto t = make(kNames + R"(, "add_prefix_space": false, "legacy": )" + legacy);
    EXPECT_EQ(t->encode("Ada"), (Ids{378, 290}));
    EXPECT_EQ(t->encode(" Ada"), (Ids{301}));
    EXPECT_EQ(t->decode(Ids{301}, false), " Ada");
  }
}

TEST_F(TokenizerTest, AddedTokens) {
  const std::string decoder = R"(, "added_tokens_decoder": {
    "400": {"content": "<|im_start|>", "special": true},
    "402": {"content": "<tool>", "lstrip": true, "rstrip": true},
    "0": {"content": "<unk>", "special": true}}, "additional_special_tokens": ["<|im_start|>", "<|more|>"],
    "pad_token": {"content": "<pad>", "__type": "AddedToken"})";
  const auto t = make(kNames + decoder);
  EXPECT_EQ(t->size(), 405);
  EXPECT_EQ(t->id("<|more|>"), 404);
  EXPECT_EQ(t->pad(), 403);
  EXPECT_EQ(t->encode("<|im_start|>Ada <tool>  Ada"), (Ids{400, 301, 402, 301}));
  EXPECT_EQ(t->decode(Ids{400, 301, 402, 403}, false), "<|im_start|> Ada<tool><pad>");
  EXPECT_EQ(t->decode(Ids{400, 301, 402, 403}, true), "Ada<tool>");
  EXPECT_EQ(t->token(401), "");                                // no token has this id
  EXPECT_EQ(t->decode(Ids{405, 301, 401, -1}, false), "Ada");  // ids without a token give no text
  const std::int32_t first = *t->id("<0xE2>"), second = *t->id("<0x82>"), third = *t->id("<0xAC>");
  EXPECT_EQ(t->decode(Ids{first, 405, second, 401, third}, false), "\xE2\x82\xAC");
}

TEST_F(TokenizerTest, OlderFiles) {
  scratch.write("added_tokens.json", R"({"<tool>": 400, "<end>": 401})");
  scratch.write("special_tokens_map.json",
                R"({"eos_token": {"content": "<end>"},
                                               "additional_special_tokens": ["<tool>"]})");
  const auto t = make(kNames);
  EXPECT_EQ(t->eos(), 401);  // the map takes precedence
  EXPECT_TRUE(t->is_special(400));
  EXPECT_EQ(t->encode("<tool>Ada"), (Ids{400, 301}));
}

TEST_F(TokenizerTest, CleansUpSpacesWhenAsked) {
  const Ids ids = make(kNames)->encode("Ada , 'tis n't !");
  EXPECT_EQ(make(kNames)->decode(ids, false), "Ada , 'tis n't !");
  EXPECT_EQ(make(kNames + R"(, "clean_up_tokenization_spaces": true)")->decode(ids, false), "Ada, 'tisn't!");
}

TEST_F(TokenizerTest, SettingsErrors) {
  EXPECT_EQ(error(R"("tokenizer_class": "GemmaTokenizer")"),
            "/tokenizer.model: its tokenizer is a GemmaTokenizer, which ft reads only from a tokenizer.json; "
            "put that file next to it");
  EXPECT_EQ(error(kNames + R"(, "added_tokens_decoder": {"x": {"content": "a"}})"),
            "/tokenizer_config.json: added_tokens_decoder.x must be under the number of a token, is an "
            "object of 1 key");
  EXPECT_EQ(error(kNames + R"(, "sp_model_kwargs": {"enable_sampling": true})"),
            "/tokenizer_config.json: sp_model_kwargs must be empty, is an object of 1 key");
  EXPECT_EQ(
      error_of(Exit::input,
               [&] {
                 make(kNames +
                      R"(, "added_tokens_decoder": {"400": {"content": "a"}, "0400": {"content": "b"}})");
               }),
      "the tokenizer's added tokens b and a are both 400");
  EXPECT_EQ(error_of(Exit::input, [&] { make(R"("bos_token": null)"); }),
            "tokenizer_config.json: add_bos_token is true, but there is no bos_token");
}

TEST_F(TokenizerTest, OtherFolders) {
  std::filesystem::remove(scratch.folder() / "tokenizer.model");
  const std::string folder = scratch.folder().string();
  const auto problem = [&] { return error_of(Exit::input, [&] { make_tokenizer(folder); }); };
  EXPECT_EQ(problem(),
            folder +
                ": no tokenizer: there is neither a tokenizer.json nor a tokenizer.model in the model's "
                "folder. Text data needs one; data with input_ids does not");
  EXPECT_EQ(error_of(Exit::input, [&] { make_tokenizer(scratch.write("notes.txt", "")); }),
            folder +
                "/notes.txt: not a tokenizer that ft can read; it reads tokenizer.json, tokenizer.model, and "
                "vocab.json with merges.txt");
}

// Returns a protobuf field of wire type 2.
std::string field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (std::size_t n = bytes.size(); out.size() < 10; n >>= 7) {
    out += static_cast<char>((n & 0x7F) | (n > 0x7F ? 0x80 : 0));
    if (n <= 0x7F) break;
  }
  return out + bytes;
}
std::string piece(const std::string& text, char kind) {
  return field(1, field(1, text) + std::string("\x18") + kind);
}

TEST_F(TokenizerTest, BrokenModels) {
  const std::string unk = piece("<unk>", 2);
  const std::string prefix = "tokenizer.model: not a valid SentencePiece model: ";
  EXPECT_EQ(model_error(""), prefix + "it is empty");
  EXPECT_EQ(model_error("not protobuf"), prefix + "a field of unknown type");
  EXPECT_EQ(model_error(field(2, "")), prefix + "it has no pieces");
  EXPECT_EQ(model_error(piece("a", 1)), prefix + "it has 0 unknown pieces instead of one");
  EXPECT_EQ(model_error(unk + unk), prefix + "piece 1 (<unk>) appears twice");
  EXPECT_EQ(model_error(unk + piece("", 1)), prefix + "piece 1 is empty");
  EXPECT_EQ(model_error(unk + piece("\xFF", 1)), prefix + "piece 1 is not UTF-8 text");
  EXPECT_EQ(model_error(unk + piece("a", 9)), prefix + "piece 1 has an unknown type");
  EXPECT_EQ(model_error(unk + field(1, field(1, "a") + std::string("\x15\x00\x00\xC0\x7F", 5))),
            prefix + "piece 1 has a score that is not finite");
  EXPECT_EQ(model_error(unk + field(2, std::string("\x98\x02\x01", 3))),
            prefix + "it has 0 byte pieces instead of 256");
  EXPECT_EQ(model_error(unk + field(3, field(2, "abc"))), prefix + "the normalization table is cut short");
  EXPECT_EQ(model_error(unk + field(3, field(2, std::string("\xFF\xFF\xFF\x7F table", 10)))),
            prefix + "the normalization table has a wrong size");
  std::string table("\0\4\0\0", 4);
  for (int i = 0; i < 256; ++i) table += std::string("\xFF\xFF\xFF\x7F", 4);
  EXPECT_EQ(model_error(unk + field(3, field(2, table + std::string(1, '\0')))),
            prefix + "the normalization table points outside itself");
  EXPECT_EQ(model_error(std::string("\x0A\xFF\xFF\xFF\xFF\xFF\x3F\x61", 8)),
            prefix + "cut short: 2199023255551 bytes are announced and 1 are left");
}

// A damaged file is refused or works; it never crashes.
TEST_F(TokenizerTest, DamagedModelsNeverCrash) {
  const std::string whole = read_file(kTiny + "tokenizer.model", 1 << 20);
  for (std::size_t i = 0; i < whole.size(); i += 97) {
    for (const bool cut : {true, false}) {
      std::string bytes = cut ? whole.substr(0, i) : whole;
      if (!cut) bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
      scratch.write("tokenizer.model", bytes);
      try {
        const auto t = make_tokenizer(scratch.folder());
        t->decode(t->encode("Ada has \xF0\x9F\x98\x80 apples, <s> and Omar"), true);
      } catch (const UserError& e) {
        EXPECT_EQ(e.code, Exit::input);
      }
    }
  }
}

TEST(AddedTokensTest, LongestFirstAndCompleteWords) {
  const AddedTokens tokens({{.content = "ab", .id = 1},
                            {.content = "abc", .id = 2},
                            {.content = "xy", .id = 3, .single_word = true}});
  const auto ids = [&](std::string_view text) {
    std::string out;
    for (const auto& part : tokens.split(text))
      out += part.id < 0 ? "'" + std::string(part.text) + "'" : std::to_string(part.id);
    return out;
  };
  EXPECT_EQ(ids("ababcabd"), "121'd'");
  EXPECT_EQ(ids(""), "");
  EXPECT_EQ(ids("a b"), "'a b'");
  EXPECT_EQ(ids("xy xyz axy xy"), "3' xyz axy '3");
}

TEST(Utf8, WhiteSpace) {
  EXPECT_EQ(strip_left(" \t\xC2\xA0\xE3\x80\x80 a "), "a ");
  EXPECT_EQ(strip_right(" a\xE2\x80\x89\n"), " a");
  EXPECT_EQ(strip_right("\xE2\x80\x8B"), "\xE2\x80\x8B");  // a zero-width space is not white space
  EXPECT_TRUE(is_utf8("\xF0\x9F\x98\x80"));
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5", "\xE4\xBD"})
    EXPECT_FALSE(is_utf8(bad));
}

}  // namespace
}  // namespace ft
